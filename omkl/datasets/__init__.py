"""Data sets as streams: catalogue, download, files, preparation, synthetic data.

>>> from omkl.datasets import open_stream
>>> stream = open_stream(dataset_cfg, {"limit": None, "scaling": "whole", "order": "file"})
>>> for x, y in stream.blocks(1000): ...
"""

from omkl.datasets.base import DataError
from omkl.datasets.opening import load, open_stream, open_streams
from omkl.datasets.stream import Stream

__all__ = ["DataError", "Stream", "load", "open_stream", "open_streams"]
