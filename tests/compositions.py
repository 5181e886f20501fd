"""``conf.compose`` for many tests: a thirtieth of the time where the same files were chosen before.

It is the composer of ``launcher=batch``; ``test_configurations_are_those_of_hydra`` holds it to
Hydra's own. What Hydra itself is told, ``hydra.searchpath`` say, only ``conf.compose`` takes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig, open_dict

from omkl import conf
from omkl.commands.batch_launcher import Composer


def compose(overrides: Sequence[str]) -> dict[str, Any]:
    """The configuration of one job, a dictionary of the caller's own."""
    composer, master = _composer()
    config = composer.load_sweep_config(master, list(overrides))
    with open_dict(config):
        del config["hydra"]
    return conf.resolve(config, overrides)


@functools.cache
def _composer() -> tuple[Composer, DictConfig]:
    with hydra.initialize_config_dir(str(conf.folder()), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        return Composer(loader), loader.load_configuration("config", [], RunMode.MULTIRUN)
