"""Digests of the package's sources, as this process imported them.

Machine code, results and prepared data are stored under such a digest. All sources are read once,
when the first module of the package is imported. ``edited`` returns the sources that have changed
since then. The digest may not describe a module that is imported after an edit, so nothing is
stored after an edit.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from pathlib import Path
from typing import Any

from omkl.utils.wording import tell

PACKAGE = Path(__file__).parents[1]
VIEWS = ("commands/", "report/")  # code that starts and shows runs, and does not change results
COMPILED = ("algorithms/", "core/", "federated/")


def python_files(folder: Path) -> list[Path]:
    """Return the Python files below a folder, sorted, without the hidden files of editors."""
    return sorted(path for path in folder.rglob("*.py") if not path.name.startswith("."))


def _state(path: Path | str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


_READ = {
    path.relative_to(PACKAGE).as_posix(): (_state(path), _sha256(path))
    for path in python_files(PACKAGE)
}


@functools.cache
def digest(within: tuple[str, ...] = ("",), without: tuple[str, ...] = ()) -> str:
    """Return 16 hex digits that identify a part of the sources.

    The part has the files whose paths, relative to the package, begin with one of ``within`` and
    with none of ``without``.
    """
    text = "\n".join(
        f"{place} {sha256}"
        for place, (_, sha256) in _READ.items()
        if place.startswith(within) and not place.startswith(without)
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def edited() -> list[str]:
    """Return the sources that were changed or removed after the package was imported."""
    return [place for place, (state, sha256) in _READ.items() if _differs(place, state, sha256)]


def _differs(place: str, state: tuple[int, int], sha256: str) -> bool:
    path = f"{PACKAGE}/{place}"  # not a Path, which would take most of the time of this check
    try:
        return _state(path) != state and _sha256(Path(path)) != sha256
    except OSError:
        return True


def nothing_is_kept() -> bool:
    """Return whether sources were edited, so that nothing may be cached. Print a message once."""
    names = edited()
    if names:
        name = f"{PACKAGE.name}/{names[0]}"
        tell(f"{name} was edited after it was imported: nothing is kept for later")
    return bool(names)


def are_compiled() -> bool:
    """Return whether this process compiles functions: NUMBA_DISABLE_JIT is not set."""
    import numba

    config: Any = numba.config
    return not config.DISABLE_JIT


@functools.cache
def machine_code() -> str:
    """Return 16 hex digits that identify everything that determines machine code.

    They depend on the sources of all compiled functions, on the compiler with its options, and on
    the processor.
    """
    import numba  # imported here: 0.5 s, which `import omkl` alone does not need
    import numpy as np

    config: Any = numba.config  # its attributes are defined at run time
    options = (numba.__version__, np.__version__, sys.version_info[:2])
    processor = (config.CPU_NAME, config.CPU_FEATURES, config.ENABLE_AVX, config.OPT)
    # Environment variables of the compiler that change the order of a sum.
    vectors = (config.LOOP_VECTORIZE, config.SLP_VECTORIZE, config.DISABLE_INTEL_SVML)
    text = repr((digest(COMPILED), options, processor, vectors))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
