"""A suite in miniature: what is computed, found again, refused and shown."""

import benchmark
import numpy as np
import pandas as pd
import pytest
from benchmarks.suites import page, running, settings, streams
from benchmarks.suites.settings import Suite
from benchmarks.suites.streams import FAULTS, StreamSettings
from joblib.externals.loky import get_reusable_executor

import omkl

# Models that predict the last target, explode, sleep and die.
MODELS = """
import os, time

class Last:
    y = None
    def predict_one(self, x):
        return self.y
    def learn_one(self, x, y):
        self.y = y

class Explodes(Last):
    def learn_one(self, x, y):
        self.y = 1.0 if self.y is None else self.y * 1e200

class Slow(Last):
    y = 0.0
    def learn_one(self, x, y):
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass

class Dies(Last):
    def learn_one(self, x, y):
        os.kill(os.getpid(), 9)

def last_target(task, n_classes, seed): return Last()
def explodes(task, n_classes, seed): return Explodes()
def slow(task, n_classes, seed): return Slow()
def dies(task, n_classes, seed): return Dies()
"""

SMALL = {
    "name": "small", "version": "test-1", "title": "Small", "task": "regression", "rows": 80,
    "seeds": 2, "prefix": 30, "window": 10, "seconds": 100.0, "kernels": "rbf9", "D": 5,
    "streams": [
        {"name": "switch", "from": "made", "set": "switch"},
        {"name": "board", "from": "made", "set": "board", "task": "classification"},
        {"name": "absent", "from": "package", "package": "no_such_package", "file": "a.csv"},
    ],
    "learners": [
        {"name": "raker"},
        {"name": "raker, tuned", "algorithm": "raker", "grid": {"eta": [1e-9, 0.3]}},
        {"name": "rf/omkc_da_p1"},
    ],
    "published": [{"stream": "switch", "learner": "an oracle", "mae": 0.25, "source": "nowhere"}],
}  # fmt: skip


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    return running.run(Suite(**SMALL), folder, tell=lambda line: None), folder


def test_every_learner_is_scored(ran):
    results, _ = ran
    table = results.table
    of_raker = table[(table["stream"] == "switch") & (table["learner"] == "raker")]
    assert set(of_raker["seed"]) == {0, 1} and set(of_raker["kind"]) == {"ours"}
    assert {"mse", "mae", "us_per_row", "dynamic_regret", "recovery"} == set(of_raker["score"])
    errors = results.means("classification", "error_rate")
    assert list(errors.columns) == ["majority", "last", "linear", "rf/omkc_da_p1"]
    assert 0.0 < errors.loc["board"].min()
    ((stream, learner, why),) = results.missing
    assert (stream, learner) == ("absent", "all") and "pip install --no-deps no_such_pack" in why


def test_the_prefix_chooses_parameters(ran):
    errors = ran[0].means("regression", "mse").loc["switch"]
    assert errors["raker, tuned"] < errors["raker"], "whose steps become smaller"


def test_learners_of_omkl_are_ordinary_runs(ran):
    results, folder = ran
    runs = omkl.load_runs(folder, algorithm="raker")
    of_all_rows = runs[runs["n_rounds"] == 80]
    assert len(of_all_rows) == 2 and set(of_all_rows["dataset"].str[:6]) == {"switch"}
    told = []
    again = running.run(results.suite, folder, tell=told.append)
    same = ["stream", "learner", "seed", "score"]
    kept = lambda table: table[table["score"] == "mse"].set_index(same)["value"]  # noqa: E731
    assert kept(again.table).equals(kept(results.table))
    assert len(omkl.load_runs(folder, algorithm="raker")) == len(runs)


