"""Modules outside the package: algorithms and kernel families of users.

A module has one algorithm or a family of algorithms (``registry``). The user names it by an entry
point of an installed package in the group ``omkl.algorithms`` (one per algorithm), by the key
``module`` of a YAML file, or on the command line. omkl only imports a module that is named in one
of these ways. A run folder or a data file never causes an import. YAML files are searched first in
the package's folder ``conf``, then in the folders ``conf`` next to such modules.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from omkl.utils.sources import python_files
from omkl.utils.wording import tell

GROUP = "omkl.algorithms"


class ModuleProblem(ValueError):
    """Error: a named module is missing or cannot be imported. The text names the module."""


class EntryPoint(NamedTuple):
    """Algorithm of an installed package.

    module   name of the module that defines the algorithm
    package  name of the package, for messages
    """

    module: str
    package: str


@functools.cache
def entry_points() -> dict[str, EntryPoint]:
    """Return the algorithms of installed packages by name. A name in two packages is left out."""
    claims: dict[str, set[EntryPoint]] = {}
    for found in importlib.metadata.entry_points(group=GROUP):
        package = found.dist.name if found.dist else "an unknown package"
        claims.setdefault(found.name, set()).add(EntryPoint(found.value, package))
    for name, several in claims.items():
        if len(several) > 1:
            both = " and ".join(sorted(f"{one.module} of {one.package}" for one in several))
            tell(f"the algorithm {name} is left out, since it is {both}: uninstall one of them")
    return {name: next(iter(one)) for name, one in sorted(claims.items()) if len(one) == 1}


_declared: dict[str, str] = {}


def modules() -> dict[str, str]:
    """Return the module of every algorithm outside the package, by name."""
    return {name: point.module for name, point in entry_points().items()} | _declared


def declare(name: str, module: str) -> None:
    """Register the algorithm ``name`` of ``module`` without importing it.

    Raises ModuleProblem if the module belongs to the package, or the name is taken.
    """
    check_name(module)
    known = modules().get(name, module)
    if known != module:
        raise ModuleProblem(f"the algorithm {name} is {known} already: {module} needs another name")
    _declared[name] = module


def check_name(module: object) -> None:
    """Raise ModuleProblem unless ``module`` is the dotted name of a module outside the package."""
    if not isinstance(module, str) or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", module):
        raise ModuleProblem(f"module={module!r} is no name of a module, such as mypkg.fixed_share")
    if module.partition(".")[0] == "omkl":
        raise ModuleProblem(f"module={module} is in omkl itself: leave module out")


def source_of(module: str) -> Path | None:
    """Return the source file of a module without importing the module or its packages."""
    spec = _top(module)
    parts = module.split(".")
    for n in range(2, len(parts) + 1):
        if spec is None or spec.submodule_search_locations is None:
            return None
        places = list(spec.submodule_search_locations)
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:n]), places)
    return Path(spec.origin) if spec and spec.origin and Path(spec.origin).is_file() else None


def _top(module: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(module.partition(".")[0])
    except ValueError:  # __main__ has no spec
        return None


def require(module: str) -> None:
    """Raise ModuleProblem if the module does not exist. The module is not imported."""
    check_name(module)
    if module not in sys.modules and source_of(module) is None:
        raise ModuleProblem(
            f"there is no module {module}: install its package, or put the folder that holds "
            f"{module.partition('.')[0]} into PYTHONPATH"
        )


def without_yaml(name: str, module: str) -> str:
    """Return the message that an algorithm outside the package has no YAML file.

    Parameters
    ----------
    name, module
        Name and module of the algorithm.
    """
    return (
        f"there is no algorithm/{name}.yaml with the parameters of {module}, neither in the folder "
        f"conf beside {source_of(module)} nor in --config-dir"
    )


def conf_folders() -> list[Path]:
    """Return the folders ``conf`` next to the modules of algorithms, sorted by algorithm name."""
    files = [source_of(module) for _, module in sorted(modules().items())]
    folders = [path.parent / "conf" for path in files if path is not None]
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def load(module: str) -> ModuleType:
    """Import a module that the user named. Raises ModuleProblem with the error and its line."""
    require(module)
    try:
        found = importlib.import_module(module)
    except Exception as error:
        raise ModuleProblem(f"the module {module} cannot be imported: {_located(error)}") from error
    digest_of(module)  # cached now, so that later edits are detected
    return found


def _located(error: Exception) -> str:
    """Return the text of an error, with file and line of the user's code that caused it."""
    not_theirs = ("<frozen", str(Path(__file__).parents[1]), str(Path(importlib.__file__).parent))
    lines = traceback.extract_tb(error.__traceback__)
    theirs = [line for line in lines if not line.filename.startswith(not_theirs)]
    place = f" ({theirs[-1].filename}, line {theirs[-1].lineno})" if theirs else ""
    return f"{type(error).__name__}: {error}{place}"


@functools.cache
def digest_of(module: str) -> str:
    """Return the SHA-256 of the sources of a module outside the package, read at the first call.

    The sources are all Python files of the module's package. A module without a package may import
    the other modules of its folder, so its sources are the Python files of its folder. Raises
    ModuleProblem if the source is not a file.
    """
    return _digest_now(module)


def edited(modules: Iterable[str]) -> list[str]:
    """Return the modules whose sources have changed since the first call of ``digest_of``."""
    return [name for name in modules if _digest_now(name) != digest_of(name)]


def _digest_now(module: str) -> str:
    path, spec = source_of(module), _top(module)
    if path is None or spec is None:
        raise ModuleProblem(
            f"the source of {module} is no file, so omkl could not detect its edits: put it "
            "into a module of its own"
        )
    digest = hashlib.sha256()
    if spec.submodule_search_locations is None:
        files = sorted(path.parent.glob("[!.]*.py"))
    else:
        files = [file for p in spec.submodule_search_locations for file in python_files(Path(p))]
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def digests(names: Iterable[str]) -> dict[str, str]:
    """Return the digest of each module outside the package, by name."""
    return {name: digest_of(name) for name in sorted(set(names)) if not name.startswith("omkl.")}
