# # Compare with River
#
# The estimators of `omkl.river` work with River's pipelines, metrics and progressive validation.
# This script runs one of them and four models of River on two data sets of River.

# %%
# Each model predicts a row and then learns its target.

import time

import matplotlib.pyplot as plt
from river import datasets, evaluate, forest, linear_model, metrics, neighbors, preprocessing, tree

import omkl.river

ROWS = 1_000

models = {
    "linear regression": preprocessing.StandardScaler() | linear_model.LinearRegression(),
    "nearest neighbours": preprocessing.StandardScaler() | neighbors.KNNRegressor(),
    "Hoeffding tree": preprocessing.StandardScaler() | tree.HoeffdingAdaptiveTreeRegressor(seed=1),
    "Mondrian forest": forest.AMFRegressor(seed=1),
    "omkl": omkl.river.OnlineMKLRegressor(seed=1),
}
streams = {
    "TrumpApproval": list(datasets.TrumpApproval())[:ROWS],
    "ChickWeights": list(datasets.ChickWeights())[:ROWS],
}

# %%
# The numbers are mean absolute errors, and microseconds of processor time per row. The first lines
# load compiled code, which is not timed.

learner = omkl.river.OnlineMKLRegressor()
learner.predict_one({"x": 1.0})
learner.learn_one({"x": 1.0}, 1.0)

errors: dict[str, dict[str, float]] = {}
for name, model in models.items():
    errors[name] = {}
    for stream_name, stream in streams.items():
        start = time.process_time()
        metric = metrics.MAE()
        evaluate.progressive_val_score(stream, model.clone(), metric)
        each = 1e6 * (time.process_time() - start) / len(stream)
        errors[name][stream_name] = metric.get()
        print(f"{name:18}  {stream_name:13}  error {metric.get():7.3f}  {each:6.0f} us per row")

# %%
# The figure divides each error by that of River's best model.

fig, ax = plt.subplots(figsize=(6, 3.0))
for number, stream_name in enumerate(streams):
    least = min(errors[name][stream_name] for name in models if name != "omkl")
    ratios = [errors[name][stream_name] / least for name in models]
    places = [k + 0.38 * number for k in range(len(models))]
    ax.barh(places, ratios, height=0.34, label=stream_name, color=("#0072b2", "#e69f00")[number])
ax.set_yticks([k + 0.19 for k in range(len(models))], list(models))
ax.axvline(1.0, color="0.3", lw=0.8, ls=":")
ax.set(xlabel="error divided by that of River's best model", xscale="log")
legend = ax.legend(frameon=False)
