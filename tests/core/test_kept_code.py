"""Machine code on disk: what is damaged is thrown away and compiled anew, and a run goes on."""

import errno
from pathlib import Path
from types import SimpleNamespace

import pytest

from omkl.core import cache, compiler
from omkl.utils import disk, wording

pytestmark = pytest.mark.skipif(not compiler.ENABLED, reason="nothing is compiled in this session")


def twice(x):
    return x + x


def told_by(capsys) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("omkl: ")]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of one function; ``tell`` has told nothing yet."""
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    ours = SimpleNamespace(PACKAGE=Path(__file__).parents[1])  # as if this file were of the package
    monkeypatch.setattr(compiler, "sources", ours)
    wording.tell.cache_clear()
    assert compiler.compiled(twice)(2.0) == 4.0
    return tmp_path


def n_hits() -> int:
    """How often the code of ``twice`` was found on disk by a new start."""
    function = compiler.compiled(twice)
    assert function(2.0) == 4.0
    return sum(function.stats.cache_hits.values())


@pytest.mark.parametrize("fault", ["flipped", "cut", "empty", "another's"])
def test_damaged_code_is_compiled_anew(kept, capsys, fault):
    assert n_hits() == 1
    (path,) = kept.glob("*.code")
    raw = bytearray(path.read_bytes())
    if fault == "flipped":
        raw[len(raw) // 2] ^= 16
    elif fault == "another's":
        compiler.compiled(twice)(2)
        (other,) = set(kept.glob("*.code")) - {path}
        raw = bytearray(other.read_bytes())
    path.write_bytes({"cut": raw[:-20], "empty": b""}.get(fault, raw))
    assert n_hits() == 0
    assert told_by(capsys) == [f"omkl: {path} is damaged: compiled anew"]
    assert n_hits() == 1


def test_code_of_a_read_only_image_is_loaded(tmp_path, capsys, monkeypatch):
    def read_only(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    place = cache.folder.__wrapped__()
    monkeypatch.setattr(cache.tempfile, "TemporaryFile", read_only)
    assert cache.folder.__wrapped__() == place and not told_by(capsys)


def test_a_full_disk_costs_the_kept_code_alone(kept, capsys, monkeypatch):
    for path in kept.glob("*.code"):
        path.unlink()

    def full(source, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk.os, "replace", full)
    assert n_hits() == 0
    told = f"omkl: compiled code cannot be kept in {kept} (No space left on device)"
    assert told_by(capsys) == [told]
    assert not list(kept.iterdir())
