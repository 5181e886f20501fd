"""What is kept to save time is right, or made anew in one line; and nothing is lost without it."""

import errno
import os
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from omkl.runs.run_folder import Run
from omkl.runs.writing import staging_folder
from omkl.utils import disk

ARRAYS = {"values": np.arange(600.0).reshape(100, 6), "rows": np.arange(100)}


def made_twice(folder: Path, identity: str = "a") -> tuple[Mapping[str, np.ndarray], int]:
    """What is found, and how often it was made."""
    calls = []

    def make() -> Mapping[str, np.ndarray]:
        calls.append(1)
        return ARRAYS

    return disk.load_or_make(folder, identity, make), len(calls)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    made_twice(tmp_path)
    return tmp_path / disk.arrays_name("a")


def test_what_is_kept_is_found_and_is_a_numpy_archive(kept, capsys):
    found, n_made = made_twice(kept.parent)
    assert n_made == 0
    for name, array in np.load(kept).items():
        np.testing.assert_array_equal(array, ARRAYS[name])
        np.testing.assert_array_equal(found[name], array)
    assert capsys.readouterr().err == ""


def test_any_flipped_bit_is_found(kept, capsys):
    """Of the header's bits 37 of 5,984 once dropped rows in silence, and 278 ended every run."""
    whole = kept.read_bytes()
    places = [*range(0, 600, 5), *range(600, len(whole), 197), *range(len(whole) - 300, len(whole))]
    for place in places:
        raw = bytearray(whole)
        raw[place] ^= 1 << place % 8
        kept.write_bytes(raw)
        assert disk.read_arrays(kept, "a") is None
    told = capsys.readouterr().err.splitlines()
    assert set(told) == {f"omkl: {kept} is damaged: its content is computed again"}
    assert len(told) == len(places)


@pytest.mark.parametrize(
    "fault",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: np.savez(path, **ARRAYS),  # without a digest
        lambda path: (made_twice(path.parent, "b"), os.replace(
            path.with_name(disk.arrays_name("b")), path)),
    ],
    ids=["empty", "cut", "no digest", "of something else"],
)  # fmt: skip
def test_what_is_not_right_is_made_anew_in_one_line(kept, capsys, fault):
    fault(kept)
    found, n_made = made_twice(kept.parent)
    assert n_made == 1 and found.keys() == ARRAYS.keys()
    assert capsys.readouterr().err.count("\n") == 1
    assert made_twice(kept.parent)[1] == 0


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch):
    """No file can be written to in folders named so."""

    def fill(name: str) -> None:
        replace = os.replace

        def full(source, target):
            if Path(target).parent.name == name:
                raise OSError(errno.ENOSPC, "No space left on device")
            replace(source, target)

        monkeypatch.setattr(os, "replace", full)

    return fill


def test_a_full_disk_costs_the_cache_alone(tmp_path, capsys, full_disk):
    full_disk(tmp_path.name)
    found, n_made = made_twice(tmp_path)
    assert n_made == 1 and found.keys() == ARRAYS.keys()
    assert list(tmp_path.iterdir()) == [], "no temporary files"
    told = capsys.readouterr().err
    assert "No space left on device" in told and told.count("\n") == 1


def test_a_file_that_cannot_be_written_is_named_and_not_its_temporary_one(tmp_path):
    with pytest.raises(OSError, match=r"No such file or directory: '[^']*/nowhere/page.html'$"):
        disk.write_atomically(tmp_path / "nowhere" / "page.html", "")
    (tmp_path / "page.html").mkdir()
    with pytest.raises(OSError, match=r"'[^']*/page.html'$"):
        disk.write_atomically(tmp_path / "page.html", "")


@pytest.mark.parametrize("fault", ["damaged", "full disk"])
def test_a_run_goes_on_without_its_comparators(start, outputs, capsys, full_disk, fault):
    before = start("regret.ridge_features=true").run.result["regret"]
    for path in (outputs / "comparators").iterdir():
        path.write_bytes(path.read_bytes()[:200]) if fault == "damaged" else path.unlink()
    if fault == "full disk":
        full_disk("comparators")
    outcome = start("regret.ridge_features=true", "force=true")
    assert outcome.status == "complete", outcome.run.result
    assert Run(outcome.run.folder).result["regret"] == before
    told = capsys.readouterr().err
    assert {"damaged": "is damaged", "full disk": "No space left"}[fault] in told
    assert not list((outputs / "comparators").glob(".*"))


# --- what killed processes leave ------------------------------------------------------------------


def test_what_nobody_writes_any_more_is_removed_after_a_day(tmp_path):
    def made(name: str, hours: float) -> Path:
        path = tmp_path / f"{disk.STAGING}{name}"
        path.mkdir()
        (path / "predictions.parquet").touch()
        for one in (path / "predictions.parquet", path):
            os.utime(one, (time.time() - 3600 * hours,) * 2)
        return path

    old, young, grows = made("old", 25), made("young", 23), made("grows", 25)
    (grows / "predictions.parquet").write_bytes(b"more")
    (tmp_path / "result.json").touch()
    with staging_folder(tmp_path / "run") as staging:
        assert set(tmp_path.iterdir()) == {young, grows, staging, tmp_path / "result.json"}
    assert not old.exists() and not staging.exists()


def test_of_a_run_that_never_ended_nothing_stays(folder):
    new = folder.with_name("raker-0123456789abcdef")
    with pytest.raises(KeyboardInterrupt), staging_folder(new) as staging:
        (staging / "predictions.parquet").touch()
        raise KeyboardInterrupt
    assert not new.exists() and not staging.exists()
