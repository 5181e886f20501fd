"""Where the YAML files are, and the configuration that they compose."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def conf_folder() -> Path:
    """Where the YAML files are: in the package when installed, beside it in a checkout."""
    package = Path(__file__).parent
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def configuration(overrides: list[str]) -> dict[str, Any]:
    """The resolved configuration of one cell."""
    # Hydra is imported where something is composed: tables and reports do without.
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        container = OmegaConf.to_container(compose("config", overrides), resolve=True)
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}
