"""One job in this process: mistakes, resuming, failures, and what a run folder holds."""

import errno
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omkl.config.schema import Settings
from omkl.core import kernels
from omkl.core.representations.random_features import draw_features
from omkl.experiment import comparators, regression, viewers
from omkl.experiment import run as runner
from omkl.report import figures
from omkl.runs import provenance
from omkl.runs.run_folder import Run
from tests.compositions import compose

ROWS = 80
TINY = (
    "algorithm=gf", "algorithm.M=3", "dataset.rows=400", "kernels=gaussian17", "D=4", "seeds=3",
    "tracking=none", "figures=false", "regret.ridge_features=true",
)  # fmt: skip
FEDERATION = ("federation=iid", "clients=2")
OWN = (*TINY, "dataset=file", "dataset.target=price", "seeds=2")


def configuration(*overrides: str) -> Settings:
    return compose(overrides)


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., runner.Outcome]:
    """Run TINY with overrides below ``tmp_path / "out"``."""

    def begin(*overrides: str, base: tuple[str, ...] = TINY) -> runner.Outcome:
        own = [text for text in base if not (base is OWN and text.startswith("dataset.rows"))]
        return viewers.run_and_draw(configuration(*own, f"outputs={tmp_path / 'out'}", *overrides))

    return begin


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """An own CSV: two inputs, a target, a column of words."""
    rng = np.random.default_rng(0)
    lines = ["size,age,town,price"]
    for size, age in rng.uniform(1, 9, (ROWS, 2)).round(3):
        lines.append(f"{size},{age},here,{(size - age / 2 + rng.normal()):.3f}")
    path = tmp_path / "homes" / "my.csv"
    path.parent.mkdir()
    path.write_text("\n".join(lines) + "\n")
    return path


# --- mistakes ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["algorithm.M=ten"], "algorithm.M='ten' is not a whole number"),
        (["algorithm.M=18"], r"algorithm.M=18 lies outside \[1, N=17\]"),
        (["algorithm.name=raker"], "there is no algorithm.eta_e"),
        (["seeds=true"], "seeds=True is not"),
        (["D=0"], "D=0 is not a whole number of at least 1"),
        (["tracking=foo"], "tracking='foo' is none of auto, mlflow, none"),
        (["force=yes"], "force='yes' is not true or false"),
        (["figures=no"], "figures='no' is not true or false, or pdf"),
        (["regret.lam=-1"], "regret.lam=-1 is not a number of at least 0"),
        (["stream.limit=1"], "stream.limit=1 is not a whole number of at least 2, or null"),
        (["kernels.parts=[]"], "kernels.parts is empty"),
        (["regret.lam=1e308"], "regret.lam=1e\\+308 is not a number of at least 0, and at most"),
        (["dataset.name=../../x"], "dataset.name='../../x' is not a name of letters, digits"),
        (["++kernels.module=nopkg.x"], "there is no module nopkg.x: install its package, or put"),
        (["dataset=file"], "say which file: dataset.path=PATH dataset.target=COLUMN"),
    ],
)
def test_mistakes_are_told_and_leave_nothing(start, tmp_path, overrides, told):
    overrides = [f"++{text}" if text.startswith("algorithm.") else text for text in overrides]
    base = tuple(
        t for t in TINY if not (t.startswith("dataset.rows") and "dataset=file" in overrides)
    )
    try:
        outcome = start(*overrides, base=base)
    except ValueError as error:  # before anything runs
        message = str(error)
    else:
        assert outcome.status == "failed"
        assert outcome.run.result["error"]["traceback"] is None, "the message says all"
        message = outcome.run.result["error"]["message"]
    assert re.search(told, message)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("line", "overrides", "told"),
    [
        (None, ["dataset.target=prize"], r"no column 'prize'. Did you mean 'price'\? There are"),
        ("1,old,here,2", [], "row 40, column 'age' has 'old'"),
        ("same", ["stream.scaling=columns"], "my.csv: the target 'price' is the same in all 80"),
        ("short", ["stream.scaling=columns"], "a stream needs at least 2 rows, 1 came"),
    ],
)
def test_what_is_wrong_with_a_table_is_the_error_of_the_run(start, table, line, overrides, told):
    """All that there is: ``tests/datasets/test_errors.py``."""
    lines = table.read_text().splitlines()
    same = [f"{n},1,here,1" for n in range(ROWS)]
    whole = {"same": [lines[0], *same], "short": lines[:2]}
    lines = whole.get(line) or [*lines[:40], line or lines[40], *lines[41:]]
    table.write_text("\n".join(lines) + "\n")
    outcome = start(f"dataset.path={table}", *overrides, base=OWN)
    assert outcome.status == "failed"
    assert outcome.run.result["error"]["traceback"] is None
    assert re.search(told, outcome.run.result["error"]["message"])


