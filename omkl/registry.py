"""What is registered: the modules of a package that say ``algorithm = ...``, and their titles.

A name is what is typed after ``algorithm=``; modules of a sub-package have a slash in it,
``as_released/gf``. Names and titles are known without importing a module, and with it the
compiler.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGES = ("omkl.algorithms", "omkl.federated.algorithms")


def names(package: str) -> list[str]:
    """Names of all modules of a package; those of sub-packages come last."""
    return sorted(_names(_folder(package)), key=lambda name: ("/" in name, name))


def load(package: str, name: str) -> Any:
    """The ``algorithm`` of a module, imported; ModuleNotFoundError where there is none."""
    return importlib.import_module(f"{package}.{name.replace('/', '.')}").algorithm


@functools.cache
def title(name: str) -> str:
    """The name in print: the head of the docstring, up to its colon, as in "OMKL-GF: ...".

    A module of a sub-package is called after the one of the package above, with its folder:
    "OMKL-GF (as released)". What is no module, or has no such head, is called by its name.
    """
    folder, _, last = name.rpartition("/")
    shown = next((text for package in PACKAGES if (text := _head(package, last))), last)
    return f"{shown} ({folder.replace('_', ' ')})" if folder else shown


def _head(package: str, name: str) -> str:
    path = _folder(package) / f"{name}.py"
    if not path.is_file():
        return ""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    head, colon, _ = text.partition("\n")[0].partition(": ")
    return head if colon else ""


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
