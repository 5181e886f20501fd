"""Online multi-kernel learning: run, reproduce and compare experiments.

>>> import omkl
>>> learner = omkl.learner("auto", inputs=4)
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # importing typing takes 0.01 s, in which Ctrl-C prints a traceback
if TYPE_CHECKING:
    from typing import Any

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
    from omkl.utils import __version__ as __version__

__all__ = [
    "OnlineLearner", "Panel", "Results", "columns", "learner", "load", "load_learner",
    "load_panel", "load_runs", "open_stream", "panel", "run", "sweep",
]  # fmt: skip
SUBPACKAGES = ("algorithms", "datasets")  # subpackages with functions for users


if not TYPE_CHECKING:  # with __getattr__ a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return importlib.import_module("omkl.utils").__version__
        if name in SUBPACKAGES:
            return importlib.import_module(f"omkl.{name}")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # omkl.api imports the compiler, so it is imported on first use. It imports this module, so
        # an import statement at the top would be a cycle.
        return getattr(importlib.import_module("omkl.api"), name)


def __dir__() -> list[str]:
    return __all__