def test_steps_that_are_too_large_are_told_at_once(start):
    outcome = start("algorithm.eta=1e9", "dataset.rows=4000", "block=100")
    error = outcome.run.result["error"]
    assert error["type"] == "FloatingPointError"
    told = r"by row \d{3} the predictions of gf are no longer finite \(seeds 0, 1, 2\)"
    assert re.match(told, error["message"]), error["message"]
    assert "Reduce algorithm.eta=1000000000.0 or algorithm.eta_e=0.1/sqrt(t)" in error["message"]
    # It had begun, so its folder says how it ended.
    assert Run(outcome.run.folder).result["status"] == "failed"


NO_ALGORITHM = tuple(text for text in TINY if not text.startswith("algorithm"))


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (['algorithm.eta="50/sqrt(T)"', "stream.limit=2505"], "is 0.999 at T = 2505"),
        (['algorithm.eta="50/sqrt(T)"', "stream.limit=2506"], None),
        (['algorithm.eta="2/sqrt(t)"', "stream.limit=300"], "in rows 1 to 4$"),
        (["algorithm.eta=0.9", "stream.limit=300"], None),
        (["algorithm.eta=0.9", "algorithm.lam=0.2", "stream.limit=300"], "above 0.8333 .* every"),
    ],
)
def test_expansive_steps_are_told(start, overrides, told):
    """1 - 2 eta (1 + lam) < -1: eta = 50/sqrt(T), lam = 1e-3 is none for T < 2,506."""
    flat = ["algorithm=raker", "algorithm.lam=1e-3", "dataset.rows=3000", "seeds=1"]
    outcome = start(*flat, *overrides, base=NO_ALGORITHM)
    text = " ".join([*outcome.notes, str(outcome.run.result.get("error"))])
    if told is None:
        assert outcome.notes == [] and "expansive" not in text
    else:
        assert re.search(told, outcome.notes[0]), text


def test_expansive_steps_that_diverge_are_told_with_the_failure(start):
    flat = ["algorithm=raker", "dataset.rows=1000", "seeds=1"]
    outcome = start(*flat, 'algorithm.eta="500/sqrt(T)"', base=NO_ALGORITHM)
    error = outcome.run.result["error"]
    assert error["type"] == "FloatingPointError"
    assert "algorithm.eta=500/sqrt(T) is 15.8 at T = 1000" in error["message"], error["message"]


# --- resuming ---------------------------------------------------------------------


def test_a_finished_run_is_found_and_computed_again_on_demand(start, tmp_path):
    first = start("threads=2")
    assert first.status == "complete"
    before, curves = first.run.result, first.run.curves
    again = start("threads=1", "block=7", "fail_fast=true")
    assert again.status == "reused"
    assert again.run.folder == first.run.folder
    shutil.rmtree(tmp_path / "out" / "comparators")
    forced = start("force=true", "threads=1", "block=7")
    assert forced.status == "complete"
    after = forced.run.result
    assert (before["threads"], after["threads"]) == (2, 1)
    assert after["mse"] == before["mse"]
    assert after["regret"] == before["regret"]
    for name, values in forced.run.curves.items():
        np.testing.assert_array_equal(values, curves[name], err_msg=name)


# --- nothing is lost --------------------------------------------------------------


