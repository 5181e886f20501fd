"""Machine code on disk, and which sources it depends on.

The code is kept in a folder named after a hash of the package's compiled sources, the
compiler and the processor: Numba itself looks only at the file of the function it
loads, so an edit in a callee would silently bring back old numbers.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import pickle
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core.caching import IndexDataCacheFile

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

config: Any = numba.config  # its names are made at run time

PACKAGE = Path(__file__).parents[1]

# Files and folders of which nothing is compiled, nor imported by what is; a new file is none of
# them until it is named here. ``tests/test_sources.py`` looks whether this is so.
NOT_COMPILED = {
    "__init__.py": "the version",
    "benchmark/": "other libraries, kept under keys of their own",
    "checks/": "the conformance suite",
    "cached_arrays.py": "keeps arrays, in Python",
    "citation/": "BibTeX",
    "commands/": "compose configurations, which have keys",
    "experiment/": "feeds learners and federations, in Python",
    "api.py": "what is called from Python, above all else",
    "compositions.py": "puts YAML files together",
    "conf.py": "finds YAML files",
    "core/snapshot.py": "copies what was learned, in Python",
    "datasets/": "reads data, in Python",
    "disk.py": "writes files whole",
    "federated/__init__.py": "names",
    "federated/budget.py": "counts what is sent, in Python",
    "federated/flower/": "carries messages, in Python",
    "federated/hindsight.py": "NumPy",
    "federated/holders/": "clients with files of their own and their server, in Python",
    "federated/parties.py": "client and server of a deployment, in Python",
    "federated/simulation.py": "holds what the compiled rounds work on",
    "federated/split.py": "deals rows, in Python",
    "theory/": "judges runs, with NumPy and SciPy",
    "online/": "a learner in the units of its user, in Python",
    "outside.py": "finds modules of others, whose machine code is not kept",
    "registry.py": "finds modules",
    "river.py": "estimators, which call learners from Python",
    "sklearn.py": "estimators, which call learners from Python",
    "reproduction/": "starts jobs and fills published tables from their runs",
    "report/": "tables and figures",
    "runs/": "reads and writes run folders",
    "startup.py": "the order of imports",
    "threads.py": "how many threads, in Python",
    "tracking/": "the MLflow view",
}


def files_without(left_out: Iterable[str]) -> list[Path]:
    """The package's sources, in order, but for files and folders ("report/") that are named."""
    names = set(left_out)

    def named(path: Path) -> bool:
        place = path.relative_to(PACKAGE)
        return place.as_posix() in names or any(f"{f.as_posix()}/" in names for f in place.parents)

    return [path for path in sorted(PACKAGE.rglob("*.py")) if not named(path)]


def sources() -> list[Path]:
    """The files whose text can change a compiled number."""
    return files_without(NOT_COMPILED)


