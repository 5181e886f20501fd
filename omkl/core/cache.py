"""Machine code on disk, kept under the sources that it is made of.

Numba itself looks only at the file of the function it loads, so that an edit in a callee would
silently bring back old numbers.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import pickle
import re
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from numba.core import config
from numba.core.caching import _Cache as NumbaCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from omkl.utils import sources


@functools.cache
def folder() -> Path | None:
    """Where machine code is kept: ``NUMBA_CACHE_DIR`` or the user's cache folder.

    Returns None, after saying so once, where nothing can be written.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    base = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(home) / "omkl")
    place = base / f"omkl-{sources.fingerprint()}"
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        tell(
            f"compiled code cannot be kept in {base} ({error.strerror}); every start will "
            "compile anew. Set NUMBA_CACHE_DIR to a writable folder."
        )
        return None
    with contextlib.suppress(OSError):
        os.utime(place)
        _forget_old(base, OURS, n_kept=8)
    return place


OURS = re.compile(r"omkl-[0-9a-f]{16}")  # folders of machine code, whole names


def _forget_old(place: Path, ours: re.Pattern[str], n_kept: int) -> None:
    """Delete but the newest of what has such a name; the place may hold things of others."""
    found = [path for path in place.iterdir() if ours.fullmatch(path.name)]
    for path in sorted(found, key=_age)[n_kept:]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _age(path: Path) -> float:
    try:
        return -path.stat().st_mtime
    except FileNotFoundError:  # deleted by another process
        return 0.0


class KeptCode(NumbaCache):
    """The machine code of one compiled function: a file for each types of its arguments.

    A file's name has a hash of what the code is made of, and its content a sha256 after it: what
    is damaged would end every start in a traceback, or run. It is thrown away, which one line on
    stderr tells, and compiled anew. Processes that compile the same at once write equal files.
    """

    def __init__(self, function: Any, options: Mapping[str, Any], folder: Path):
        self._folder = folder
        self._function = function
        self.name = f"{function.__module__}.{function.__qualname__}".replace("<locals>.", "")
        cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
        text = json.dumps(dict(options), default=sorted, sort_keys=True).encode()
        self._made_of = function.__code__.co_code + text + (dumps(cells) if cells else b"")
        # A function of another package: its file and what that imports, as they are imported now.
        file = Path(function.__code__.co_filename)
        self._own_file = None if sources.PACKAGE in file.parents else file
        self._own_digest = self._digest_of_own()
        self._made_of += self._own_digest.encode()

    def _digest_of_own(self) -> str:
        if self._own_file is None:
            return ""
        return sources.digest_of(sources.files_behind([self._own_file]))

    def _edited(self) -> bool:
        """Whether its sources are not as they were imported: then no code is found or kept."""
        if sources.nothing_is_kept():
            return True
        if self._own_digest != self._digest_of_own():
            tell(f"{self._own_file} was edited after it was imported: its code is not kept")
            return True
        module = sys.modules.get(self._function.__module__)
        return bool(self._own_file and module and sources.has_stale_bytecode(module))

    @property
    def cache_path(self) -> str:
        return str(self._folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for arguments of these types; None, and who listens is told, if none is kept."""
        target_context.refresh()
        payload = None if self._edited() else self._read(self._path(sig, target_context.codegen()))
        if payload is None:
            for tell in _listeners:
                tell()
            return None
        return CompileResult._rebuild(target_context, *pickle.loads(payload))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled; where that cannot be, a line on stderr says so once."""
        if data.library.has_dynamic_globals:
            raise TypeError(f"{self.name} holds an address of this process: see for_this_process")
        if self._edited():
            return
        path = self._path(sig, data.codegen)
        payload = dumps(data._reduce())
        temporary = path.with_suffix(f".tmp.{uuid.uuid4().hex[:16]}")
        try:
            temporary.write_bytes(payload + _digest_of(path, payload))
            os.replace(temporary, path)
            stem = re.escape(path.stem.rpartition("-")[0])
            _forget_old(self._folder, re.compile(rf"{stem}-[0-9a-f]{{24}}\.code"), n_kept=4)
        except OSError as error:
            tell(f"compiled code cannot be kept in {self._folder} ({error.strerror})")
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _path(self, signature: Any, codegen: Any) -> Path:
        """One for each types of arguments, kind of processor and state of the sources.

        And whether indices are checked, which a variable of the environment says.
        """
        checked = config.BOUNDSCHECK  # type: ignore[attr-defined]
        arguments = f"{signature} {codegen.magic_tuple()} {checked}".encode()
        made_of = self._made_of + sources.fingerprint(*sorted(self._modules(signature))).encode()
        hashes = (hashlib.sha256(part).hexdigest()[:24] for part in (arguments, made_of))
        return self._folder / f"{self.name}-{'-'.join(hashes)}.code"

    def _modules(self, signature: Any) -> set[str]:
        """Those that the function and the NamedTuples among the arguments come from."""
        found, waiting = {self._function.__module__}, list(signature)
        while waiting:
            kind = waiting.pop()
            waiting += getattr(kind, "types", ())
            if hasattr(kind, "instance_class"):
                found.add(kind.instance_class.__module__)
        return found

    def _read(self, path: Path) -> bytes | None:
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            tell(f"{path} cannot be read ({error.strerror}): compiled anew")
            return None
        payload, found = raw[:-_DIGEST_BYTES], raw[-_DIGEST_BYTES:]
        if found == _digest_of(path, payload):
            return payload
        tell(f"{path} is damaged: compiled anew")
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def enable(self) -> None:
        """It is."""

    def disable(self) -> None:
        raise NotImplementedError("compile with omkl.core.compiler.for_this_process")

    def flush(self) -> None:
        raise NotImplementedError(f"delete {self._folder}")


_DIGEST_BYTES = 32


def _digest_of(path: Path, payload: bytes) -> bytes:
    """Of a file's name too: one file's code must not be found under another's."""
    return hashlib.sha256(path.name.encode() + b"\n" + payload).digest()


@functools.cache
def tell(text: str) -> None:
    """A line on stderr, once."""
    print(f"omkl: {text}", file=sys.stderr, flush=True)


_listeners: list[Callable[[], None]] = []


@contextlib.contextmanager
def on_cache_miss(tell: Callable[[], None]) -> Iterator[None]:
    """Call ``tell`` whenever a function is not found on disk, before it is compiled."""
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.remove(tell)
