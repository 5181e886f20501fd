"""Helpers of every layer, which import no other layer: files, threads, messages."""

import omkl.utils.sources  # noqa: F401  must read all sources before other modules are imported