@functools.cache
def fingerprint() -> str:
    """Sixteen hex digits naming compiled sources, flags among them, compiler and processor."""
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.relative_to(PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    options = (numba.__version__, np.__version__, sys.version_info[:2])
    processor = (config.CPU_NAME, config.CPU_FEATURES, config.ENABLE_AVX, config.OPT)
    # What the environment can tell the compiler that changes the order of a sum.
    vectors = (config.LOOP_VECTORIZE, config.SLP_VECTORIZE, config.DISABLE_INTEL_SVML)
    digest.update(repr((options, processor, vectors)).encode())
    return digest.hexdigest()[:16]


@functools.cache
def folder() -> Path | None:
    """Where machine code is kept: ``NUMBA_CACHE_DIR`` or the user's cache folder.

    Returns None, after saying so once, where nothing can be written.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    base = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(home) / "omkl")
    place = base / f"omkl-{fingerprint()}"
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
    _forget_old(base, keep=place)
    return place


def _forget_old(base: Path, keep: Path, n_kept: int = 8) -> None:
    with contextlib.suppress(OSError):
        os.utime(keep)
        folders = sorted(base.glob("omkl-*"), key=lambda p: p.stat().st_mtime, reverse=True)
        for folder in folders[n_kept:]:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """Numba reads its cache folder when a function is decorated."""
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before


class CheckedFiles(IndexDataCacheFile):
    """Numba's files of machine code, each with a sha256 after it.

    What is damaged would end every start in a traceback, or run. It is thrown away, which one line
    on stderr tells, and compiled anew.
    """

    def _read(self, path: str) -> bytes | None:
        try:
            raw = Path(path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            tell(f"{path} cannot be read ({error.strerror}): compiled anew")
            return None
        data, found = raw[:-_DIGEST_BYTES], raw[-_DIGEST_BYTES:]
        if found == _digest_of(path, data):
            return data
        tell(f"{path} is damaged: compiled anew")
        with contextlib.suppress(OSError):
            os.unlink(path)
        return None

    def _load_index(self) -> dict[Any, str]:
        data = self._read(self._index_path)
        if data is None:
            return {}
        file = io.BytesIO(data)
        if pickle.load(file) != self._version:
            return {}
        stamp, overloads = pickle.loads(file.read())
        return overloads if stamp == self._source_stamp else {}

    def _load_data(self, name: str) -> Any:
        data = self._read(self._data_path(name))
        if data is None:
            raise FileNotFoundError(name)  # Numba compiles
        return pickle.loads(data)

    @contextlib.contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        sink = io.BytesIO()
        yield sink
        data = sink.getvalue()
        temporary = f"{filepath}.tmp.{uuid.uuid4().hex[:16]}"
        try:
            with open(temporary, "wb") as file:
                file.write(data + _digest_of(filepath, data))
            os.replace(temporary, filepath)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


_DIGEST_BYTES = 32


def _digest_of(path: str, data: bytes) -> bytes:
    """Of a file's name too: one file's code must not be found under another's."""
    return hashlib.sha256(os.path.basename(path).encode() + b"\n" + data).digest()


@functools.cache
def tell(text: str) -> None:
    """A line on stderr, once."""
    print(f"omkl: {text}", file=sys.stderr, flush=True)


def checked(dispatcher: Any, folder: Path) -> Any:
    """A function whose machine code is kept in ``folder``: its files checked, saved alone."""
    cache = dispatcher._cache
    known = cache._cache_file
    base = known._index_name.removesuffix(".nbi")
    cache._cache_file = CheckedFiles(known._cache_path, base, known._source_stamp)
    cache.load_overload = _telling(cache.load_overload)
    cache.save_overload = _saved_alone(cache.save_overload, folder)
    return dispatcher


_listeners: list[Callable[[], None]] = []


@contextlib.contextmanager
def told_of_compiling(tell: Callable[[], None]) -> Iterator[None]:
    """Call ``tell`` whenever a function is not found on disk, before it is compiled."""
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.remove(tell)


def _telling(load: Callable[..., Any]) -> Callable[..., Any]:
    def load_or_tell(signature: Any, target: Any) -> Any:
        found = load(signature, target)
        if found is None:
            for tell in _listeners:
                tell()
        return found

    return load_or_tell


def _saved_alone(save: Callable[..., None], folder: Path) -> Callable[..., None]:
    """``save`` with a lock that all processes share; where it cannot, code is not kept.

    Numba reads, changes and writes its index of what is kept: of two processes that add to it at
    once, one's entry would be lost, or found for the other's code.
    """

    def save_alone(signature: Any, data: Any) -> None:
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):  # a folder that is gone is shared with nobody
                if fcntl is not None:
                    file = held.enter_context(open(folder / "saving.lock", "w"))
                    fcntl.flock(file, fcntl.LOCK_EX)
            try:
                save(signature, data)
            except OSError as error:
                tell(f"compiled code cannot be kept in {folder} ({error.strerror})")

    return save_alone
