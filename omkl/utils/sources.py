"""Which sources machine code and results are made of, as this process imported them.

What is kept under a digest of the sources (machine code, results, comparators) must come from the
sources that were imported, and not from what the files say later. So all of them are read once,
when the package is imported, and whoever keeps something asks ``edited`` first.

An edit of one algorithm leaves the machine code of the others, and their results, as they are.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.machinery
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from omkl.utils.wording import tell

PACKAGE = Path(__file__).parents[1]


class Source(NamedTuple):
    """A file as it was read: the sha256 of its text, and what the system said of the file."""

    digest: str
    state: tuple[int, ...]


def look(package: Path) -> dict[Path, Source]:
    """All sources of a package, in order. An editor's hidden files are none."""
    return {path: read(path) for path in sorted(python_files(package))}


def python_files(folder: Path) -> Iterator[Path]:
    """The Python files below a folder that can be imported."""
    return (path for path in folder.rglob("*.py") if not path.name.startswith("."))


def read(path: Path) -> Source:
    state = _state(path)
    return Source(hashlib.sha256(path.read_bytes()).hexdigest(), state)


def _state(path: Path) -> tuple[int, ...]:
    status = os.stat(path)
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


SOURCES = look(PACKAGE)


def edited() -> list[str]:
    """The sources of the package that are not as they were imported, by their names in it.

    A file counts that has changed or gone since the package was imported: whether a module that is
    imported later has the old text or the new one cannot be told. So does a module whose bytecode
    is not that of its source.
    """
    found = [_name(path) for path in _changed(SOURCES)]
    found += [_name(path) for path in _stale() if _name(path) not in found]
    return found


def nothing_is_kept() -> bool:
    """Whether sources are edited, which one line on stderr says: then nothing is found or kept."""
    names = edited()
    if names:
        name = f"{PACKAGE.name}/{names[0]}"
        tell(f"{name} was edited after it was imported: nothing is kept for later")
    return bool(names)


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _changed(sources: dict[Path, Source]) -> Iterator[Path]:
    for path, source in sources.items():
        try:
            if _state(path) == source.state:
                continue
            now = read(path)
        except OSError:
            yield path
            continue
        if now.digest == source.digest:
            sources[path] = now  # touched
        else:
            yield path


_checked: dict[str, bool] = {}


def _stale() -> Iterator[Path]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != PACKAGE.name or not getattr(module, "__file__", None):
            continue
        if name not in _checked:
            _checked[name] = has_stale_bytecode(module)
        if _checked[name]:
            yield Path(str(module.__file__))


def has_stale_bytecode(module: ModuleType) -> bool:
    """Whether a module was imported from bytecode of another source than its file has.

    Python takes the bytecode that was written for a source of the same size and the same second.
    Only a source that was changed after its bytecode was written can be such a case, so only these
    are compiled to compare.
    """
    file, cached = getattr(module, "__file__", None), getattr(module, "__cached__", None)
    if not file or not cached:
        return False
    try:
        if os.stat(file).st_ctime_ns <= os.stat(cached).st_mtime_ns:
            return False
        text = Path(file).read_bytes()
    except OSError:  # no bytecode was written, or there is no source
        return False
    loader = importlib.machinery.SourceFileLoader(module.__name__, file)
    try:
        return loader.get_code(module.__name__) != compile(text, file, "exec", dont_inherit=True)
    except (OSError, ImportError, SyntaxError):
        return True


# --- modules outside the package


def files_behind(paths: Iterable[Path]) -> list[Path]:
    """Python files, and all that they import that belongs to no installed distribution, in order.

    Imports inside functions count; what a module builds by hand (``importlib.import_module``) is
    not seen.
    """
    found: set[Path] = set()
    waiting = [path.resolve() for path in paths]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _imports_of(path, _state(path))
    return sorted(found)


@functools.cache
def _imports_of(path: Path, state: tuple[int, ...]) -> tuple[Path, ...]:
    """The files of modules that a file imports, but for those that are installed."""
    return tuple(sorted({file for name in _names_imported(path) for file in _files_of(name)}))


