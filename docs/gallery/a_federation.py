# # A federation
#
# Each of ten clients has its own stream. They learn together through a server. In each round, a
# client sends a limited number of values and never its rows.

# %%
# A column names the client of each row. For five of the ten shops the target is a rough function of
# the inputs, for the others a smooth one.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import omkl

ROWS = 20_000

rng = np.random.default_rng(7)
shop = rng.integers(10, size=ROWS)
a, b = rng.uniform(-1, 1, size=(2, ROWS))
y = 0.5 + 0.4 * np.where(shop < 5, np.sin(14.0 * a), np.sin(1.5 * a + b))
table = pd.DataFrame({"shop": shop, "a": a, "b": b, "y": y + rng.normal(0, 0.02, ROWS)})
table.to_csv("shops.csv", index=False)

# %%
# With POF-MKL, each client has its own weights of the kernels. With vM-KOFL, all clients share
# them.

setting = [
    "dataset=file", "dataset.path=shops.csv", "dataset.target=y", "federation=column",
    "dataset.client_column=shop", "kernels=rbf9", "max_upload=600",
    "algorithm.eta=0.5", "seeds=2",
]  # fmt: skip
runs = {
    "POF-MKL": omkl.run("algorithm=pof_mkl", "algorithm.eta_k=0.5", "algorithm.M=3", *setting),
    "vM-KOFL": omkl.run("algorithm=vm_kofl", "algorithm.eta_w=0.5", *setting),
}

# %%
# Each learner has as many random features as its messages can carry.

for name, run in runs.items():
    sent = run["federated"]["up"]["numbers_a_round"]
    print(f"{name}: {run['D']} features, {sent:.0f} numbers per client and round, ", end="")
    print(f"mean squared error {run['mse_mean']:.5f}")

# %%
# The figure shows the mean squared error of all clients' predictions so far.

fig, ax = plt.subplots(figsize=(6, 3.4))
for (name, run), line in zip(runs.items(), ("-", "--"), strict=True):
    curve = run.curves.groupby("t")["mse"].mean()
    ax.plot(curve.index[1:], curve.to_numpy()[1:], line, label=name)
ax.set(xlabel="rounds", ylabel="mean squared error so far", yscale="log")
legend = ax.legend(frameon=False)
