"""Run folders are whole or absent, never change, and are computed again where they are damaged."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from omkl.commands import report
from omkl.experiment import regression
from omkl.experiment import run as runner
from omkl.runs.run_folder import Run, UnreadableRunError, find
from omkl.runs.writing import files_of_run, publish, staging_folder
from tests.compositions import compose
from tests.conftest import change, seal
from tests.runs.conftest import TINY

FILES = ("config.json", "curves.npz", "predictions.parquet", "result.json")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def flip(path: Path) -> None:
    """Put another value in place of one bit in the middle of a file."""
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


# --- what a folder is -----------------------------------------------------------------------------


def test_sha256sum_checks_every_file(folder):
    assert Run(folder).checksums.keys() == set(FILES)
    command = ["sha256sum", "--check", "--strict", "--quiet", "checksums.sha256"]
    assert subprocess.run(command, cwd=folder, check=False).returncode == 0
    flip(folder / "predictions.parquet")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "predictions.parquet: FAILED" in done.stdout


def test_its_name_has_settings_and_code(folder):
    result = Run(folder).result
    assert folder.name == f"raker-{result['key']}-{result['stamp']}"


@pytest.mark.parametrize(
    ("more", "same"),
    [
        (["threads=1"], True),
        (["block=7"], True),
        (["figures=true"], True),
        (["predictions=false"], False),
        (["model=true", "stream.scaling=columns", "seeds=1"], False),
        (["D=3"], False),
    ],
)
def test_another_folder_has_what_other_settings_ask_for(start, folder, more, same):
    outcome = start(*more)
    assert (outcome.status, outcome.run.folder == folder) == (
        ("reused", True) if same else ("complete", False)
    )


def test_another_code_has_a_folder_of_its_own(start, outputs, folder, monkeypatch):
    before = contents(folder)
    monkeypatch.setattr(runner, "stamp_of", lambda stream, modules: "0" * 12)
    outcome = start()
    assert outcome.status == "complete" and outcome.run.folder.name.endswith("-000000000000")
    assert contents(folder) == before
    change(outcome.run.folder, started="2100-01-01T00:00:00+00:00")
    assert [run.folder for run in find(outputs)] == [outcome.run.folder], "the newest is shown"


def test_force_moves_the_earlier_folder(start, outputs, folder):
    before = contents(folder)
    outcome = start("force=true")
    assert outcome.status == "complete" and outcome.run.folder == folder
    (replaced,) = (outputs / "replaced" / "synthetic").iterdir()
    assert replaced.name.startswith(folder.name) and contents(replaced) == before
    assert contents(folder)["curves.npz"] == before["curves.npz"]
    assert [run.folder for run in find(outputs)] == [folder]


def test_a_failure_is_found_until_the_run_has_finished(start, outputs, folder, monkeypatch):
    shutil.rmtree(folder)
    with monkeypatch.context() as patch:
        patch.setattr(regression.Regression, "compute", lambda *_: 1 / 0)
        assert [start().status, start().status] == ["failed", "failed"]
    assert len(list((outputs / "failures" / "synthetic").iterdir())) == 2
    (run,) = find(outputs)
    assert run.result["error"]["type"] == "ZeroDivisionError" and not run.complete
    assert start().status == "complete"
    assert [run.complete for run in find(outputs)] == [True]


# --- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("fault", [flip, Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_damaged_run_is_computed_again(start, outputs, folder, name, fault):
    right = Run(folder).result["mse"]
    fault(folder / name)
    outcome = start()
    assert outcome.status == "complete" and outcome.run.result["mse"] == right
    assert any(f"{folder.name} cannot be read" in note and name in note for note in outcome.notes)
    assert len(list((outputs / "replaced" / "synthetic").iterdir())) == 1
    assert start().status == "reused"


FAULTS: dict[str, bytes] = {
    "cut": b'{"status": "comp',
    "a list": b"[1, 2]",
    "nested": b"[" * 100_000,
    "no text": b"\xff\xfe\x00",
    "nearly empty": b'{"status": "complete"}',
    "other kinds": b'{"status": 1, "dataset": [], "algorithm": {}, "key": null, "started": 5}',
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_folder_that_no_run_has_written_stops_nothing(
    outputs, folder, capsys, run_folder_maker, fault
):
    run_folder_maker(outputs, "gf")
    (folder / "result.json").write_bytes(FAULTS[fault])
    seal(folder)
    assert report.main(["show", "--outputs", str(outputs)]) == 0
    told = capsys.readouterr()
    assert f"omkl: {folder} cannot be read and is left out: " in told.err and "OMKL-GF" in told.out


@pytest.mark.parametrize("text", ["[" * 200_000, "D: 50", "[]"], ids=["deep", "yaml", "list"])
def test_a_configuration_that_no_run_has_written_stops_nothing(outputs, folder, text, capsys):
    (folder / "config.json").write_text(text)
    seal(folder)
    assert list(find(outputs)) == []
    assert "left out: config.json " in capsys.readouterr().err


def test_numbers_are_compared_with_their_checksums_when_they_are_read(folder):
    flip(folder / "curves.npz")
    run = Run(folder)
    assert run.complete
    with pytest.raises(UnreadableRunError, match=r"curves.npz does not match its checksum"):
        _ = run.curves


# --- many processes -------------------------------------------------------------------------------


def test_of_two_that_finish_one_run_the_second_discards_its_folder(folder):
    """Their numbers are the same, and their seconds differ."""
    new = folder.with_name("raker-0-0")

    def finish(number: int) -> None:
        files = contents(folder) | {"predictions.parquet": f"of {number}".encode()}
        files.pop("checksums.sha256")
        with staging_folder(new) as staging:
            publish(staging, new, files)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(finish, range(40)))
    Run(new).require_whole()
    assert {path.name for path in new.parent.iterdir()} == {folder.name, new.name}


WRITER = """
import random, sys
from pathlib import Path
from omkl.runs.writing import publish, staging_folder
rng = random.Random(int(sys.argv[2]))
print("ready", flush=True)
while True:
    number = rng.randrange(10**6)
    folder = Path(sys.argv[1]) / f"run-{number}"
    files = {name: f"{number} " * 50_000 for name in ("curves.npz", "config.json", "result.json")}
    with staging_folder(folder) as staging:
        publish(staging, folder, files, replace=number % 3 == 0)
