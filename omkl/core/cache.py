"""Cache of machine code on disk: one file with a checksum per function and set of argument types.

Numba's own cache has one index file per function, which all processes rewrite. If two processes
save at the same time, the index may pair the code of one with the argument types of the other. A
damaged file or a full disk ends the run. Here the file name is a digest of the sources and argument
types of the code, so no index is needed.
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

from omkl.utils import outside, sources
from omkl.utils.disk import keep_newest, read_sealed, sealed, user_cache, write_atomically
from omkl.utils.wording import tell


@functools.cache
def folder() -> Path | None:
    """Return the folder for machine code, in ``NUMBA_CACHE_DIR`` or the user's cache folder.

    Returns
    -------
    Path or None
        None if the folder does not exist and cannot be created. A message on stderr explains why.
    """
    base = user_cache()
    place = base / f"omkl-{sources.machine_code()}"
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        if place.is_dir():
            return place  # a read-only image: load the code that was compiled into it
        tell(
            f"compiled code cannot be kept in {base} ({error.strerror}); every start will "
            "compile anew. Set NUMBA_CACHE_DIR to a writable folder."
        )
        return None
    # Mark the folder as used now: ``keep_newest`` removes the folders with the oldest times.
    with contextlib.suppress(OSError):
        os.utime(place)
    keep_newest(base, re.compile(r"omkl-[0-9a-f]{16}"), 8)
    return place


class KeptCode(NullCache):
    """Machine code of one compiled function: one file per set of argument types.

    Each file has a checksum. If the checksum is wrong, the file is removed with one line on stderr,
    and the function is compiled again. Processes that compile the same function at the same time
    write equal files.

    Parameters
    ----------
    function
        Python function.
    options
        Options of the compiler.
    folder
        Folder of the files.
    module
        Name of the module outside the package whose code the function calls; "" for none.
    digest
        Digest of the sources of ``module``.
    """

    def __init__(
        self,
        function: Any,
        options: Mapping[str, Any],
        folder: Path,
        module: str = "",
        digest: str = "",
    ):
        self._folder, self._module = folder, module
        self.name = f"{function.__module__}.{function.__qualname__}".replace("<locals>.", "")
        cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
        text = json.dumps(dict(options), default=sorted, sort_keys=True).encode()
        self._made_of = function.__code__.co_code + text + (dumps(cells) if cells else b"")
        self._made_of += digest.encode()

    def disable(self) -> None:
        raise NotImplementedError("compile with omkl.core.compiler.for_this_process")

    def flush(self) -> None:
        raise NotImplementedError(f"delete {self._folder}")

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for arguments of these types, or None if it has to be compiled.

        Listeners of ``on_cache_miss`` are called before the function returns None.
        """
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        kept = None if self._is_edited() else read_sealed(path, path.name, "compiled anew")
        if kept is None:
            for listener in _listeners:
                listener()
            return None
        return CompileResult._rebuild(target_context, *pickle.loads(kept))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store compiled code. If that fails, print one line on stderr."""
        if data.library.has_dynamic_globals and not self._module:
            raise TypeError(f"{self.name} holds an address of this process: see for_this_process")
        if data.library.has_dynamic_globals or self._is_edited():
            return
        path = self._path(sig, data.codegen)
        try:
            content = sealed(dumps(data._reduce()), path.name)
            write_atomically(path, content, sync=False)
        except OSError as error:
            tell(f"compiled code cannot be kept in {self._folder} ({error.strerror})")

    def _is_edited(self) -> bool:
        return sources.nothing_is_kept() or bool(self._module and outside.edited([self._module]))

    def _path(self, signature: Any, codegen: Any) -> Path:
        """Return the file for these argument types on this kind of processor.

        The digest in its name includes Numba's setting BOUNDSCHECK, which adds index checks to the
        code.
        """
        checked = config.BOUNDSCHECK  # type: ignore[attr-defined]
        text = f"{signature} {codegen.magic_tuple()} {checked}".encode() + self._made_of
        return self._folder / f"{self.name}-{hashlib.sha256(text).hexdigest()[:24]}.code"


_listeners: list[Callable[[], None]] = []


@contextlib.contextmanager
def on_cache_miss(tell: Callable[[], None]) -> Iterator[None]:
    """Call ``tell`` before each compilation of an uncached function inside the ``with`` block."""
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.remove(tell)
