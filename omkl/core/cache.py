"""Machine code on disk, kept under the sources that it is made of.

Numba's own cache, with a locator of ours, has one stamp and one index for each function. All
learners share ``run_block``: an edit of Raker, 10 s of one core, would compile every learner anew,
eight of them 64 s, and the index imports the modules of all. Two processes that save at once can
write their code under each other's types, and a damaged file or a full disk ends a run.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import pickle
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from numba.core import config
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from omkl.utils import sources
from omkl.utils.disk import keep_newest, read_sealed, sealed, user_cache, write_atomically
from omkl.utils.wording import tell


@functools.cache
def folder() -> Path | None:
    """Where machine code is kept: ``NUMBA_CACHE_DIR`` or the user's cache folder.

    Returns None, after saying so once, where nothing can be written.
    """
    base = user_cache()
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
    keep_newest(base, re.compile(r"omkl-[0-9a-f]{16}"), 8)
    return place


class KeptCode(NullCache):
    """The machine code of one compiled function: a file for each types of its arguments.

    A file's name has a hash of what the code is made of, and it is sealed: what is damaged is
    thrown away, which one line on stderr tells, and compiled anew. Processes that compile the same
    at once write equal files.
    """

    def __init__(self, function: Any, options: Mapping[str, Any], folder: Path):
        self._folder = folder
        self._module = function.__module__
        self.name = f"{function.__module__}.{function.__qualname__}".replace("<locals>.", "")
        cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
        text = json.dumps(dict(options), default=sorted, sort_keys=True).encode()
        self._made_of = function.__code__.co_code + text + (dumps(cells) if cells else b"")

    def disable(self) -> None:
        raise NotImplementedError("compile with omkl.core.compiler.for_this_process")

    def flush(self) -> None:
        raise NotImplementedError(f"delete {self._folder}")

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for arguments of these types; None, and who listens is told, if none is kept."""
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        kept = None if sources.nothing_is_kept() else read_sealed(path, path.name, "compiled anew")
        if kept is None:
            for listener in _listeners:
                listener()
            return None
        return CompileResult._rebuild(target_context, *pickle.loads(kept))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled; where that cannot be, a line on stderr says so once."""
        if data.library.has_dynamic_globals:
            raise TypeError(f"{self.name} holds an address of this process: see for_this_process")
        if sources.nothing_is_kept():
            return
        path = self._path(sig, data.codegen)
        try:
            content = sealed(dumps(data._reduce()), path.name)
            write_atomically(path, content, sync=False)
        except OSError as error:
            tell(f"compiled code cannot be kept in {self._folder} ({error.strerror})")
        stem = re.escape(path.stem.rpartition("-")[0])
        keep_newest(self._folder, re.compile(rf"{stem}-[0-9a-f]{{24}}\.code"), 4)

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
        found, waiting = {self._module}, list(signature)
        while waiting:
            kind = waiting.pop()
            waiting += getattr(kind, "types", ())
            if hasattr(kind, "instance_class"):
                found.add(kind.instance_class.__module__)
        return found


_listeners: list[Callable[[], None]] = []


@contextlib.contextmanager
def on_cache_miss(tell: Callable[[], None]) -> Iterator[None]:
    """Call ``tell`` whenever a function is not found on disk, before it is compiled."""
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.remove(tell)
