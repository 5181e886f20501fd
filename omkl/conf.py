"""Where the YAML files are."""

from __future__ import annotations

from pathlib import Path


def conf_folder() -> Path:
    """Where the YAML files are: in the package when installed, beside it in a checkout."""
    package = Path(__file__).parent
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"
