# # Targets on request
#
# If targets are expensive, a learner can request some of them only. AMKL requests a target if its
# kernels disagree. This script compares it with a learner that requests targets at random.

# %%
# Six of seven rows of this stream are alike, and a learner soon knows them. Every seventh row
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
# A program handles one row at a time. `learner.asks` is true if the learner requests the target.

steps = {"eta": 0.3, "eta_g": 0.3, "M": 20, "kernels": "rbf9", "seed": 3}
learner = omkl.learner("amkl", inputs=2, eta_c=0.3, **steps)
bought = 0
for x, label in zip(X[:200], y[:200], strict=True):
    y_hat = learner.predict_one(x)
    bought += learner.asks
    learner.learn_one(x, label if learner.asks else None)
print(f"{bought} of 200 targets requested")

# %%
# To compare several thresholds, give all rows at once. Only requested targets are learned.


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
# Requests where kernels disagree are better here because most rows are alike. If all rows are
# equally new, random requests are as good.
