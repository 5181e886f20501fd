"""Open data sets as streams: catalogue, download, files, preparation, synthetic data.

>>> from omkl.datasets import open_stream
>>> stream = open_stream(dataset_cfg, {"limit": None, "scaling": "whole", "order": "file"})
>>> for x, y in stream.blocks(1000): ...
"""

import importlib
from typing import TYPE_CHECKING, Any

from omkl.datasets.base import DataError

if TYPE_CHECKING:
    from omkl.datasets.opening import load, open_stream, open_streams
    from omkl.datasets.stream import Stream

__all__ = ["DataError", "Stream", "load", "open_stream", "open_streams"]


if not TYPE_CHECKING:  # a type checker would take any name for one of this module

    def __getattr__(name: str) -> Any:
        # Imported on first use: streams import the compiler, the schema of a data set does not.
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = "stream" if name == "Stream" else "opening"
        return getattr(importlib.import_module(f"omkl.datasets.{module}"), name)
