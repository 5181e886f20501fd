"""omkl-benchmark: a suite in miniature, what its files say, and the page of its results."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import omkl
from omkl.benchmark import cells, page, places, running, streams, suite
from omkl.commands import benchmark
from omkl.config.command_line import CommandLine
from omkl.utils.wording import time_left

# One that says the last label, one that explodes, one that sleeps, and one that dies.
PEERS = """
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

class Sleeps(Last):
    def learn_one(self, x, y):
        time.sleep(60)

class Dies(Last):
    def learn_one(self, x, y):
        os.kill(os.getpid(), 9)

def last_label(task, n_classes, seed): return Last()
def explodes(task, n_classes, seed): return Explodes()
def sleeps(task, n_classes, seed): return Sleeps()
def dies(task, n_classes, seed): return Dies()
"""

SMALL = {
    "name": "small",
    "version": "test-1",
    "title": "Small",
    "task": "regression",
    "rows": 80,
    "seeds": 2,
    "prefix": 30,
    "window": 10,
    "seconds": 2.0,
    "kernels": "rbf9",
    "D": 5,
    "streams": [
        {"name": "switch", "from": "made", "set": "switch"},
        {"name": "board", "from": "made", "set": "board", "task": "classification"},
        {"name": "far away", "from": "river", "set": "Elec2", "task": "classification"},
    ],
    "learners": [
        {"name": "raker"},
        {"name": "raker, tuned", "algorithm": "raker", "grid": {"eta": [1e-9, 0.3]}},
        {"name": "rf/omkc_da_p1"},
    ],
    "published": [{"stream": "switch", "learner": "an oracle", "mae": 0.25, "source": "nowhere"}],
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The small suite and the folder of its results."""
    folder = tmp_path_factory.mktemp("small")
    one = suite.checked(SMALL)
    running.run(one, folder, tell=lambda text: None)
    return one, folder


def without_peers(**changed):
    return suite.checked(SMALL | changed)


def test_every_cell_has_its_scores(ran):
    _, folder = ran
    results = cells.results_of(folder)
    of_raker = results.table.query("stream == 'switch' and learner == 'raker'")
    assert set(of_raker["seed"]) == {0, 1} and set(of_raker["kind"]) == {"ours"}
    names = {"mse", "mae", "rmse", "as_run", "sliding", "fading", "us_a_row", "bytes"}
    names |= {"dynamic_regret", "recovery", "mse_to_ridge", "mae_to_ridge"}
    assert set(of_raker["score"]) == names
    assert set(cells.means(results, "classification", "error_rate").columns) == {
        "majority", "last", "linear", "rf/omkc_da_p1",
    }  # fmt: skip
    assert (cells.means(results, "regression", "mse_to_ridge")).empty  # no score of a cell
    published = results.table[results.table["kind"] == "published"].iloc[0]
    assert published["learner"] == "an oracle" and pd.isna(published["seed"])
    assert list(results.table.columns) == ["stream", "learner", "kind", "seed", "score", "value"]


def test_the_prefix_chooses(ran):
    results = cells.results_of(ran[1])
    assert results.cells["switch", "raker, tuned"]["chosen"] == {"eta": 0.3}
    errors = cells.means(results, "regression", "mse").loc["switch"]
    assert errors["raker, tuned"] < errors["raker"]  # whose steps become smaller


def test_the_command_beside_a_row_gives_its_number(ran, tmp_path, monkeypatch):
    _, folder = ran
    monkeypatch.chdir(folder)
    quick = ["regret.ridge_features=false", "regret.kernel_ridge=false"]
    for stream, learner in (("switch", "raker"), ("board", "rf/omkc_da_p1")):
        cell = cells.results_of(folder).cells[stream, learner]
        words = cell["command"].split()
        assert words[0] == "omkl-run"
        printed = omkl.run(*words[1:], *quick, outputs=tmp_path)
        measure = printed["rmse"] if stream == "switch" else printed["error_rate"][0]
        assert measure == cell["scores"]["as_run"][0]  # to the bit


