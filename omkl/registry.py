"""What is registered: the modules of a package that say ``algorithm = ...``, and their titles.

A name is what is typed after ``algorithm=``; modules of a sub-package have a slash in it,
``as_released/gf``. Names and titles are known without importing a module, and with it the
compiler. What ``omkl.outside`` names is registered too, where the package has no such name.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omkl import outside

PACKAGES = ("omkl.algorithms", "omkl.federated.algorithms")

# Names that were there once: why they are gone, and what to take.
_NAN_GRAPH = (
    "was a fit that happened to have the graph of the released code, whose divergences are all NaN"
)
REMOVED = {
    "recovered/sfg": f"{_NAN_GRAPH}; take as_released/sfg",
    "recovered/sfg_r": f"{_NAN_GRAPH}; take as_released/sfg_r",
    "recovered/gf_v1": "is the rule of the ICML 2020 release; take as_released/gf_icml",
}


def names(package: str) -> list[str]:
    """Names of all modules of a package; those of sub-packages come last."""
    return sorted(_names(_folder(package)), key=lambda name: ("/" in name, name))


def load(package: str, name: str) -> Any:
    """The ``algorithm`` of a module, imported; ModuleNotFoundError where there is none."""
    return importlib.import_module(f"{package}.{name.replace('/', '.')}").algorithm


def removal(name: str) -> str | None:
    """Why there is no longer an algorithm of that name, and what to take; None where none was."""
    return f"algorithm={name} is gone: it {REMOVED[name]}" if name in REMOVED else None


def module_of(name: str) -> str:
    """The module of an algorithm of the package, central or federated, which is not imported."""
    package = next(package for package in PACKAGES if name in names(package))
    return f"{package}.{name.replace('/', '.')}"


def names_outside() -> dict[str, str]:
    """The modules of the algorithms outside the package, by name."""
    found = outside.modules()
    for name in [name for name in found if _is_ours(name)]:
        outside.tell(
            f"the algorithm {name} of {found.pop(name)} is left out: omkl has one of that name"
        )
    return found


def declare(name: str, module: str) -> None:
    """Make an algorithm of one's own known: ``name``, as typed, is that of ``module``.

    Raises omkl.outside.ModuleProblem, a ValueError, that says which of the two cannot be.
    """
    if not re.fullmatch(r"[\w-][\w.-]{0,79}", str(name)):
        raise outside.ModuleProblem(
            f"algorithm.name={name!r} is no name: letters, digits, '-', '_' and '.', at most 80. "
            "It becomes the name of a folder"
        )
    if _is_ours(name):
        raise outside.ModuleProblem(
            f"the algorithm {name} of {module} needs another name: omkl has one of that name"
        )
    outside.declare(name, module)


def declare_named(config: Mapping[str, Any]) -> None:
    """Make known what a configuration of the user's names outside the package.

    The module of its kernel families is imported, since a dictionary is read by their names.
    """
    algorithm, kernels = config["algorithm"], config["kernels"]
    if algorithm.get("module") is not None:
        declare(algorithm["name"], algorithm["module"])
    if kernels.get("module") is not None:
        outside.load(kernels["module"])


def _is_ours(name: str) -> bool:
    return any(name in names(package) for package in PACKAGES)


def title(name: str) -> str:
    """The name in print: the head of the docstring, up to its colon, as in "OMKL-GF: ...".

    A module of a sub-package is called after the one of the package above, with its folder:
    "OMKL-GF (as released)". What is no module, or has no such head, is called by its name.
    """
    module = outside.modules().get(name)
    if module is not None and not _is_ours(name):
        return _head_of(docstring(name)) or name
    return _title_of_ours(name)


def summary(name: str) -> str:
    """What an algorithm is: the first sentence of its docstring, after the title.

    Of a folder, "rf/": of its package. "" for what is no module.
    """
    module = outside.modules().get(name)
    if module is not None and not _is_ours(name):
        return _summary_of_file(outside.source_of(module))
    paths = [_folder(package) / name for package in PACKAGES]
    for path in paths:
        file = path / "__init__.py" if name.endswith("/") else path.with_suffix(".py")
        if file.is_file():
            return _summary_of_file(file, with_head=name.endswith("/"))
    return ""


def _summary_of_file(path: Path | None, with_head: bool = False) -> str:
    first = _docstring_of(path).partition("\n\n")[0]
    _, colon, rest = first.partition(": ")
    text = " ".join((rest if colon and not with_head else first).split()).partition(". ")[0]
    return text.removesuffix(".").replace("``", "")


@functools.cache
def _title_of_ours(name: str) -> str:
    folder, _, last = name.rpartition("/")
    shown = next((text for package in PACKAGES if (text := _head(package, last))), last)
    return f"{shown} ({folder.replace('_', ' ')})" if folder else shown


def docstring(name: str) -> str:
    """What the module of an algorithm says at its top; "" where it says nothing."""
    module = outside.modules().get(name)
    if module is not None and not _is_ours(name):
        return _docstring_of(outside.source_of(module))
    return next((text for package in PACKAGES if (text := _docstring_in(package, name))), "")


def box(name: str) -> dict[str, str]:
    """The paper's box in the docstring of an algorithm, by its headings: Paper, Task, Round, ...

    A variant that has none of its own, on other representations say, has that of the algorithm of
    the same name in the package above.
    """
    headed = re.compile(r"^([A-Z][a-z]+) +(?=\S)", re.MULTILINE)
    for of in dict.fromkeys((name, name.rpartition("/")[2])):
        text = docstring(of)
        paragraph = next((part for part in text.split("\n\n") if part.startswith("Paper ")), None)
        if paragraph is not None:
            _, *parts = headed.split(paragraph)
            pairs = zip(parts[::2], parts[1::2], strict=True)
            return {heading: _dedented(lines) for heading, lines in pairs}
    return {}


def _dedented(lines: str) -> str:
    first, _, rest = lines.rstrip().partition("\n")
    return f"{first}\n{textwrap.dedent(rest)}".strip()


def _head(package: str, name: str) -> str:
    return _head_of(_docstring_in(package, name))


def _head_of(text: str) -> str:
    head, colon, _ = text.partition("\n")[0].partition(": ")
    return head if colon else ""


def _docstring_in(package: str, name: str) -> str:
    path = _folder(package) / f"{name}.py"
    return _docstring_of(path) if path.is_file() else ""


def _docstring_of(path: Path | None) -> str:
    try:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path else ""
    except SyntaxError:  # importing it tells
        return ""
    return text or ""


def _folder(package: str) -> Path:
    return Path(__file__).parent.joinpath(*package.split(".")[1:])


def _names(folder: Path, prefix: str = "") -> Iterator[str]:
    for path in folder.iterdir():
        if (path / "__init__.py").is_file():
            yield from _names(path, f"{prefix}{path.name}/")
        elif path.suffix == ".py" and path.stem != "__init__" and _registers(path):
            yield prefix + path.stem


@functools.cache
def _registers(path: Path) -> bool:
    return re.search(r"^algorithm\b.*=", path.read_text(encoding="utf-8"), re.M) is not None
