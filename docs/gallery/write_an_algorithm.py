# # Write an algorithm
#
# An algorithm is one Python file with three steps and one YAML with its parameters. It may be part
# of your own package, and is chosen by its name like the algorithms of omkl. This script runs the
# template that comes with omkl, `docs/template`.

# %%
# Fixed share moves a part of the weights to all kernels in every row, so that another kernel can
# become the best one later. Its three steps follow. The docstring above them is the paper's box.

import inspect
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import omkl
from omkl.utils import registry

ROWS = 6_000

sys.path.append(str(Path(omkl.__file__).parents[1] / "docs" / "template"))
import mypkg.fixed_share as fixed_share  # noqa: E402

for step in (fixed_share.select, fixed_share.predict, fixed_share.update):
    print(inspect.getsource(step))

# %%
# A script declares the algorithm by its name. An installed package has an entry point instead.

registry.declare("fixed_share", "mypkg.fixed_share")

# %%
# In this stream the best kernel changes: the target is smooth in the first half and rough in the
# second half.

rng = np.random.default_rng(4)
X = rng.uniform(-1, 1, size=(ROWS, 2))
smooth = 0.5 + 0.4 * np.sin(2.0 * X[:, 0])
rough = 0.5 + 0.4 * np.sin(12.0 * X[:, 0])
y = np.where(np.arange(ROWS) < ROWS // 2, smooth, rough) + rng.normal(0, 0.02, ROWS)

fig, ax = plt.subplots(figsize=(6, 3.2))
for name, line in (("raker", "--"), ("fixed_share", "-")):
    learner = omkl.learner(name, inputs=2, kernels="rbf9", scaling="none", eta=0.3, D=30)
    squared = (learner.partial_fit(X, y).y_hat - y) ** 2
    halves = squared[: ROWS // 2].mean(), squared[ROWS // 2 :].mean()
    print(f"{registry.title(name):12} first half {halves[0]:.4f}, second half {halves[1]:.4f}")
    n = max(1, ROWS // 100)
    means = squared[: len(squared) // n * n].reshape(-1, n).mean(axis=1)
    ax.plot(np.arange(len(means)) * n + n / 2, means, line, label=registry.title(name))
ax.set(xlabel="row", ylabel="mean squared error", yscale="log")
legend = ax.legend(frameon=False)

# %%
# `omkl-check fixed_share` runs the conformance suite. It checks whether the algorithm reads targets
# too early, uses kernels that it did not select, or predicts differently for another block size.
# `omkl-run -m algorithm=raker,fixed_share dataset=naval` compares it with Raker.