def test_progress_says_how_much_is_done_and_how_long_the_rest_takes(monkeypatch):
    """Two streams of two passes of 10 s: after the first pass three are left."""
    clock = iter([0.0, 10.0, 20.0, 30.0])
    monkeypatch.setattr(running.time, "perf_counter", lambda: next(clock))
    told: list[str] = []
    count = running.Count(told.append, 2)
    for _ in range(2):
        count.next_stream()
        count.total = 2
        count("a pass")
        if count.stream == 1:
            count("a pass")
    assert told == [
        "[stream 1 of 2, 1 of 2, 30 s left] a pass",
        "[stream 1 of 2, 2 of 2, 20 s left] a pass",
        "[stream 2 of 2, 1 of 2, 10 s left] a pass",
    ]
    assert time_left(60.0, 1, 61) == "60 min left" and time_left(1.0, 0, 5) == ""


def test_finished_cells_are_kept_and_others_go_on(ran, tmp_path):
    one = without_peers(streams=SMALL["streams"][:1], learners=SMALL["learners"][:1])
    told: list[str] = []
    running.run(one, tmp_path, tell=told.append)
    assert sum(": raker, seed 1: " in text for text in told) == 1
    once = cells.results_of(tmp_path).cells["switch", "raker"]
    told.clear()
    running.run(one, tmp_path, tell=told.append)
    assert told == []
    more = without_peers(streams=one.streams, learners=one.learners, seeds=3)
    running.run(more, tmp_path, tell=told.append)
    assert len(told) == 1 and "raker, seed 2" in told[0]
    now = cells.results_of(tmp_path).cells["switch", "raker"]
    assert now["seeds"] == [0, 1, 2] and now["scores"]["mse"][:2] == once["scores"]["mse"]
    assert (
        now["scores"]["mse"][:2]
        == cells.results_of(ran[1]).cells["switch", "raker"]["scores"]["mse"]
    )


def test_another_setting_is_another_cell(ran):
    one, folder = ran
    place = running.read_stream(one.streams[0], "regression", one, folder)
    keys = {}
    for changed in ({}, {"window": 11}, {"D": 6}, {"version": "test-2"}, {"title": "Other"}):
        other = without_peers(**changed)
        keys[str(changed)] = {c.folder for c in running.runs_of(other, place, folder)}
    assert keys["{'title': 'Other'}"] == keys["{}"]
    different = [
        keys[text] & keys["{}"] for text in keys if text not in ("{}", "{'title': 'Other'}")
    ]
    assert different[0] == set() and different[2] == set()
    assert {path.name.rpartition("-")[0] for path in different[1]} == {"mean", "last", "ridge"}


def test_finite_numbers_beyond_all_bounds_have_diverged(ran):
    results = cells.results_of(ran[1])
    cell = results.cells["switch", "raker"]
    path = cell.pop("folder")
    absurd = json.loads(json.dumps(cell))
    absurd["scores"]["mse"][1] = 3e30
    cells.write(path, absurd, {})
    now = cells.results_of(ran[1])
    cells.write(path, cell, {})
    assert results.status("switch", "raker") == "complete"
    assert now.status("switch", "raker") == "diverged"
    assert "times that of the running mean" in now.cells["switch", "raker"]["reason"]
    assert np.isinf(cells.means(now, "regression", "mse").loc["switch", "raker"])


