"""Jobs that differ in parameters alone go through the stream once: the same runs as one by one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omkl.commands import sweep
from omkl.commands.sweep import Task, grouped, size_of_groups
from omkl.config.compose import compose
from omkl.config.settings import key_of_pass
from omkl.core.learner import Learner
from omkl.core.representations.blocked import LOCAL_FEATURES
from omkl.experiment import classification, evaluate, viewers
from omkl.experiment import run as runner

TINY = ("kernels=gaussian17", "D=6", "seeds=2", "block=90")
EMBEDDED = (
    "dataset.rows=170", "stream.scaling=columns", "stream.lags=1", "interval=0.8",
    "regret.lam=1e-2",
)  # fmt: skip
QUIET = ("tracking=none", "figures=false")
OF_THE_CLOCK = {"seconds", "seconds_per_seed", "started", "seal", "jobs_in_pass"}


def configurations(folder: Path, *overrides: str, **swept: list[Any]) -> list[dict[str, Any]]:
    ((key, values),) = swept.items()
    stream = () if "dataset=file" in overrides else EMBEDDED
    config = compose([*TINY, *stream, *QUIET, f"outputs={folder}", *overrides])
    return [{**config, "algorithm": {**config["algorithm"], key: value}} for value in values]


def by_themselves(folder: Path, *overrides: str, **swept: list[Any]) -> list[runner.Outcome]:
    return [viewers.run_and_show(c) for c in configurations(folder, *overrides, **swept)]


def together(folder: Path, *overrides: str, **swept: list[Any]) -> list[runner.Outcome]:
    configs = configurations(folder, *overrides, **swept)
    assert len({key_of_pass(config) for config in configs}) == 1
    found = dict(viewers.run_together_and_show(configs))
    return [found[number] for number in range(len(configs))]


def numbers_of(folder: Path) -> dict[str, Any]:
    """All that a run folder holds but times, curves bit by bit."""
    result = json.loads((folder / "result.json").read_text())
    with np.load(folder / "curves.npz") as curves:
        bits = {name: curves[name].tobytes() for name in curves.files}
    files = {path.name for path in folder.iterdir()}
    known = {key: value for key, value in result.items() if key not in OF_THE_CLOCK}
    return {"files": files, "config": (folder / "config.yaml").read_text(), **bits, **known}


def assert_same(alone: list[runner.Outcome], shared: list[runner.Outcome]) -> None:
    for one, other in zip(alone, shared, strict=True):
        assert (one.status, one.notes) == (other.status, other.notes)
        assert one.run.folder.name == other.run.folder.name
        assert numbers_of(one.run.folder) == numbers_of(other.run.folder)


@pytest.mark.parametrize(
    ("algorithm", "swept"),
    [
        ("raker", {"eta": [0.05, 0.1, "0.5/sqrt(t)", 0.2, 0.3, 0.4]}),
        ("rfomkr", {"lam": [0, 1e-3, 1e-2]}),
        ("gf", {"M": [1, 3, 5]}),
        ("sfg_r", {"xi": [0.1, 0.2]}),
    ],
)
def test_every_run_is_that_of_the_job_alone(tmp_path, algorithm, swept):
    alone = by_themselves(tmp_path / "alone", f"algorithm={algorithm}", **swept)
    shared = together(tmp_path / "shared", f"algorithm={algorithm}", **swept)
    assert {outcome.status for outcome in shared} == {"complete"}
    assert_same(alone, shared)
    assert {outcome.run.result["jobs_in_pass"] for outcome in shared} == {len(shared)}
    assert not any("jobs_in_pass" in outcome.run.result for outcome in alone)


def test_local_learners_share_features(tmp_path, monkeypatch):
    """Each learner gets blocks of rows that all of them have learned already."""
    learned = []
    run_rows = Learner.run_rows

    def counted(self, *given):
        if self.representation is LOCAL_FEATURES:  # baselines are not
            learned.append(int(self.selection.scratch.place[1]))
        run_rows(self, *given)

    monkeypatch.setattr(Learner, "run_rows", counted)
    shared = together(tmp_path, "algorithm=raker", "threads=1", eta=[0.1, 0.2])
    assert [outcome.run.result.get("error") for outcome in shared] == [None, None]
    # Warming up takes 8 rows. Blocks of 90 and 80 rows are cut every 16 rounds for the weights over
    # time; of each piece whole packs of 8 are learned together.
    assert [n for n in learned if n] == [8, 8] + 2 * ([16] * 10 + [8, 8]) + 2 * ([16] * 8 + [8, 8])


@pytest.fixture
def three_classes(tmp_path) -> list[str]:
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 3, 90)
    lines = [f"{np.cos(2 * k) + rng.normal(0, 0.3)},{np.sin(2 * k)},{'xyz'[k]}" for k in kind]
    path = tmp_path / "three.csv"
    path.write_text("\n".join(["a,b,kind", *lines]))
    return [
        "algorithm=rf/omkc_mua_p", "task=classification", "dataset=file", f"dataset.path={path}",
        "dataset.target=kind", "dataset.labels=[x,y,z]", "block=40",
        "predictions=true",
    ]  # fmt: skip


def test_classifications_are_those_of_the_job_alone(tmp_path, three_classes):
    """A learner a class; classes and jobs have the random features of their seed once.

    Of those that learn kernel by kernel ``test_no_jit`` looks what they share besides.
    """
    swept = {"beta": [0.5, 0.8, 0.9]}
    alone = by_themselves(tmp_path / "alone", *three_classes, **swept)
    shared = together(tmp_path / "shared", *three_classes, **swept)
    assert len({outcome.run.result["error_rate_mean"] for outcome in alone}) > 1
    assert {outcome.run.result["jobs_in_pass"] for outcome in shared} == {3}
    assert_same(alone, shared)


def test_a_classification_that_diverges_fails_alone(tmp_path, three_classes, monkeypatch):
    """In its second seed; what comes later of its seeds is not begun."""
    add, streamed = classification.ClassificationMetrics.add, []

    def diverges(self, block, y, counted, predictions):
        streamed.append((self.seed, self.job.params.beta))
        last_block = self.mistakes.n_rounds >= 80
        if last_block and self.job.params.beta == 0.8 and self.seed > 0:
            (one,) = predictions
            predictions = [one._replace(y_hat=np.full_like(one.y_hat, np.nan))]
        add(self, block, y, counted, predictions)

    monkeypatch.setattr(classification.ClassificationMetrics, "add", diverges)
    overrides = [*three_classes, "seeds=3", "threads=1"]
    found = together(tmp_path, *overrides, beta=[0.5, 0.8])
    assert [outcome.status for outcome in found] == ["complete", "failed"]
    assert (
        "by row 90 the predictions are no longer finite (seed 1)"
        in (found[1].run.result["error"]["message"])
    )
    assert {seed for seed, beta in streamed if beta == 0.8} == {0, 1}
    assert {seed for seed, beta in streamed if beta == 0.5} == {0, 1, 2}


def test_one_that_diverges_fails_alone_and_by_name(tmp_path):
    swept = {"eta": [0.1, 1e9, 0.2, 0.3]}
    alone = by_themselves(tmp_path / "alone", "algorithm=raker", **swept)
    shared = together(tmp_path / "shared", "algorithm=raker", **swept)
    assert [outcome.status for outcome in shared] == ["complete", "failed", "complete", "complete"]
    errors = [outcomes.pop(1).run.result["error"] for outcomes in (alone, shared)]
    assert errors[0] == errors[1]
    assert "by row 90 the predictions of raker are no longer finite" in errors[1]["message"]
    assert "algorithm.eta=1000000000.0" in errors[1]["message"]
    assert_same(alone, shared)


def test_finished_runs_are_found_and_computed_again_on_demand(tmp_path):
    (first,) = by_themselves(tmp_path, "algorithm=gf", M=[3])
    before = (first.run.folder / "result.json").read_bytes()
    found = together(tmp_path, "algorithm=gf", M=[2, 3, 4])
    assert [outcome.status for outcome in found] == ["complete", "reused", "complete"]
    assert (first.run.folder / "result.json").read_bytes() == before
    anew = together(tmp_path, "algorithm=gf", "force=true", M=[3, 4])
    assert [outcome.status for outcome in anew] == ["complete", "complete"]
    assert_same(
        found[1:], [a._replace(status=b.status) for a, b in zip(anew, found[1:], strict=True)]
    )


def test_mistakes_of_one_job_are_its_own(tmp_path):
    found = together(tmp_path, "algorithm=gf", M=[2, 900, 3])
    assert [outcome.status for outcome in found] == ["complete", "failed", "complete"]
    assert "algorithm.M=900 lies outside" in found[1].run.result["error"]["message"]


def test_an_interrupted_pass_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(self, mapped, report):
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluate.Pass, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        together(tmp_path, "algorithm=gf", M=[2, 3])
    assert not list(tmp_path.rglob("*.json"))


def test_what_breaks_the_stream_breaks_every_job(tmp_path, monkeypatch):
    def damaged(self, mapped, report):
        raise OSError(5, "Input/output error", "my.csv")

    monkeypatch.setattr(evaluate.Pass, "run", damaged)
    for outcome in together(tmp_path, "algorithm=gf", M=[2, 3]):
        assert outcome.status == "failed"
        assert outcome.run.result["error"]["message"] == "cannot use my.csv: Input/output error"


# --- who goes with whom -------------------------------------------------------------------------


def test_jobs_that_share_nothing_have_no_key():
    raker = compose(["algorithm=raker"])

    def key(config: dict[str, Any] = raker, **changes: Any) -> str | None:
        for section in ("algorithm", "dataset", "federation", "stream"):
            changes[section] = config[section] | changes.get(section, {})
        return key_of_pass({**config, **changes})

    assert key() == key(algorithm={"eta": 3})
    for other in (
        {"algorithm": {"name": "rfomkr"}}, {"dataset": {"rows": 9}}, {"D": 7}, {"seed": 1},
        {"stream": {"scaling": "columns"}}, {"force": True},
    ):  # fmt: skip
        assert key(**other) not in (key(), None), other
    for alone in ("amkl", "adaraker", "omkr", "pof_mkl", "nobody"):
        assert key(algorithm={"name": alone}) is None
    assert key(federation={"name": "iid"}) is None
    assert key(stream={"labels": "prompt"}) is None


def test_groups_are_as_many_for_every_worker():
    assert size_of_groups(20, 2, 24) == 10
    assert size_of_groups(3, 2, 24) == 2
    assert size_of_groups(40, 2, 16) == 10
    assert size_of_groups(1000, 2, 24) == 24
    assert size_of_groups(5, 8, 24) == 1
    assert size_of_groups(5, 2, 1) == 1
    assert size_of_groups(0, 2, 24) == 1


def test_tasks_of_one_key_are_grouped_as_they_come(monkeypatch):
    config = compose(["algorithm=gf"])

    def task(name: str, D: int, M: int = 3) -> Task:
        own = {**config["algorithm"], "name": name, "M": M}
        return Task(0, f"{name} {D} {M}", {**config, "D": D, "algorithm": own}, Path())

    tasks = [task("gf", D, M) for M in (2, 3, 4) for D in (5, 6)] + [task("omkr", 5)]
    labels = [[t.label for t in group] for group in grouped(iter(tasks), 2)]
    assert labels == [
        ["gf 5 2", "gf 5 3"], ["gf 6 2", "gf 6 3"], ["omkr 5 3"], ["gf 5 4"], ["gf 6 4"],
    ]  # fmt: skip
    assert [len(group) for group in grouped(iter(tasks), 1)] == 7 * [1]
    monkeypatch.setattr(sweep, "WAITING", 1)
    assert [len(group) for group in grouped(iter(tasks[:4]), 4)] == [1, 1, 1, 1]
