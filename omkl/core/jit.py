"""The compiler: with ``simd`` the only module that knows Numba.

``compiled`` marks a function of the streaming core. The machine code is kept
on disk in a folder named after a hash of the package's compiled sources, the
compiler and its flags: Numba itself looks only at the file of the function it
loads, so an edit in a callee would silently bring back old numbers.

With ``NUMBA_DISABLE_JIT=1`` every function below is plain Python with the same
results, and a debugger works.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic, overload, register_jitable

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

config: Any = numba.config  # its names are made at run time
F = TypeVar("F", bound=Callable[..., Any])

ENABLED = not config.DISABLE_JIT

# No flag here assumes away NaN or infinity, and none may re-associate: that
# would destroy the range reduction of the trigonometry. Only `dot` re-associates.
FLAGS = {"contract", "nsz"}

# The caller owns every array, so that no reference is counted (an atomic instruction for
# each array at each step) and nothing can be allocated: that would not compile.
_OPTIONS: dict[str, Any] = {"fastmath": FLAGS, "error_model": "numpy", "_nrt": False}

PACKAGE = Path(__file__).parents[1]

# Files and folders of which nothing is compiled, nor imported by what is; a new file is none of
# them until it is named here. ``tests/test_sources.py`` looks whether this is so.
NOT_COMPILED = {
    "__init__.py": "the version",
    "benchmark/": "other libraries, kept under keys of their own",
    "checks/": "the conformance suite",
    "commands/": "compose configurations, which have keys",
    "experiment/": "feeds learners and federations, in Python",
    "conf.py": "finds YAML files",
    "datasets/": "reads data, in Python",
    "federated/__init__.py": "names",
    "federated/flower/": "carries replies, in Python",
    "federated/hindsight.py": "NumPy and SciPy",
    "federated/parties.py": "client and server of a deployment, in Python",
    "federated/simulation.py": "holds what the compiled rounds work on",
    "federated/split.py": "deals rows, in Python",
    "theory/": "judges runs, with NumPy and SciPy",
    "registry.py": "finds modules",
    "reproduction/": "starts jobs and fills published tables from their runs",
    "report/": "tables and figures",
    "runs/": "reads and writes run folders",
    "startup.py": "the order of imports",
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
    """Twelve hex digits naming compiled sources, compiler, flags and processor options."""
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.relative_to(PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    options = (numba.__version__, np.__version__, sys.version_info[:2], sorted(FLAGS))
    processor = (config.CPU_NAME, config.CPU_FEATURES, config.ENABLE_AVX, config.OPT)
    digest.update(repr((options, processor)).encode())
    return digest.hexdigest()[:12]


@functools.cache
def cache_folder() -> Path | None:
    """Where machine code is kept: ``NUMBA_CACHE_DIR`` or the user's cache folder.

    Returns None, after saying so once, where nothing can be written.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    base = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(home) / "omkl")
    folder = base / f"omkl-{fingerprint()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        print(
            f"omkl: compiled code cannot be kept in {base} ({error.strerror}); "
            "every start will compile anew. Set NUMBA_CACHE_DIR to a writable folder.",
            file=sys.stderr,
        )
        return None
    _forget_old(base, keep=folder)
    return folder


def _forget_old(base: Path, keep: Path, n_kept: int = 8) -> None:
    with contextlib.suppress(OSError):
        os.utime(keep)
        folders = sorted(base.glob("omkl-*"), key=lambda p: p.stat().st_mtime, reverse=True)
        for folder in folders[n_kept:]:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    """Numba reads its cache folder when a function is decorated."""
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before


def compiled(function: F) -> F:
    """Compile for the streaming core: no interpreter lock, kept on disk."""
    if not ENABLED:
        return function
    folder = cache_folder()
    if folder is None:
        return numba.njit(nogil=True, **_OPTIONS)(function)
    with _cache_in(folder):
        dispatcher: Any = numba.njit(cache=True, nogil=True, **_OPTIONS)(function)
    dispatcher._cache.save_overload = _one_at_a_time(dispatcher._cache.save_overload, folder)
    return dispatcher