@pytest.mark.slow(3)
def test_models_that_explode_take_too_long_or_die_are_failures(tmp_path, monkeypatch):
    (tmp_path / "some_models.py").write_text(MODELS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:scripts:.")
    get_reusable_executor().shutdown()  # its processes have the path of an earlier test
    names = [f"some_models:{name}" for name in ("last_target", "explodes", "slow", "dies")]
    changes = {"streams": SMALL["streams"][:1], "learners": [], "models": names, "seconds": 1.0}
    results = running.run(Suite(**SMALL | changes), tmp_path, tell=lambda line: None)
    reasons = {learner: why for _, learner, why in results.missing}
    assert "row 4 is not finite" in reasons["explodes"] and "died" in reasons["dies"]
    assert "it took more than 1 s" in reasons["slow"]
    errors = results.means("regression", "mse").loc["switch"]
    assert errors["last_target"] == pytest.approx(errors["last"]) and np.isinf(errors["dies"])


def test_models_see_what_learners_of_omkl_see_or_the_rows_as_they_are(tmp_path):
    rows = streams.load(StreamSettings(**SMALL["streams"][0]), "regression", 80)
    streams.write(rows.frame, tmp_path / "rows.parquet")
    X = rows.frame.drop(columns="target").to_numpy()
    raw = running._arrays(tmp_path / "rows.parquet", rows, "regression", 0, "none")[1]
    assert np.array_equal(raw, X)
    _, scaled, y = running._arrays(tmp_path / "rows.parquet", rows, "regression", 2)
    expected = (X[49] - X[:50].mean(axis=0)) / X[:50].std(axis=0)
    assert scaled[49, :-2] == pytest.approx(np.clip(expected, -4.0, 4.0)), "rows up to this one"
    assert scaled[49, -2] == pytest.approx((y[48] - y[:49].mean()) / y[:49].std())


def test_the_page_has_every_table_and_picture(ran):
    results, folder = ran
    written, *pictures = page.write(results, folder)
    text = written.read_text()
    assert len(pictures) == 4 and all(path.stat().st_size > 10_000 for path in pictures)
    assert all(f"]({path.name})" in text for path in pictures)
    ridge = results.means("regression", "mse").loc["switch", "ridge"]
    assert f"{ridge:.3f}"[:5] in text and "Without scores" in text and "an oracle" in text


def test_algorithms_join_a_suite_by_name():
    suite = settings.read("drift-1", {})
    more, chosen = settings.choose(suite, "raker, tuned; fogd")
    assert chosen == {"raker, tuned", "fogd", "ridge", "linear"}  # the page divides by the last two
    assert [one.name for one in more.learners[len(suite.learners) :]] == ["fogd"]
    with pytest.raises(streams.BadSuite, match="omkc_da_o is no learner of regression-1"):
        settings.choose(settings.read("regression-1", {}), "omkc_da_o")


@pytest.mark.parametrize("name", settings.names())
def test_suites_of_the_repository_pin_their_rows(name):
    suite = settings.read(name, {})
    assert suite.version == "omkl-bench-1" and suite.learners and suite.models
    for stream in suite.streams:
        assert suite.rows in stream.sha256 or stream.set in ("Elec2", "SMTP"), stream.name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": 1}, "colour"),
        ({"rows": 3}, "greater than or equal to 10"),
        ({"prefix": 0}, "no prefix to choose on"),
        ({"streams": SMALL["streams"][:1] * 2}, "two are called switch"),
        ({"learners": [{"name": "gf", "colour": 1}]}, "colour"),
        ({"models": ["river_hut"]}, "no model river_hut"),
        ({"inputs_of_models": "raw", "lags": [0, 2]}, "lags are standardised"),
    ],
)
def test_a_wrong_suite_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Suite(**SMALL | changes)


def test_other_rows_than_those_of_the_suite_are_refused():
    stream = SMALL["streams"][0]
    digest = streams.load(StreamSettings(**stream), "regression", 80).sha256
    streams.load(StreamSettings(**stream, sha256={80: digest}), "regression", 80)
    with pytest.raises(omkl.datasets.DataError, match="other rows than the suite is about"):
        streams.load(StreamSettings(**stream, sha256={80: "0" * 64}), "regression", 80)


def test_rows_without_a_target_are_dropped_and_classes_are_words():
    inputs = pd.DataFrame({"a": [1.5, np.nan, 2.5], "b": [True, False, True]})
    found = streams.table_of(inputs, np.array([1.0, np.nan, 0.0]), "classification")
    assert found["target"].tolist() == ["1", "0"] and found["b"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_in_its_rows_alone(fault):
    clean, found = (
        streams.load(
            StreamSettings(**{"name": "s", "from": "made", "set": "sensors", "fault": name}),
            "regression", 1200,
        )
        for name in ("none", fault)
    )  # fmt: skip
    first, last = found.fault_rows
    differs = found.frame.ne(clean.frame).to_numpy()
    rows = np.flatnonzero(differs.any(axis=1)) + 1
    n = {"none": 0, "offset": 600, "unit": 600, "swapped": 120, "spikes": 20}.get(fault, len(rows))
    assert first == 601 and len(rows) == n and (not n or first <= rows[0] <= rows[-1] <= last)
    assert differs[:, -1].any() == ("target" in fault)


def test_wrong_words_on_the_command_line_are_named(capsys):
    assert benchmark.main(["run", "qiuck"]) == 2
    assert benchmark.main(["run", "quick", "--streams", "nowhere"]) == 2
    told = capsys.readouterr().err
    assert "there is no suite qiuck" in told and "quick has no nowhere" in told
    assert benchmark.main(["list"]) == 0 and "regression-long" in capsys.readouterr().out
