# # Ten million rows
#
# The memory of a learner does not grow with the stream, and a row takes microseconds. So a stream
# may have any length.

# %%
# This script generates rows in blocks. They could also come from a socket or, with
# `omkl.open_stream`, from a file. In the middle of the stream the function changes.

import resource
import time

import matplotlib.pyplot as plt
import numpy as np

import omkl

ROWS = 10_000_000
BLOCK = 50_000


def blocks():
    """Blocks of at most BLOCK rows: X (n, 4) and y (n,)."""
    rng = np.random.default_rng(6)
    for start in range(0, ROWS, BLOCK):
        X = rng.uniform(-1, 1, size=(min(BLOCK, ROWS - start), 4))
        phase = 0.0 if start < ROWS // 2 else 2.0
        y = 0.5 + 0.3 * np.sin(4.0 * X[:, 0] + phase) * X[:, 1] + 0.1 * X[:, 2] ** 2
        yield X, y + rng.normal(0, 0.02, len(y))


# %%
# The learner is recursive least squares on 160 random features of one kernel. About the last
# 10,000 rows count. The memory is the largest memory of the process so far.

learner = omkl.learner("ewrls", inputs=4, D=80, bandwidth=6.0, lam=1e-3, decay=0.9999)
rows, errors, seconds, megabytes = [], [], [], []
start = time.process_time()
for X, y in blocks():
    predicted = learner.partial_fit(X, y)
    rows.append(learner.n_rows)
    errors.append(np.mean((predicted.y_hat - y) ** 2))
    seconds.append(time.process_time() - start)
    megabytes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
each = 1e6 * seconds[-1] / rows[-1]
print(f"{rows[-1]:,} rows in {seconds[-1]:.0f} s of processor time, {each:.1f} us per row")
print(f"memory after the first block {megabytes[0]:.0f} MB, after the last {megabytes[-1]:.0f} MB")
print(f"variance of the noise 0.00040, mean squared error of the last block {errors[-1]:.5f}")

# %%
fig, (top, bottom) = plt.subplots(2, figsize=(6, 5), sharex=True)
top.plot(np.array(rows) / 1e6, errors)
top.set(ylabel="error of a block", yscale="log")
bottom.plot(np.array(rows) / 1e6, megabytes)
bottom.set(xlabel="million rows", ylabel="memory, MB", ylim=(0, None))
fig.tight_layout()
