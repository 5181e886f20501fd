"""Registry of algorithms: names, modules and docstrings, read from the sources.

A module with ``algorithm = ...`` is one algorithm with the name of the module. A module with
classes under ``@register_as("name", ...)`` is a family of algorithms. The texts in the decorator
are the names of the algorithm, one or two. A name is typed after ``algorithm=`` and may have a
folder, such as ``rf/``. The registry imports neither algorithms nor the compiler. Modules outside
the package (``outside``) define algorithms in the same two ways. If they use a name of the package,
the algorithm of the package is used.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from omkl.utils import outside
from omkl.utils.wording import tell

FEDERATED = "omkl.federated.algorithms"
PACKAGES = ("omkl.algorithms", FEDERATED)

# Description that the algorithms in a folder share.
FOLDERS = {
    "rf/": "Kernel classifiers on random features: the memory does not grow with the stream."
}


class Entry(NamedTuple):
    """Location of an algorithm.

    module      name of its module
    path        source file
    definition  name of its class, or "" for the module itself
    """

    module: str
    path: Path
    definition: str


def names(package: str) -> list[str]:
    """Return the names of the algorithms of a package, sorted; names with a folder come last."""
    return sorted(_entries(package), key=lambda name: ("/" in name, name))


def is_federated(name: str) -> bool:
    """Return whether ``name`` is a federated algorithm.

    A module outside the package is federated if it imports ``omkl.federated.protocol``.
    """
    if _entry(name):
        return name in _entries(FEDERATED)
    module = outside.modules().get(name)
    path = outside.source_of(module) if module is not None else None
    return path is not None and "omkl.federated.protocol" in path.read_text(encoding="utf-8")


def module_of(name: str) -> str:
    """Return the module of an algorithm of the package, without importing it."""
    entry = _entry(name)
    if entry is None:
        raise KeyError(name)
    return entry.module


_FAMILY_MEMBER = re.compile(r'^@\w+\(\s*((?:"[\w/]+",?\s*)+)[^@]*?^class (\w+)', re.MULTILINE)


@functools.cache
def _entries(package: str) -> dict[str, Entry]:
    """Return the algorithms of a package by name."""
    folder = _folder(package)
    entries = {}
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder).with_suffix("").as_posix()
        module = f"{package}.{place.replace('/', '.')}"
        for name, definition in _definitions(path, place).items():
            entries[name] = Entry(module, path, definition)
    return entries


def _definitions(path: Path, name: str) -> dict[str, str]:
    """Return the algorithms that a file defines, as a mapping from name to class.

    If the module itself is an algorithm, its name is ``name`` and its class is "".
    """
    text, found = path.read_text(encoding="utf-8"), {}
    if re.search(r"^algorithm\b.*=", text, re.MULTILINE) and path.stem != "__init__":
        found[name] = ""
    for strings, definition in _FAMILY_MEMBER.findall(text):
        found |= dict.fromkeys(re.findall(r'"([^"]+)"', strings), definition)
    return found


def _entry(name: str) -> Entry | None:
    return next((e for package in PACKAGES if (e := _entries(package).get(name))), None)


def names_outside() -> dict[str, str]:
    """Return the modules of the algorithms outside the package, by name.

    A name that the package also has is excluded, with a message on stderr.
    """
    modules = outside.modules()
    for name in [name for name in modules if _entry(name)]:
        tell(f"the algorithm {name} of {modules.pop(name)} is left out: omkl has one of that name")
    return modules


def declare(name: str, module: str) -> None:
    """Register the algorithm ``name`` of your own ``module``.

    Raises omkl.utils.outside.ModuleProblem, a ValueError, for a wrong name or module.
    """
    if not re.fullmatch(r"(?!.{81})[\w-][\w.-]*(/[\w-][\w.-]*)?", str(name)):
        raise outside.ModuleProblem(
            f"algorithm.name={name!r} is no name: letters, digits, '-', '_' and '.', one slash "
            "between two of them, at most 80. It becomes the name of a folder"
        )
    if _entry(name):
        raise outside.ModuleProblem(
            f"the algorithm {name} of {module} needs another name: omkl has one of that name"
        )
    outside.declare(name, module)


def names_in(module: str) -> list[str]:
    """Return the names of the algorithms in a module outside the package, without importing it.

    The decorators ``register_as`` in a family contain its names. A module that is not a family has
    one name, which is the last part of the module's name. Raises
    omkl.utils.outside.ModuleProblem if there is no such module.
    """
    outside.require(module)
    own, path = module.rpartition(".")[2], outside.source_of(module)
    return list(_definitions(path, own) if path is not None else ()) or [own]


def declare_all(module: str) -> list[str]:
    """Register every algorithm of a module outside the package, and return their names.

    Raises omkl.utils.outside.ModuleProblem as ``declare`` and ``names_in`` do.
    """
    names = names_in(module)
    for name in names:
        declare(name, module)
    return names


def declare_named(config: Mapping[str, Any]) -> None:
    """Register an algorithm outside the package that a user's configuration names.

    Also import the module of its kernel families, because ``config`` can only be checked if their
    names are known. Only pass a configuration that the user wrote.
    """
    algorithm, kernels = config["algorithm"], config["kernels"]
    if algorithm.get("module") is not None:
        declare(algorithm["name"], algorithm["module"])
    if kernels.get("module") is not None:
        outside.load(kernels["module"])


def title(name: str) -> str:
    """Return the printed name of an algorithm, such as OMKL-GF.

    The title is the first line of the docstring up to its colon. A name with a folder has the title
    of the last part of the name, followed by the folder in brackets: "OMKC DA-O (rf)". If there is
    no docstring or no colon, the title is the name itself.
    """
    folder, _, last = name.rpartition("/")
    head, colon, _ = docstring(last).partition("\n")[0].partition(": ")
    title = head if colon else last
    return f"{title} ({folder.replace('_', ' ')})" if folder else title


def summary(name: str) -> str:
    """Return the first sentence of an algorithm's docstring, without the title.

    For a folder such as "rf/" return the description of all its algorithms. Return "" for an
    unknown name.
    """
    first = FOLDERS.get(name) or docstring(name).partition("\n\n")[0].partition(": ")[2]
    text = " ".join(first.split()).partition(". ")[0]
    return text.removesuffix(".").replace("``", "")


def paper(name: str) -> str:
    """Return the paper to cite for an algorithm; "" if the docstring names no paper."""
    found = re.search(r"^Paper +(.*\n(?: {4,}.*\n)*)", docstring(name) + "\n", re.MULTILINE)
    return " ".join(found[1].split()).replace("``", "") if found else ""


def docstring(name: str) -> str:
    """Return the docstring of an algorithm, or "" if there is none."""
    entry = _entry(name)
    if entry is not None:
        return _docstring_in(entry.path, entry.definition)
    module = outside.modules().get(name)
    path = outside.source_of(module) if module is not None else None
    return _docstring_in(path, _definitions(path, "").get(name, "")) if path is not None else ""


def _docstring_in(path: Path, definition: str) -> str:
    """Return the docstring of the class ``definition`` in a file.

    If ``definition`` is "", return the docstring of the module. The result is "" if there is no
    docstring, or if Python cannot parse the file.
    """
    try:
        return _docstrings(path, path.stat().st_mtime_ns).get(definition, "")
    except SyntaxError:  # its import reports the error
        return ""


@functools.cache
def _docstrings(path: Path, modified: int) -> dict[str, str]:
    """Return the docstring of each class of a file by name, and that of the module under "".

    ``modified`` is the time of the last change, so that an edited file is read again.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    docstrings = {node.name: ast.get_docstring(node) or "" for node in classes}
    return docstrings | {"": ast.get_docstring(tree) or ""}


def _folder(package: str) -> Path:
    return Path(__file__).parents[1].joinpath(*package.split(".")[1:])
