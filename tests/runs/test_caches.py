"""What is kept to save time is right, or made anew in one line; and nothing is lost without it."""

import errno
import os
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from omkl.experiment import comparators
from omkl.runs import run_folder, schema
from omkl.runs.run_folder import Run
from omkl.runs.writing import replace_files, staging_folder, write_together
from omkl.utils import cached_arrays, disk

ARRAYS = {"values": np.arange(600.0).reshape(100, 6), "rows": np.arange(100)}


def made_twice(folder: Path, identity: str = "a") -> tuple[Mapping[str, np.ndarray], int]:
    """What is found, and how often it was made."""
    calls = []

    def make() -> Mapping[str, np.ndarray]:
        calls.append(1)
        return ARRAYS

    return cached_arrays.load_or_make(folder, identity, make), len(calls)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    made_twice(tmp_path)
    return tmp_path / cached_arrays.name_of("a")


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
        assert cached_arrays.read(kept, "a") is None
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
            path.with_name(cached_arrays.name_of("b")), path)),
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


def test_a_file_that_outgrows_its_disk_is_named(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*result.json'"):
        disk.write_atomically(tmp_path / "result.json", "{}")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named_and_not_its_temporary_one(tmp_path):
    with pytest.raises(OSError, match=r"No such file or directory: '[^']*/nowhere/page.html'$"):
        disk.write_atomically(tmp_path / "nowhere" / "page.html", "")
    (tmp_path / "page.html").mkdir()
    with pytest.raises(OSError, match=r"'[^']*/page.html'$"):
        disk.write_atomically(tmp_path / "page.html", "")


def test_a_folder_that_takes_no_files_is_named_and_not_its_temporary_one(tmp_path, monkeypatch):
    def refused(prefix, dir):
        raise PermissionError(errno.EACCES, "Permission denied", f"{dir}/{prefix}abc")

    monkeypatch.setattr("tempfile.mkdtemp", refused)
    told = pytest.raises(PermissionError, match=r"Permission denied: '[^']*/raker-12'$")
    with told, staging_folder(tmp_path / "raker-12"):
        pass


def test_an_error_of_a_library_keeps_its_words(tmp_path):
    told = pytest.raises(OSError, match=r"the codec is missing: '[^']*/page.html'$")
    with told, disk.with_path_in_error(tmp_path / "page.html"):
        raise OSError("the codec is missing")


def test_large_arrays_are_not_kept_and_of_many_files_the_newest(tmp_path):
    for n, identity in enumerate("abc"):
        cached_arrays.load_or_make(tmp_path, identity, lambda: ARRAYS, most_files=2)
        path = tmp_path / cached_arrays.name_of(identity)
        os.utime(path, (n, n)) if path.exists() else None
    kept = {cached_arrays.name_of(identity) for identity in "bc"}
    assert {path.name for path in tmp_path.iterdir()} == kept
    cached_arrays.load_or_make(tmp_path, "d", lambda: ARRAYS, most_bytes=5599)
    assert {path.name for path in tmp_path.iterdir()} == kept


@pytest.mark.parametrize("fault", ["damaged", "full disk"])
def test_a_run_goes_on_without_its_comparators(start, outputs, capsys, full_disk, fault):
    before = start().run.result["regret"]
    comparators._memory.clear()
    for path in (outputs / "comparators").iterdir():
        path.write_bytes(path.read_bytes()[:200]) if fault == "damaged" else path.unlink()
    if fault == "full disk":
        full_disk("comparators")
    outcome = start("force=true")
    assert outcome.status == "complete", outcome.run.result
    assert Run(outcome.run.folder).result["regret"] == before
    told = capsys.readouterr().err
    assert {"damaged": "is damaged", "full disk": "No space left"}[fault] in told
    assert not list((outputs / "comparators").glob(".*"))


# --- what killed processes leave ------------------------------------------------------------------


@pytest.fixture
def gone() -> str:
    """The owner's name of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        pass
    return f"{disk.owner().rpartition('.')[0]}.{process.pid}"


def test_only_what_belongs_to_nobody_is_removed(tmp_path, gone):
    elsewhere = f"another_host.1.{gone.rpartition('.')[2]}"
    names = [f".new-{owner}-x1y2" for owner in (gone, disk.owner(), elsewhere)]
    names += [f".result.json.{owner}.tmp" for owner in (gone, disk.owner(), elsewhere)]
    for name in names[:3]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "curves.npz").touch()
    for name in names[3:]:
        (tmp_path / name).touch()
    (tmp_path / "result.json").touch()
    disk.remove_leftovers(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {*names[1:3], *names[4:], "result.json"}
    disk.remove_leftovers(tmp_path / "nowhere")


def test_a_temporary_folder_takes_the_place_of_those_of_killed_processes(
    tmp_path, gone, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f".new-{gone}-abcd").mkdir()
    with disk.temporary_folder() as place, disk.temporary_folder() as other:
        assert {p.name for p in tmp_path.iterdir()} == {Path(place).name, Path(other).name}
    assert not list(tmp_path.iterdir())


def test_the_next_start_removes_what_a_killed_one_left(start, folder, gone):
    (folder / f".new-{gone}-abcd").mkdir()
    (folder / f".config.yaml.{gone}.tmp").touch()
    assert start().status == "reused"
    assert not list(folder.glob(".*"))


def test_an_interruption_takes_nothing_from_another_process(start, folder):
    """Two processes compute one run; the first is interrupted before the second has written."""
    new = folder.with_name("raker-0123456789abcdef")
    with staging_folder(new) as staging:
        with pytest.raises(KeyboardInterrupt), staging_folder(new):
            raise KeyboardInterrupt
        (staging / "curves.npz").touch()
        os.replace(staging / "curves.npz", new / "curves.npz")
    assert [path.name for path in new.iterdir()] == ["curves.npz"]


def test_of_a_run_that_never_ended_nothing_stays(folder):
    new = folder.with_name("raker-0123456789abcdef")
    with pytest.raises(KeyboardInterrupt), staging_folder(new) as staging:
        (staging / "predictions.parquet").touch()
        raise KeyboardInterrupt
    assert not new.exists()


def test_two_that_finish_one_run_do_not_mix_their_files(folder):
    """Their numbers are the same, their seconds are not: a mixture would be found damaged."""
    result, files = Run(folder).result, {p.name: p.read_bytes() for p in folder.iterdir()}

    def finish(number: int) -> None:
        own = files | {"results.parquet": f"of {number}".encode()}
        digests = {
            name: schema.sha256_of(data) for name, data in own.items() if name in schema.CHECKED
        }
        own["result.json"] = run_folder.result_text(result, digests).encode()
        with staging_folder(folder) as staging:
            write_together(staging, own)
            replace_files(folder, staging)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(finish, range(40)))
    assert Run(folder).problem is None
    assert not list(folder.glob(".*"))
