"""The function that Spark calls with the rows of a bucket, without Spark."""

import pickle

import numpy as np
import pandas as pd
import pytest

import omkl
from omkl import spark

COLUMNS = {"series": "device", "inputs": ["a", "b"]}
N_ROWS, N_SERIES = 240, 12


class State:
    """State of a bucket, with the attributes that Spark's ``GroupState`` has."""

    exists = False

    def update(self, values: tuple[bytes]) -> None:
        self.get, self.exists = values, True


def stream() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"device": np.arange(N_ROWS) % N_SERIES, "n": np.arange(N_ROWS)})
    rows["a"], rows["b"] = rng.normal(size=(2, N_ROWS))
    rows["y"] = 10.0 * rows.device + np.sin(rows.a) + 0.1 * rng.normal(size=N_ROWS)
    rows.loc[::17, "y"] = np.nan
    return rows


def learner_of(learner: object, n_buckets: int, order: str = "n"):
    made = pickle.dumps((type(learner), learner.settings, n_buckets))
    return spark.learner_of_bucket(made, "device", ["a", "b"], "y", order)


@pytest.mark.parametrize(
    ("make", "n_buckets"),
    [
        (lambda: omkl.panel(**COLUMNS), 5),
        (lambda: omkl.panel("raker", **COLUMNS), 1),
        (lambda: omkl.learner("auto", **COLUMNS), 1),
    ],
)
def test_buckets_of_series_predict_as_one_process_in_any_order_of_rows(make, n_buckets) -> None:
    rows, found = stream(), []
    states = {bucket: State() for bucket in range(n_buckets)}
    for k in range(3):
        shuffled = rows[80 * k : 80 * k + 80].sample(frac=1.0, random_state=k)
        for bucket, own in shuffled.groupby(shuffled.device % n_buckets):
            learn = learner_of(make(), n_buckets)  # as in a new process
            found += learn((bucket,), iter([own[:3], own[3:]]), states[bucket])
    said = pd.concat(found).sort_values("n")
    one = make().partial_fit(rows[["a", "b"]].to_numpy(), rows.y, rows.device)
    np.testing.assert_array_equal(said.y_hat, one.y_hat)
    assert said.n.tolist() == rows.n.tolist() and said.device.tolist() == rows.device.tolist()


def test_rows_with_the_same_order_are_a_date_for_auto() -> None:
    rows = stream().assign(date=lambda rows: rows.n // N_SERIES)
    (said,) = learner_of(omkl.learner("auto", **COLUMNS), 1, "date")(None, iter([rows]), State())
    X = rows[["a", "b"]].to_numpy()
    one = omkl.learner("auto", **COLUMNS).partial_fit(X, rows.y, rows.device, dates=rows.date)
    np.testing.assert_array_equal(said.y_hat, one.y_hat)


def test_rows_and_checkpoints_that_do_not_fit_are_refused() -> None:
    rows, state, panel = stream(), State(), omkl.panel(**COLUMNS)
    list(learner_of(panel, 4)(None, iter([rows]), state))
    for learner, n_buckets in ((panel, 8), (omkl.panel(lags=1, **COLUMNS), 4)):
        with pytest.raises(ValueError, match="begin with a new checkpoint"):
            list(learner_of(learner, n_buckets)(None, iter([rows]), state))
    for bad, message in (
        (rows.assign(device=None), "a row has no device"),
        (rows.assign(n=np.nan), "a row has no n"),
        (rows.assign(n=0), "two rows of series 0 have the same n"),
    ):
        with pytest.raises(ValueError, match=message):
            list(learner_of(panel, 4)(None, iter([bad]), State()))