def _one_at_a_time(save: Callable[..., None], folder: Path) -> Callable[..., None]:
    """``save`` with a lock that all processes share.

    Numba reads, changes and writes its index of what is kept: of two processes that add to it at
    once, one's entry would be lost, or found for the other's code.
    """

    def save_alone(signature: Any, data: Any) -> None:
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):  # a folder that is gone is shared with nobody
                file = held.enter_context(open(folder / "saving.lock", "w"))
                fcntl.flock(file, fcntl.LOCK_EX)
            save(signature, data)

    return save_alone if fcntl is not None else save


def for_this_process(function: Any) -> Any:
    """As ``compiled``, and nothing is kept on disk."""
    return numba.njit(nogil=True, **_OPTIONS)(function) if ENABLED else function


@functools.cache
def uncached(function: Any) -> Any:
    """The same compiled function, kept for this process alone."""
    return for_this_process(function.py_func) if ENABLED else function


# Always inlined: a call would push every field of every array of a state on the stack.
_INSIDE: dict[str, Any] = {**_OPTIONS, "forceinline": True}


def inlined(function: F) -> F:
    """A piece of compiled code that has no entry point of its own."""
    return register_jitable(**_INSIDE)(function) if ENABLED else function


def dispatch(step: Any, kind: type, function: Callable[..., Any]) -> None:
    """Make ``function`` what ``step`` does when its first argument is a ``kind``.

    ``step`` is a ``functools.singledispatch`` function: that is the dispatch in
    plain Python. For compiled code the same rule is registered by type, which
    (unlike functions passed as arguments) the on-disk cache survives.
    """
    step.register(kind)(function)
    if not ENABLED:
        return
    qualify_name(kind)
    names = list(function.__code__.co_varnames[: function.__code__.co_argcount])
    first = names[0]
    scope: dict[str, Any] = {"kind": kind, "function": function}
    lines = [
        f"def choose({', '.join(names)}):",
        f"    if getattr({first}, 'instance_class', None) is kind:",
        "        return function",
    ]
    exec("\n".join(lines), scope)
    overload(step, jit_options=_INSIDE)(scope["choose"])  # type: ignore[arg-type]


def qualify_name(kind: type) -> None:
    """Give a NamedTuple its full name, module included, in the symbols of compiled code.

    Numba names a symbol by the bare class names of its arguments. Two algorithms whose
    ``Params`` have fields of the same types, compiled in different processes, would get
    one name for both; a process that loads both from disk then runs one for the other.
    """
    kind.__name__ = f"{kind.__module__}.{kind.__qualname__}"


def n_specialisations(function: Any) -> int:
    """How many argument types a compiled function has met in this process."""
    return len(function.signatures) if ENABLED else 0


def power_of_two(k):
    """2**k for an integral float k in -1022..1023, exact; in compiled code without a call."""
    return math.ldexp(1.0, int(k))


if ENABLED:

    @intrinsic
    def _power_of_two(typingctx: Any, k: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from llvmlite import ir

            integer = builder.fptosi(args[0], ir.IntType(64))
            biased = builder.add(integer, ir.Constant(ir.IntType(64), 1023))
            bits = builder.shl(biased, ir.Constant(ir.IntType(64), 52))
            return builder.bitcast(bits, ir.DoubleType())

        return types.float64(types.float64), build

    @overload(power_of_two)
    def _power_of_two_compiled(k):
        return lambda k: _power_of_two(k)  # type: ignore[call-arg]


def reassociating(function: F) -> F:
    """Compile a helper whose sum may be taken in any order, so that it becomes vector code.

    The freedom holds for the instructions of this function alone, not for what it calls.
    """
    if not ENABLED:
        return function
    return numba.njit(**_OPTIONS | {"nogil": True, "fastmath": FLAGS | {"reassoc"}})(function)


@reassociating
def dot(a, b):
    """Inner product of two vectors, (n,) and (n,); the order of the sum is free."""
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total
