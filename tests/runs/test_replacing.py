"""A run that another process replaces is read as it was or as it is, never as a mixture.

What is replaced here says its number three times: in result.json, in config.yaml and in curves.npz.
"""

import io
import itertools
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from omkl.commands import report
from omkl.report import tracking
from omkl.runs import run_folder, schema, writing
from omkl.runs.run_folder import Replaced, Run, find
from omkl.utils import conf, disk


def write_number(folder: Path, number: int) -> None:
    """Replace a finished run by one that says ``number``."""
    curves = {name: np.array(values) for name, values in Run(folder).curves.items()}
    curves["mse"][:] = number
    config = Run(folder).config | {"seed": number}
    files = {name: (folder / name).read_bytes() for name in schema.files_in(folder)}
    files["config.yaml"] = conf.config_text(config).encode()
    files["curves.npz"] = disk.npz_bytes(curves)
    digests = {name: schema.sha256_of(data) for name, data in files.items()}
    result = Run(folder).result | {"seconds": number}
    files["result.json"] = run_folder.result_text(result, digests).encode()
    with writing.staging_folder(folder) as staging:
        writing.write_together(staging, files)
        writing.replace_files(folder, staging)


def numbers_in(run: Run) -> set[float]:
    return {run.result["seconds"], run.config["seed"], *run.curves["mse"].ravel()}


@pytest.fixture
def numbered(outputs: Path, folder: Path) -> Path:
    write_number(folder, 1)
    return folder


class Reads:
    """Lets another process act just before one file of a run folder is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.left, self.act, opened = -1, lambda: None, io.open

        def watched(file, *arguments, **options):
            mode = arguments[0] if arguments else options.get("mode", "r")
            inside = isinstance(file, Path | str) and Path(file).parent == folder
            if self.left >= 0 and inside and mode[0] == "r":
                self.left -= 1
                if self.left < 0:
                    self.act()
            return opened(file, *arguments, **options)

        monkeypatch.setattr(io, "open", watched)

    def before(self, moment: int, act: Callable[[], None]) -> None:
        self.left, self.act = moment, act


@pytest.fixture
def reads(monkeypatch, numbered) -> Reads:
    return Reads(monkeypatch, numbered)


def from_find(outputs: Path, folder: Path) -> set[float]:
    """As show, table, page and verify: first all runs are looked through, then shown."""
    runs = list(find(outputs, lambda run, problem: pytest.fail(problem)))
    return set().union(*({run.result["seconds"], run.config["seed"]} for run in runs))


def from_held(outputs: Path, folder: Path) -> set[float]:
    return numbers_in(Run(folder).held())


@pytest.mark.parametrize("reader", [from_find, from_held])
def test_a_run_that_is_replaced_between_two_reads_is_read_whole(outputs, numbered, reads, reader):
    """One thread does both, so no lock hinders it: as where the file system has none."""
    seen = []
    for moment in itertools.count():
        write_number(numbered, 1)
        reads.before(moment, lambda: write_number(numbered, 2))
        found = reader(outputs, numbered)
        assert found in ({1}, {2}), f"a mixture, replaced before read {moment}"
        seen.append(found)
        if reads.left >= 0:  # it has read all, and nobody came between
            break
    assert len(seen) > 5 and seen[0] == {2} and seen[-1] == {1}


def test_what_is_read_later_is_of_the_same_result_or_refused(numbered):
    run = Run(numbered)
    assert run.problem is None
    write_number(numbered, 2)
    assert (run.result["seconds"], run.config["seed"]) == (1, 1)
    with pytest.raises(Replaced, match="replaced while it was read: start again"):
        _ = run.curves
    assert numbers_in(run.held()) == {2}


def test_readers_wait_for_who_replaces(numbered):
    """With locks nobody sees the moment without result.json."""
    path = numbered / "result.json"
    found: list[set[float]] = []
    reader = threading.Thread(target=lambda: found.append(numbers_in(Run(numbered).held())))
    with disk.exclusive_lock(numbered):
        raw = path.read_bytes()
        path.unlink()
        reader.start()
        reader.join(0.05)
        assert reader.is_alive()
        path.write_bytes(raw)
    reader.join(10.0)
    assert found == [{1}]


@pytest.mark.parametrize("moment", range(8))
def test_a_start_that_meets_half_a_replacement_computes(outputs, start, folder, reads, moment):
    """The process that was replacing was killed; or there are no locks, and it is not done yet."""
    reads.before(moment, (folder / "result.json").unlink)
    outcome = start()
    assert outcome.status in ("complete", "reused"), outcome.run.result
    assert outcome.run.result["status"] == "complete"
    assert start().status in ("complete", "reused")
    assert Run(folder).problem is None


def test_an_outcome_says_its_own_result_whatever_comes_after(start, folder):
    outcomes = [start("force=true"), start()]
    shutil.rmtree(folder)
    assert [outcome.status for outcome in outcomes] == ["complete", "reused"]
    assert outcomes[0].run.result == outcomes[1].run.result
    assert outcomes[0].run.config["seeds"] == 2
    assert not tracking.holds(outcomes[1].run, folder.parents[2])


def test_nothing_is_added_to_a_result_that_is_another_by_now(numbered, tmp_path):
    run, figures = Run(numbered).held(), tmp_path / "figures"
    figures.mkdir()
    (figures / "mse.png").touch()
    write_number(numbered, 2)
    assert not writing.add_figures(run, figures)
    assert numbers_in(Run(numbered)) == {2} and not list(numbered.glob("*.png"))
    assert writing.add_figures(Run(numbered), figures) and (numbered / "mse.png").exists()


def test_a_failure_takes_no_place_of_what_another_process_has_finished(numbered):
    failure = {"status": "failed", "error": {"type": "X", "message": "x", "traceback": None}}
    failed = run_folder.held_in_memory(numbered, content=failure, config={})
    writing.write_failure(failed)
    assert numbers_in(Run(numbered).held()) == {1}
    (numbered / "curves.npz").unlink()
    writing.write_failure(failed)
    assert Run(numbered).result["status"] == "failed"


def test_figures_of_a_run_that_is_replaced_are_not_put_beside_the_new_one(
    outputs, numbered, monkeypatch, capsys
):
    """``omkl-report figures``, for the moment between drawing and putting in place."""
    from omkl.papers import figures as paper_figures
    from omkl.report import figures  # Matplotlib

    def draw(run: Run, to: Path, suffixes: tuple[str, ...]) -> None:
        assert numbers_in(run) == {1}
        (to / "mse.png").touch()
        write_number(numbered, 2)

    monkeypatch.setattr(figures, "all_figures", draw)
    monkeypatch.setattr(paper_figures, "regret_bound", lambda *what: [])
    assert report.main(["figures", "--outputs", str(outputs)]) == 1
    assert "another process has replaced it meanwhile: start again" in capsys.readouterr().err
    assert not list(numbered.glob("*.png"))
