"""Online multi-kernel learning: run, reproduce and compare experiments."""

__version__ = "0.1.0"
