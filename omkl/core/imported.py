"""The sources of the package as this process imported them, and whether they have changed since.

What is kept under a digest of the sources (machine code, results, comparators) must come from the
sources that were imported, and not from what the files say later. So all of them are read once,
when the package is imported, and whoever keeps something asks ``edited`` first.
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
from typing import NamedTuple

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
        _tell(names[0])
    return bool(names)


@functools.cache
def _tell(name: str) -> None:
    text = (
        f"omkl: {PACKAGE.name}/{name} was edited after it was imported: nothing is kept for later"
    )
    print(text, file=sys.stderr, flush=True)


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
    package = _package_of(path)
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *filter(None, [node.module])])
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return tuple(sorted({file for name in names for file in _files_of(name)}))


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