@pytest.mark.parametrize("name", ["config.json", "curves.npz", "result.json"])
def test_a_full_disk_is_told_and_keeps_the_finished_run(start, monkeypatch, name):
    folder = start().run.folder
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.name == name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    outcome = start("force=true")
    assert outcome.status == "failed"
    assert outcome.run.result["error"]["message"] == f"cannot use {folder}: No space left on device"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    monkeypatch.undo()
    assert start().status == "reused"


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["rounds", "comparator"])
def test_an_interruption_keeps_the_finished_run(start, tmp_path, monkeypatch, moment):
    folder = start().run.folder
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def interrupt(stage: str, done: int, total: int | None, mse: float | None) -> None:
        if stage == moment:
            raise KeyboardInterrupt

    config = configuration(*TINY, f"outputs={tmp_path / 'out'}", "force=true")
    shutil.rmtree(tmp_path / "out" / "comparators")
    with pytest.raises(KeyboardInterrupt):
        runner.run(config, interrupt)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    with pytest.raises(KeyboardInterrupt):
        runner.run(config.replaced(seed=5), interrupt)
    assert [p.name for p in folder.parent.iterdir()] == [folder.name], "no empty folder is left"


@pytest.mark.slow
def test_viewers_take_nothing_from_a_finished_run(start, tmp_path, monkeypatch):
    """Interrupted or broken, drawing leaves no half of the figures, and the next call draws."""
    written = start().run.folder / "result.json"
    before = written.read_bytes()
    config = configuration(*TINY, f"outputs={tmp_path / 'out'}", "figures=true")

    def interrupt(stage: str, done: int, total: int | None, mse: float | None) -> None:
        if stage == "figures":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        viewers.run_and_draw(config.replaced(seed=5), interrupt)
    assert runner.run(config.replaced(seed=5)).status == "reused", (
        "numbers are there before figures"
    )

    def broken(run: Run, folder: Path, suffixes: tuple[str, ...]) -> None:
        (folder / "mse.png").write_bytes(b"half")
        raise ZeroDivisionError("by zero")

    all_figures = figures.all_figures
    monkeypatch.setattr(figures, "all_figures", broken)
    outcome = start("figures=true")
    assert outcome.status == "failed"
    assert "ZeroDivisionError: by zero" in outcome.run.result["error"]["traceback"]
    assert written.read_bytes() == before
    assert not (written.parent / "figures").exists()
    assert len(list(written.parent.parent.iterdir())) == 2, "nothing half drawn is left"
    monkeypatch.setattr(figures, "all_figures", all_figures)
    assert start("figures=true").status == "reused"
    assert (written.parent / "figures" / "mse.png").exists()


def test_a_bug_is_written_down_with_its_traceback(start, monkeypatch):
    def broken(job: regression.Regression, *more: Any) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(regression.Regression, "compute", broken)
    run = Run(start().run.folder)
    assert run.result["status"] == "failed"
    assert "ZeroDivisionError: by zero" in run.result["error"]["traceback"]
    assert run.config["D"] == 4


# --- own data ---------------------------------------------------------------------


def test_own_data_are_known_by_content(start, table, tmp_path, monkeypatch):
    first = start(f"dataset.path={table}", base=OWN)
    assert first.status == "complete", first.run.result
    sha256 = first.run.config["dataset"]["sha256"]
    assert first.run.result["dataset"] == f"my-{sha256[:4]}"
    assert first.run.folder.parent == tmp_path / "out" / "runs" / f"my-{sha256[:4]}"
    monkeypatch.chdir(tmp_path)
    assert start("dataset.path=homes/my.csv", base=OWN).status == "reused"
    moved = tmp_path / "elsewhere" / "my.csv"
    moved.parent.mkdir()
    shutil.copy(table, moved)
    assert start(f"dataset.path={moved}", base=OWN).status == "reused"
    moved.write_text(table.read_text() + "1,2,here,3\n")
    changed = start(f"dataset.path={moved}", base=OWN)
    assert changed.status == "complete"
    assert changed.run.result["n_rounds"] == ROWS + 1
    assert changed.run.result["dataset"] != first.run.result["dataset"], "another data set"
    assert start(f"dataset.path={table}", base=OWN).status == "reused", "the other one is kept"