"""


@pytest.mark.slow(2)
def test_no_kill_leaves_half_a_run(tmp_path):
    """Two writers are killed again and again, while a reader compares every folder."""
    place, rng, kills, looks = tmp_path / "runs" / "data", random.Random(0), 0, 0
    place.mkdir(parents=True)

    def look() -> None:
        nonlocal looks
        for folder in place.glob("run-*"):
            run = Run(folder)
            assert len(run.checksums) == 3
            for name in run.checksums:
                run.bytes_of(name)
            looks += 1
            shutil.rmtree(folder) if looks % 2 else None

    end = time.monotonic() + 6.0
    while time.monotonic() < end:
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(place), str(rng.randrange(10**9))],
                stdout=subprocess.PIPE,
            )
            for _ in range(2)
        ]
        for writer in writers:
            assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        moment = time.monotonic() + rng.uniform(0.0, 0.5)
        while time.monotonic() < moment:
            look()
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.communicate()
            kills += 1
        look()
    assert kills >= 4 and looks > 20


# --- numbers that no file can hold ----------------------------------------------------------------


def test_a_summary_that_has_overflowed_loses_nothing(folder, tmp_path):
    spread = {"log_loss": 0.5, "width_90": float("nan")}
    spoilt = {"max_norm": float("inf"), "spread": spread, "params": {"clip": float("inf")}}
    run = Run(folder)
    files = files_of_run(run.config, run.result | spoilt, run.curves, {})
    found = json.loads(files["result.json"])
    assert found["max_norm"] is None and found["spread"]["width_90"] is None
    assert found["params"] == {"clip": "inf"}, "what was given is told as it was given"


@pytest.mark.parametrize("scale", ["1e200", "1e-200"])
def test_a_run_of_extreme_inputs_is_kept_and_shown(outputs, tmp_path, scale):
    path = tmp_path / "extreme.csv"
    path.write_text("x,y\n" + "".join(f"{t % 3}{scale[1:]},{t % 5}\n" for t in range(40)))
    own = compose([
        "algorithm=raker", "D=2", "seeds=1", "tracking=none", "figures=false", *TINY[-2:],
        "dataset=file", f"dataset.path={path}", "dataset.target=y", "stream.scaling=none",
        f"outputs={outputs}",
    ])  # fmt: skip
    outcome = runner.run(own)
    assert outcome.status == "complete", outcome.run.result
    assert outcome.run.result["max_norm"] == pytest.approx(2 * float(scale))
    assert report.main(["show", "--outputs", str(outputs)]) == 0


def test_seeds_that_no_table_holds_are_refused(start: Callable[..., runner.Outcome]):
    with pytest.raises(ValueError, match=r"seed=9223372036854775807 is not a whole number of at"):
        start("seed=9223372036854775807")
