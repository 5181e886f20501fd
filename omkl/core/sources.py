"""Which sources compiled code and results are made of: what is shared, and a learner's own.

An edit of one algorithm leaves the machine code of the others, and their results, as they are. All
digests are of the sources as they were imported (``omkl.core.imported``).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numba
import numpy as np

from omkl.core import imported
from omkl.core.imported import PACKAGE

config: Any = numba.config  # its names are made at run time

# Folders that hold all that is compiled.
COMPILED = ("core/", "algorithms/", "federated/")

# Folders and files that start runs or show them; everything else can change a number of a run.
VIEWS = (
    *("benchmark/", "checks/", "citation/", "commands/", "federation/", "papers/", "report/"),
    *("tracking/", "config/command_line.py", "config/help_text.py", "viewers.py"),
    *("river.py", "sklearn.py"),
)

# Folders of algorithms: a file in them counts for the learners that are made of it.
ALGORITHMS = ("algorithms/", "federated/algorithms/")


def files(within: Iterable[str] = ("",), without: Iterable[str] = ()) -> list[Path]:
    """The package's sources, in order, whose places in it begin with one of ``within``."""
    chosen, left_out = tuple(within), tuple(without)
    places = ((path, path.relative_to(PACKAGE).as_posix()) for path in imported.SOURCES)
    return [p for p, place in places if place.startswith(chosen) and not place.startswith(left_out)]


def compiled_files() -> list[Path]:
    """The files whose text can change a compiled number."""
    return files(COMPILED)


def shared_files() -> list[Path]:
    """Those of them that all learners are made of."""
    return files(COMPILED, ALGORITHMS)


def add_to(digest: Any, files: Iterable[Path]) -> None:
    """Add what files of the package are called, and what was in them, to a digest of hashlib."""
    for path in files:
        digest.update(path.relative_to(PACKAGE).as_posix().encode())
        digest.update(imported.SOURCES[path].digest.encode())


def forget() -> None:
    """Make the digests anew, for tests that put other sources into ``imported.SOURCES``."""
    _fingerprint_with.cache_clear()
    _imported.cache_clear()
    _files_named.cache_clear()


def files_of(modules: Iterable[str]) -> list[Path]:
    """The files of algorithms that these modules are, and that they import, in order."""
    found: set[Path] = set()
    waiting = {path for name in modules for path in _files_named(name)}
    while waiting:
        path = waiting.pop()
        found.add(path)
        waiting |= _imported(path) - found
    return sorted(found)


@functools.cache
def _files_named(module: str) -> frozenset[Path]:
    """The file of a module and those of the packages it lies in, as far as they are algorithms."""
    first, *names = module.split(".")
    places = ["/".join(names[:n]) for n in range(1, len(names) + 1)]
    ours = [p for p in places if first == PACKAGE.name and f"{p}/".startswith(ALGORITHMS)]
    paths = [PACKAGE / file for p in ours for file in (f"{p}/__init__.py", f"{p}.py")]
    return frozenset(path for path in paths if path in imported.SOURCES)


@functools.cache
def _imported(path: Path) -> frozenset[Path]:
    """The files of algorithms that a file imports, inside functions as well."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{name.name}" for name in node.names}
    return frozenset(path for name in names for path in _files_named(name))


def fingerprint(*modules: str) -> str:
    """Sixteen hex digits naming what machine code is made of.

    That is the shared sources, flags among them, compiler and processor, and the algorithms that
    ``modules`` are.
    """
    return _fingerprint_with(*files_of(modules))


@functools.cache
def _fingerprint_with(*files: Path) -> str:
    if files:
        digest = hashlib.sha256(_fingerprint_with().encode())
        add_to(digest, files)
        return digest.hexdigest()[:16]
    digest = hashlib.sha256()
    add_to(digest, shared_files())
    options = (numba.__version__, np.__version__, sys.version_info[:2])
    processor = (config.CPU_NAME, config.CPU_FEATURES, config.ENABLE_AVX, config.OPT)
    # What the environment can tell the compiler that changes the order of a sum.
    vectors = (config.LOOP_VECTORIZE, config.SLP_VECTORIZE, config.DISABLE_INTEL_SVML)
    digest.update(repr((options, processor, vectors)).encode())
    return digest.hexdigest()[:16]
