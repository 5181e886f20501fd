"""Online multi-kernel learning: run, reproduce and compare experiments.

>>> import omkl
>>> learner = omkl.learner("auto", inputs=4)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import omkl.utils.sources  # noqa: F401  reads all sources as they are now
from omkl.utils.version import __version__ as __version__

if TYPE_CHECKING:
    from omkl import algorithms as algorithms
    from omkl import datasets as datasets
    from omkl.api import (
        OnlineLearner,
        Panel,
        Results,
        columns,
        learner,
        load,
        load_learner,
        load_panel,
        load_runs,
        open_stream,
        panel,
        run,
        sweep,
    )

__all__ = [
    "OnlineLearner",
    "Panel",
    "Results",
    "columns",
    "learner",
    "load",
    "load_learner",
    "load_panel",
    "load_runs",
    "open_stream",
    "panel",
    "run",
    "sweep",
]


SUBPACKAGES = ("algorithms", "datasets")  # whose functions users call


if not TYPE_CHECKING:  # a type checker would take any name for one of omkl's

    def __getattr__(name: str) -> Any:
        if name in SUBPACKAGES:
            return importlib.import_module(f"omkl.{name}")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # With it the compiler, where somebody asks for it; by its name, as it imports this module.
        return getattr(importlib.import_module("omkl.api"), name)


def __dir__() -> list[str]:
    return __all__
