# # Targets on request
#
# Where every target costs something, a learner may request only some of them. AMKL requests a
# target where its kernels disagree. Beside it stands a learner that requests at random.

# %%
# The stream: most rows are alike, and soon there is nothing more to learn from them. One in seven
# differs.

import matplotlib.pyplot as plt
import numpy as np

import omkl

ROWS = 6_000

rng = np.random.default_rng(2)
rare = rng.random(ROWS) < 1 / 7
unlike, alike = rng.uniform(-2, 2, size=(ROWS, 2)), rng.normal(0, 0.05, size=(ROWS, 2))
X = np.where(rare[:, None], unlike, alike)
y = np.sin(2.0 * X[:, 0]) + 0.5 * np.cos(2.0 * X[:, 1]) + rng.normal(0, 0.02, ROWS)

# %%
# One row at a time, as a program would do it: `learner.asks` is true where the target is requested.

steps = {"eta": 0.3, "eta_g": 0.3, "M": 20, "kernels": "rbf9", "seed": 3}
learner = omkl.learner("amkl", inputs=2, eta_c=0.3, **steps)
bought = 0
for x, label in zip(X[:200], y[:200], strict=True):
    y_hat = learner.predict_one(x)
    bought += learner.asks
    learner.learn_one(x, label if learner.asks else None)
print(f"{bought} of 200 targets requested")

# %%
# Many rows at once, for several thresholds. A target that was not requested is not learned.


def cost(algorithm: str, **params: float) -> tuple[float, float]:
    """The share of targets that it requested, and its mean squared error on all rows."""
    learner = omkl.learner(algorithm, inputs=2, **steps, **params)
    predicted = learner.partial_fit(X, y)
    return predicted.asked.mean(), np.mean((predicted.y_hat - y) ** 2)


chosen = [cost("amkl", eta_c=price) for price in (0.003, 0.03, 0.1, 0.3, 1.0, 2.0)]
random = [cost("amkl_random", rate=rate) for rate in (0.9, 0.7, 0.5, 0.3, 0.15, 0.05)]

fig, ax = plt.subplots(figsize=(6, 3.4))
ax.plot(*zip(*random, strict=True), "o--", color="0.5", label="requests at random")
ax.plot(*zip(*chosen, strict=True), "o-", color="C0", label="requests where kernels disagree")
ax.set(xlabel="share of targets requested", ylabel="mean squared error", yscale="log")
legend = ax.legend(frameon=False)
for share, error in chosen:
    print(f"{share:.2f} of the targets: error {error:.5f}")

# %%
# That is because most rows here are alike. On a stream whose rows are all about equally new, such
# as twelve clouds of one size, requesting at random is as good.
