"""Helpers that import no other layer of omkl: files, threads, messages."""

__version__ = "0.1.0"

import omkl.utils.sources  # noqa: F401  must read all sources before other modules are imported
