"""What every layer uses and that knows none of them: files, threads, words."""

import omkl.utils.sources  # noqa: F401  reads all sources before other modules are imported