def test_defaults_too_large_for_a_dictionary_are_cut_and_what_was_typed_is_not(start):
    few = "kernels.parts=[{family: gaussian, bandwidth: [0.1, 0.3, 1, 3, 10]}]"
    base = [text for text in TINY if "algorithm" not in text and "kernels" not in text]
    outcome = start(few, base=(*base, "algorithm=sfg_r"))
    assert outcome.status == "complete", outcome.run.result
    params = outcome.run.result["params"]
    assert (params["M"], params["rank"], params["explore"]) == (5, 5, 300)
    assert outcome.run.config["algorithm"]["M"] == 5
    cut = [note for note in outcome.notes if "is cut to 5: the dictionary" in note]
    assert [note.split("=")[0] for note in cut] == ["algorithm.M", "algorithm.rank"]
    outcome = start(few, "algorithm.M=9", base=(*base, "algorithm=sfg_r"))
    assert "algorithm.M=9 lies outside [1, N=5]" in outcome.run.result["error"]["message"]


# --- sweeps and comparators -------------------------------------------------------


def test_a_seed_is_compared_with_the_best_kernel_on_its_own_features(start):
    run, job = start().run, runner.prepare(configuration(*TINY))
    (X, y), lam = next(job.stream.blocks(400)), job.settings.regret.lam
    of_learner = 400 * np.array(run.result["mse"])
    found = of_learner - run.curves["regret_ridge_features"][:, -1]
    for seed in job.seeds:
        omega = draw_features(job.dictionary, X.shape[1], job.D, seed).omega
        best, theta = comparators.ridge_features(omega, lambda: iter([(X, y)]), lam)
        errors = comparators.squared_errors(omega[best], theta, X, y)
        assert found[job.seeds.index(seed)] == pytest.approx(errors.sum(), rel=1e-9)


def test_a_comparator_that_cannot_be_solved_costs_no_round(start, monkeypatch):
    """Polynomials of large inputs have no Cholesky factor in float64; the rounds count."""
    X = 1e6 * np.random.default_rng(0).normal(size=(50, 2))
    cubic = kernels.dictionary({"parts": [{"family": "polynomial", "degree": 3}]})
    with pytest.raises(comparators.Unsolvable, match="polynomial kernel 3 cannot be solved"):
        comparators.kernel_ridge(cubic, X, X[:, 0], lam=1e-3)

    def unsolvable(*arguments: Any) -> Any:
        raise comparators.Unsolvable.of(cubic[0])

    monkeypatch.setattr(comparators, "kernel_ridge", unsolvable)
    outcome = start("stream.limit=57", "regret.kernel_ridge=true")
    assert outcome.status == "complete", outcome.run.result
    assert "raise regret.lam" in outcome.run.result["regret"]["kernel_ridge"]["skipped"]


def test_progress_goes_through_every_round(start, tmp_path):
    seen: list[tuple[str, int, int | None, float | None]] = []
    runner.run(
        configuration(*TINY, f"outputs={tmp_path / 'out'}", "block=150"),
        lambda *report: seen.append(report),
    )
    rounds = [(done, total) for stage, done, total, _ in seen if stage == "rounds"]
    assert rounds == [(0, 400), (150, 400), (300, 400), (400, 400)]
    last = [mse for stage, _, _, mse in seen if stage == "rounds"][-1]
    (folder,) = (tmp_path / "out").glob("runs/synthetic/*")
    assert last == pytest.approx(Run(folder).result["mse_mean"])


def test_a_result_says_what_it_was_made_with(start, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/bin/omkl-run", "algorithm=raker", "dataset.path=a b.csv"])
    run = start().run
    assert run.result["typed"] == "omkl-run algorithm=raker 'dataset.path=a b.csv'"
    assert len(run.result["lock"]) == 64
    assert set(provenance.COMPUTING) <= run.result["versions"].keys()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("features=orthogonal",), "laplacian kernels are a product over the inputs"),
        (("algorithm=auto", "features=qmc"), "auto draws none that can be placed"),
        (("algorithm=perfedavg", *FEDERATION, "features=qmc"), "perfedavg draws none"),
        (("features=sobol",), "features='sobol' is none of rff, orthogonal, qmc"),
    ],
)
def test_features_that_cannot_be_placed_are_refused(overrides, message):
    with pytest.raises(ValueError, match=message):
        runner.prepare(compose(["dataset.rows=40", *overrides]))
