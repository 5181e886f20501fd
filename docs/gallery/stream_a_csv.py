# # Stream a CSV
#
# A file with categories, dates and missing values is streamed row by row. Every row is predicted
# before its target is read. There is nothing to scale, to encode or to tune.

# %%
# The file has hourly rentals of bicycles, which depend on the hour, the weather and the
# temperature. Some temperatures are missing, and in the last third there are many more customers.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import omkl

ROWS = 6_000

rng = np.random.default_rng(0)
when = pd.date_range("2025-03-01", periods=ROWS, freq="h")
weather = rng.choice(["sun", "cloud", "rain"], size=ROWS, p=[0.5, 0.3, 0.2])
degrees = 12.0 + 6.0 * np.sin(2.0 * np.pi * (when.hour - 9) / 24) + rng.normal(0, 2, ROWS)
rush = np.exp(-0.5 * ((when.hour - 17) / 2.5) ** 2)
customers = np.where(np.arange(ROWS) < 2 * ROWS // 3, 1.0, 1.6)
rentals = customers * (20 + 180 * rush * np.where(weather == "rain", 0.3, 1.0) + 2 * degrees)
rentals = (rentals + rng.normal(0, 8, ROWS)).round()
degrees = np.where(rng.random(ROWS) < 0.05, np.nan, degrees.round(1))

table = pd.DataFrame({"when": when, "weather": weather, "degrees": degrees, "rentals": rentals})
table.to_csv("rentals.csv", index=False)
print(table.head(3).to_string(index=False))

# %%
# ## One run
#
# `omkl.run` does what `omkl-run dataset=file dataset.path=rentals.csv dataset.target=rentals` does
# on the command line, and `model=True` saves the learner. The run has three baselines: the running
# mean of the targets, the last target, and a linear ridge.

run = omkl.run(
    "dataset=file", "dataset.path=rentals.csv", "dataset.target=rentals", seeds=1, model=True
)
print(f"{run['algorithm']:6} {run['rmse']:6.1f} rentals off")
for name, baseline in run["baselines"].items():
    print(f"{name:6} {baseline['rmse']:6.1f}")

# %%
# The figure shows six days around the change. Each prediction was made before the rentals of its
# row were known.

rows = run.predictions
change = 2 * ROWS // 3
shown = slice(change - 72, change + 72)
fig, ax = plt.subplots(figsize=(6, 3.2))
ax.plot(rows["row"][shown], rows["y"][shown], color="0.6", label="rentals")
ax.plot(rows["row"][shown], rows["y_hat"][shown], color="C0", label="predicted")
ax.axvline(change, color="0.3", lw=0.8, ls=":")
ax.set(xlabel="row", ylabel="rentals per hour")
legend = ax.legend(frameon=False)

# %%
# ## The learner goes on
#
# The saved learner is one file without code. `omkl-predict` writes its predictions for another
# file. In a program it continues to learn row by row.

learner = omkl.load_learner(run.model)
print(learner)