def test_peers_that_explode_sleep_or_die_are_cells_that_say_so(tmp_path, monkeypatch):
    (tmp_path / "some_peers.py").write_text(PEERS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{omkl.__path__[0]}/..")
    names = ("last_label", "explodes", "sleeps", "dies")
    told: list[str] = []

    def run(name, seconds):
        peers = [f"some_peers:{name}" for name in names]
        one = without_peers(streams=SMALL["streams"][:1], learners=[], peers=peers, seconds=seconds)
        wanted = lambda stream, entry: entry.name in (name, "last")  # noqa: E731
        running.run(one, tmp_path / name, tell=told.append, wanted=wanted)
        return cells.results_of(tmp_path / name)

    found = {name: run(name, 0.5 if name == "sleeps" else 100.0) for name in names}
    assert {name: results.status("switch", name) for name, results in found.items()} == {
        "last_label": "complete", "explodes": "diverged", "sleeps": "too long", "dies": "failed",
    }  # fmt: skip
    reasons = {name: found[name].cells["switch", name]["reason"] for name in names}
    assert "row 4" in reasons["explodes"] and "SIGKILL" in reasons["dies"]
    assert "more than 0.5 s" in reasons["sleeps"]
    errors = cells.means(found["last_label"], "regression", "mse").loc["switch"]
    assert errors["last_label"] == errors["last"]
    assert np.isinf(cells.means(found["dies"], "regression", "mse").loc["switch", "dies"])
    (tmp_path / "some_peers.py").write_text(PEERS.replace("return Dies()", "return Last()"))
    told.clear()
    assert run("dies", 100.0).status("switch", "dies") == "complete"
    assert len(told) == 1  # its text is another, and so is its cell


def test_peers_see_what_ours_see_or_the_rows_as_they_are(tmp_path, monkeypatch):
    """Nothing looks ahead: the first row is all that the first inputs are scaled by."""
    (tmp_path / "some_peers.py").write_text(PEERS)
    monkeypatch.syspath_prepend(tmp_path)
    found = {}
    for see in ("raw", "scaled"):
        lags = [0, 2] if see == "scaled" else [0]
        peers = {"peers": ["some_peers:last_label"], "learners": [], "lags": lags, "peers_see": see}
        one = without_peers(streams=SMALL["streams"][:1], **peers)
        place = running.read_stream(one.streams[0], "regression", one, tmp_path)
        names = [e.name for e in one.entries("regression") if e.kind == suite.PEER]
        assert names == ["last_label", "last_label, 2 lags"][: len(lags)]
        entry = next(e for e in one.entries("regression") if e.kind == suite.PEER)
        found[see] = running.Runner(one, running.BenchmarkRun(place, entry, tmp_path, {})).X
    X = streams.made("switch", 80, seed=0).X
    assert np.array_equal(found["raw"], X)
    so_far = X[:50]
    expected = np.clip((X[49] - so_far.mean(axis=0)) / so_far.std(axis=0), -4.0, 4.0)
    assert found["scaled"][49] == pytest.approx(expected) and not found["scaled"][0].any()
    X_lagged, y = streams.arrays(streams.opened(place.path, "regression", 2).stream)
    known = y[:49]
    assert X_lagged[49, -2] == pytest.approx((y[48] - known.mean()) / known.std())


def test_a_suite_is_no_part_of_a_run():
    assert "benchmark" not in CommandLine([]).groups()


def test_check_reruns_and_tells_what_differs(ran, capsys):
    _, folder = ran
    found = running.check(folder, most=3)
    assert [one.verdict for one in found] == [running.SAME] * 3
    assert found[0].learner == "mean" and found[-1].stream == "board"
    assert benchmark.main(["check", str(folder), "--cells", "1"]) == 0
    cell = cells.results_of(folder).cells["switch", "mean"]
    path = cell.pop("folder")
    spoilt = json.loads(json.dumps(cell))
    spoilt["scores"]["mse"][0] *= 1.001
    cells.write(path, spoilt, {})
    assert benchmark.main(["check", str(folder), "--cells", "1"]) == 1
    assert "switch: mean, seed 0: other: mse" in capsys.readouterr().out
    cells.write(path, cell, {})


def test_a_cell_that_was_changed_by_hand_is_damaged(ran):
    _, folder = ran
    path = cells.results_of(folder).cells["switch", "mean"]["folder"] / "result.json"
    text = path.read_text()
    path.write_text(text.replace('"complete"', '"diverged"'))
    with pytest.raises(cells.Damaged, match="sha256"):
        cells.results_of(folder)
    assert benchmark.main(["page", str(folder)]) == 1
    path.write_text(text)


def test_the_page_in_four_formats(ran):
    _, folder = ran
    written = {path.name: path for path in page.make(folder)}
    assert {"page.md", "page.html", "page.tex", "results.csv"} < set(written)
    drawn = [path for name, path in written.items() if name.endswith(".png")]
    assert len(drawn) >= 6 and all(path.stat().st_size > 10_000 for path in drawn)
    long = pd.read_csv(written["results.csv"])
    ridge = long.query("learner == 'ridge' and score == 'mse'")["value"].item()
    text = written["page.md"].read_text()
    assert f"{ridge:.3f}"[:5] in text
    assert re.search(r"^\| mean +\| +[\d.]+ +\| +\| +1 +\|$", text, re.M), "one stream, no interval"
    html = written["page.html"].read_text()
    assert html.count("data:image/png") == len(drawn) and "omkl-run algorithm=raker" in html
    assert r"\begin{tabular}" in written["page.tex"].read_text()
    ((stream, learner, status, why),) = cells.what_is_missing(cells.results_of(folder))
    assert (stream, learner, status) == ("far away", "all", "missing") and "download()" in why
    assert why in html


def test_places_are_among_algorithms_as_they_are_and_suites_share_a_file(ran, tmp_path, capsys):
    _, folder = ran
    file = tmp_path / "places.csv"
    file.write_text(
        "# another, commit 1: omkl-benchmark run another\nsuite,task,learner,place,of,rank,ratio,"
        "failed,streams\nanother,regression,gf,1,2,1.0,,3,4\nsmall,regression,gone,1,2,1.0,,0,4\n"
    )
    assert benchmark.main(["page", str(folder), "--places", str(file)]) == 0
    table, heads = places.read(file)
    assert heads["another"] == "# another, commit 1: omkl-benchmark run another"
    learners = "last;linear;majority;mean;raker;rf/omkc_da_p1;ridge"
    assert heads["small"].endswith(f": omkl-benchmark run small --learners '{learners}'")
    of_other = table[table["suite"] == "another"]
    assert of_other[["learner", "place", "ratio", "failed"]].values.tolist() == [["gf", 1, "", 3]]
    own = table[table["suite"] == "small"].set_index(["task", "learner"])
    errors = cells.means(cells.results_of(folder), "regression", "mse").loc["switch"]
    order = errors.drop("raker, tuned").sort_values()  # a tuned learner takes no part
    assert list(own.loc["regression"].index) == list(order.index)
    assert list(own.loc["regression"]["place"]) == [1, 2, 3, 4] and set(own["of"]) == {4}
    expected = errors["raker"] / errors["ridge"]
    assert float(own.loc[("regression", "raker"), "ratio"]) == pytest.approx(expected, rel=5e-3)
    assert ("classification", "rf/omkc_da_p1") in own.index
    assert ("classification", "ridge") in own.index, "called linear there"


def test_algorithms_join_a_suite_on_the_command_line():
    one = suite.read("drift-1")
    more, called = places.with_algorithms(one, ["raker, tuned", "nogd", "ewrls", "auto_classifier"])
    assert called == {"raker, tuned", "nogd", "ewrls", "auto"}, "the last two are there already"
    assert more.learners == [*one.learners, {"name": "nogd"}]
    more, called = places.with_algorithms(one, ["omkl", "-vaw_joint"])
    everything = {"fogd", "omkc_da_o", "majority", "rf/omkc_da_p1", "ewrls"}
    assert everything < called and not {"vaw_joint", "raker, tuned", "river_amf"} & called
    with pytest.raises(suite.BadSuite, match=r"regression-1 has no omkc_da_o; .* for regression"):
        places.with_algorithms(suite.read("regression-1"), ["omkc_da_o"])
    with pytest.raises(suite.BadSuite, match="has no gaff"):
        places.with_algorithms(one, ["omkl", "-gaff"])


@pytest.mark.parametrize("name", suite.names())
def test_the_suites_of_the_package(name):
    one = suite.read(name)
    assert one.version == "omkl-bench-1" and one.learners and one.peers
    for task in one.tasks:
        names = [entry.name for entry in one.entries(task)]
        assert set(suite.TRIVIALS[task]) < set(names) and suite.REFERENCE[task] in names
    for stream in one.streams:
        pinned = one.rows in stream.get("sha256", {})
        assert pinned or stream.get("set") in ("Elec2", "SMTP"), stream["name"]
    if name in ("regression-1", "classification-1"):
        assert len(one.streams) >= 15
    if name == "classification-long":
        assert len(one.streams) >= 10 and one.rows >= 20_000


@pytest.mark.parametrize(
    "changed,told",
    [
        ({"colour": 1}, "no colour"),
        ({"rows": 3}, "rows=3"),
        ({"task": "ranking"}, "task='ranking' is none of"),
        ({"prefix": 0}, "no prefix to choose on"),
        ({"streams": [{"name": "x"}]}, "has a name and from"),
        ({"streams": SMALL["streams"] + SMALL["streams"][:1]}, "two are called switch"),
        ({"learners": [{"name": "gf", "colour": 1}]}, "a learner has a name"),
        ({"learners": [{"name": "no_such_learner"}]}, "no_such_learner"),
        ({"fading": 1.0}, "between 0 and 1"),
        ({"peers_see": "raw", "lags": [0, 2]}, "lags are standardised"),
    ],
)
def test_a_suite_that_cannot_be_is_refused(changed, told):
    with pytest.raises(suite.BadSuite, match=told):
        suite.checked(SMALL | changed)


def test_what_is_typed_wrongly_is_told(capsys, tmp_path):
    assert benchmark.main(["run", "qiuck"]) == 2
    assert benchmark.main(["run", "quick", "--streams", "nowhere"]) == 2
    assert benchmark.main(["page", str(tmp_path)]) == 1
    (tmp_path / "file").touch()
    assert benchmark.main(["run", "quick", "--to", str(tmp_path / "file" / "quick")]) == 1
    told = capsys.readouterr().err
    assert f"cannot use {tmp_path / 'file' / 'quick'}: Not a directory" in told
    assert "there is no suite qiuck" in told and "has no nowhere" in told
    assert "no folder of omkl-benchmark" in told


def test_names_of_streams_may_have_commas():
    known = {"Friedman, abrupt", "SEA", "LED"}
    assert benchmark.names_in("Friedman, abrupt; SEA", known) == {"Friedman, abrupt", "SEA"}
    assert benchmark.names_in("Friedman, abrupt", known) == {"Friedman, abrupt"}
    assert benchmark.names_in("SEA,LED", known) == {"SEA", "LED"}


def test_what_was_there_stays_in_the_index_of_a_run_that_is_stopped(tmp_path):
    one = without_peers(streams=SMALL["streams"][:2], learners=[])
    running.run(one, tmp_path, tell=lambda text: None)
    more = without_peers(streams=SMALL["streams"][:2], learners=SMALL["learners"])

    def stop(text):
        if "board" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        running.run(more, tmp_path, tell=stop)
    found = set(cells.results_of(tmp_path).cells)
    assert {("switch", "raker"), ("board", "majority")} < found


def test_what_was_computed_on_a_stream_that_has_gone_stays(tmp_path, monkeypatch):
    one = without_peers(streams=SMALL["streams"][:1], learners=[])
    running.run(one, tmp_path, tell=lambda text: None)
    before = cells.results_of(tmp_path).table
    gone = "pip install --no-deps it"

    def missing(*given):
        raise ImportError(gone)

    monkeypatch.setattr(streams, "load", missing)
    told: list[str] = []
    running.run(one, tmp_path, tell=told.append)
    assert told == [f"switch: not there: {gone}"]
    pd.testing.assert_frame_equal(cells.results_of(tmp_path).table, before)
    running.run(one, tmp_path / "fresh", tell=told.append)
    assert cells.results_of(tmp_path / "fresh").cells == {}
    page.make(tmp_path / "fresh")
    text = (tmp_path / "fresh" / "page" / "page.md").read_text()
    assert "No stream of it is there" in text and gone in text


def test_a_suite_of_ones_own(tmp_path, capsys):
    (tmp_path / "mine.yaml").write_text(json.dumps({k: v for k, v in SMALL.items() if k != "name"}))
    assert benchmark.main(["list", str(tmp_path / "mine.yaml")]) == 0
    told = capsys.readouterr().out
    assert "switch" in told and "not there: river.datasets.Elec2" in told
    assert benchmark.main(["list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in suite.names())
    assert benchmark.main(["list", str(tmp_path / "other.yaml")]) == 2


def test_rows_other_than_those_of_the_suite_are_refused():
    entry = dict(SMALL["streams"][0])
    digest = streams.load(entry, "regression", 80).stated["sha256"]
    assert streams.load(entry | {"sha256": {80: digest}}, "regression", 80)
    with pytest.raises(streams.OtherRows, match="other rows than the suite is about"):
        streams.load(entry | {"sha256": {80: "0" * 64}}, "regression", 80)
    with pytest.raises(suite.BadSuite, match="no generator"):
        streams.load(entry | {"set": "nothing"}, "regression", 80)
    with pytest.raises(ImportError, match="pip install --no-deps no_such_package"):
        missing = {"name": "x", "from": "package", "package": "no_such_package", "file": "a.csv"}
        streams.load(missing | {"target": "y"}, "regression", 80)


def test_rows_without_a_target_are_left_out_and_words_become_inputs(tmp_path):
    frame = pd.DataFrame({"a": [1.5, np.nan, 2.5, 0.5], "b": ["x", "y", "x", "y"]})
    entry = {"name": "own", "from": "package", "order": "file"}
    found = streams.table_of(entry, frame, np.array([1.0, 2.0, np.nan, 4.0]), "regression")
    assert len(found) == 3 and list(found.columns) == ["a", "b", "target"]
    rows = streams.Rows(found, None, (), {})
    streams.write(rows, tmp_path / "streams" / "own.parquet")
    stream = streams.opened(tmp_path / "streams" / "own.parquet", "regression", 0).stream
    X, y = streams.arrays(stream)
    assert stream.inputs == ("a", "b=x", "b=y") and y.tolist() == [1.0, 2.0, 4.0]
    assert X[1, 0] == 0.0  # a blank is the mean so far
    classes = streams.table_of(entry, frame, np.array([1.0, 0.0, 1.0, 0.0]), "classification")
    assert classes["target"].tolist() == ["1", "0", "1", "0"]


@pytest.mark.parametrize("fault", suite.FAULTS)
def test_a_fault_is_in_its_rounds_alone(fault):
    entry = {"name": "s", "from": "made", "set": "sensors", "fault": fault}
    clean = streams.load(entry | {"fault": "none"}, "regression", 1200).frame
    found = streams.load(entry, "regression", 1200)
    first, last = found.stated["fault_rounds"]
    differs = found.frame.ne(clean).to_numpy()
    rows = np.flatnonzero(differs.any(axis=1)) + 1
    n = {"none": 0, "offset": 600, "unit": 600, "swapped": 120, "spikes": 20}.get(fault, len(rows))
    assert first == 601 and len(rows) == n and (not n or first <= rows[0] <= rows[-1] <= last)
    assert fault == "none" or found.stated["sha256"] != streams.rows_sha256(clean)
    assert differs[:, -1].any() == ("target" in fault)
    with pytest.raises(suite.BadSuite, match="no fault 'rust'; there are: none, one bad cell"):
        streams.load(entry | {"fault": "rust"}, "regression", 1200)


def test_errors_after_a_fault_are_a_table_by_fault(tmp_path):
    described = {"from": "made", "set": "sensors"}
    listed = [{"name": "a", **described, "faults": True}, {"name": "b", **described}]
    assert len(suite.checked(SMALL | {"streams": listed}).streams) == len(suite.FAULTS) + 1
    wanted = [{"name": f, **described, "fault": f} for f in ("none", "offset")]
    changed = {"streams": wanted, "rows": 1300, "peers": [], "published": [], "seeds": 1}
    one = suite.checked(SMALL | changed | {"learners": [{"name": "vaw2"}]})
    running.run(one, tmp_path, tell=lambda text: None)
    ratios = cells.means(cells.results_of(tmp_path), "regression", "after_fault")
    assert ratios.loc["none"].between(0.5, 1.5).all()
    assert ratios.loc["offset", "ridge"] > 1.5  # it forgets nothing
    page.make(tmp_path)
    written = (tmp_path / "page" / "page.md").read_text().split("error after a fault over")[1]
    assert "| none | offset | worst |" in " ".join(written.split())
