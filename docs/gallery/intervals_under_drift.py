# # Intervals under drift
#
# In the middle of this stream the function changes. The intervals of `interval=0.9` still cover 90
# % of the targets, because they widen after targets outside them.

# %%
# The stream has two inputs. The sign of its target flips in the middle.

import matplotlib.pyplot as plt
import numpy as np

import omkl

ROWS = 8_000

rng = np.random.default_rng(1)
X = rng.normal(size=(ROWS, 2))
sign = np.where(np.arange(ROWS) < ROWS // 2, 1.0, -2.0)
y = sign * np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + rng.normal(0, 0.1, ROWS)

# %%
# The learner, an ensemble of Gaussian processes, does not forget old rows. It also predicts a
# standard deviation. If its assumptions were true, 1.645 deviations on both sides would cover 90 %.

learner = omkl.learner("ie_gp", inputs=2, interval=0.9)
predicted = learner.partial_fit(X, y)

adaptive = (predicted.low <= y) & (y <= predicted.high)
own = np.abs(y - predicted.y_hat) <= 1.645 * predicted.spread
for name, held in (("adaptive", adaptive), ("its own", own)):
    first, second = held[: ROWS // 2], held[ROWS // 2 :]
    print(f"{name:8}  before {first.mean():.3f}  after {second.mean():.3f}")

# %%
# The upper figure shows the coverage of both kinds of intervals in 40 windows. The lower figure
# shows the adaptive intervals around the change.

n = ROWS // 40
windows = np.arange(40) * n + n / 2
fig, (top, bottom) = plt.subplots(2, figsize=(6, 5.4))
top.plot(windows, adaptive[: 40 * n].reshape(40, n).mean(axis=1), label="adaptive")
top.plot(windows, own[: 40 * n].reshape(40, n).mean(axis=1), "--", label="from its deviation")
top.axhline(0.9, color="0.3", lw=0.8, ls=":")
top.set(xlabel="row", ylabel="share of targets covered", ylim=(0, 1.03))
top.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
shown = np.arange(ROWS // 2 - 75, ROWS // 2 + 75)
bottom.fill_between(
    shown, predicted.low[shown], predicted.high[shown], color="C0", alpha=0.25, lw=0
)
bottom.plot(shown, y[shown], ".", color="0.3", ms=3)
bottom.set(xlabel="row", ylabel="target and interval")
fig.tight_layout()
