"""Which sources compiled code is made of: what is shared, and the algorithm of a learner.

An edit of one algorithm leaves the machine code of the others as it is.
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
    "federated/hindsight.py": "what regret is measured against",
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

# Folders of algorithms: a file in them counts for the learners that are made of it.
ALGORITHMS = ("algorithms/", "federated/algorithms/")


def files_without(left_out: Iterable[str]) -> list[Path]:
    """The package's sources, in order, but for files and folders ("report/") that are named."""
    names = set(left_out)

    def named(path: Path) -> bool:
        place = path.relative_to(PACKAGE)
        return place.as_posix() in names or any(f"{f.as_posix()}/" in names for f in place.parents)

    return [path for path in sorted(PACKAGE.rglob("*.py")) if not named(path)]


def compiled_files() -> list[Path]:
    """The files whose text can change a compiled number."""
    return files_without(NOT_COMPILED)


def shared_files() -> list[Path]:
    """Those of them that all learners are made of."""
    return files_without((*NOT_COMPILED, *ALGORITHMS))


def add_to(digest: Any, files: Iterable[Path]) -> None:
    """Add what files of the package are called, and what is in them, to a digest of hashlib."""
    for path in files:
        digest.update(path.relative_to(PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())


def forget() -> None:
    """Look at the files again."""
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
    return frozenset(path for path in paths if path.is_file())


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