def _names_imported(path: Path) -> set[str]:
    """The modules that a file imports, inside functions as well, and names that may be modules."""
    package = _package_of(path)
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *filter(None, [node.module])])
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return names


def _package_of(path: Path) -> tuple[str, ...]:
    """The names of the packages that a file lies in, the outermost first."""
    names: list[str] = []
    folder = path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    return tuple(names)


def _files_of(module: str) -> Iterator[Path]:
    """The source of a module and of the packages above it, unless they are installed or ours."""
    places: list[str] | None = None
    parts = module.split(".")
    for n in range(1, len(parts) + 1):
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:n]), places)
        if spec is None:
            return
        if spec.origin and spec.origin.endswith(".py"):
            path = Path(spec.origin).resolve()
            if PACKAGE in path.parents or any(path.is_relative_to(p) for p in _installed()):
                return
            yield path
        if spec.submodule_search_locations is None:
            return
        places = list(spec.submodule_search_locations)


@functools.cache
def _installed() -> tuple[Path, ...]:
    """The folders of the standard library and of installed distributions."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({Path(sysconfig.get_path(name)).resolve() for name in names})


def digest_of(paths: Iterable[Path]) -> str:
    """The sha256 of files as they are now, under their names."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


# --- what machine code and results are made of

# Folders that hold all that is compiled.
COMPILED = ("core/", "algorithms/", "federated/")

# Folders and files that start runs or show them; everything else can change a number of a run.
VIEWS = (
    *("checks/", "commands/", "federation/", "papers/", "report/"),
    *("config/command_line.py", "config/reference.py", "experiment/viewers.py"),
    *("river.py", "sklearn.py", "spark.py"),
)

# Folders of algorithms: a file in them counts for the learners that are made of it.
ALGORITHMS = ("algorithms/", "federated/algorithms/")


def files(within: Iterable[str] = ("",), without: Iterable[str] = ()) -> list[Path]:
    """The package's sources, in order, whose places in it begin with one of ``within``."""
    chosen, left_out = tuple(within), tuple(without)
    places = ((path, path.relative_to(PACKAGE).as_posix()) for path in SOURCES)
    return [p for p, place in places if place.startswith(chosen) and not place.startswith(left_out)]


def shared_files() -> list[Path]:
    """Those of them that all learners are made of."""
    return files(COMPILED, ALGORITHMS)


def add_to(digest: Any, files: Iterable[Path]) -> None:
    """Add what files of the package are called, and what was in them, to a digest of hashlib."""
    for path in files:
        digest.update(path.relative_to(PACKAGE).as_posix().encode())
        digest.update(SOURCES[path].digest.encode())


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
    return frozenset(path for path in paths if path in SOURCES)


@functools.cache
def _imported(path: Path) -> frozenset[Path]:
    """The files of algorithms that a file imports."""
    return frozenset(file for name in _names_imported(path) for file in _files_named(name))


def fingerprint(*modules: str) -> str:
    """Sixteen hex digits naming what machine code is made of.

    That is the shared sources, flags among them, compiler and processor, and the algorithms that
    ``modules`` are.
    """
    return _fingerprint_with(*files_of(modules))


def are_compiled() -> bool:
    """Whether functions are compiled in this process: NUMBA_DISABLE_JIT is not set."""
    import numba

    config: Any = numba.config
    return not config.DISABLE_JIT


@functools.cache
def _fingerprint_with(*files: Path) -> str:
    if files:
        digest = hashlib.sha256(_fingerprint_with().encode())
        add_to(digest, files)
        return digest.hexdigest()[:16]
    import numba  # late: whoever imports omkl alone does not wait for the compiler
    import numpy as np

    config: Any = numba.config  # its names are made at run time
    digest = hashlib.sha256()
    add_to(digest, shared_files())
    options = (numba.__version__, np.__version__, sys.version_info[:2])
    processor = (config.CPU_NAME, config.CPU_FEATURES, config.ENABLE_AVX, config.OPT)
    # What the environment can tell the compiler that changes the order of a sum.
    vectors = (config.LOOP_VECTORIZE, config.SLP_VECTORIZE, config.DISABLE_INTEL_SVML)
    digest.update(repr((options, processor, vectors)).encode())
    return digest.hexdigest()[:16]
