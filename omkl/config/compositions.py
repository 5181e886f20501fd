"""``conf.compose`` for many jobs: the YAML files are put together once for each set of choices.

Hydra reads and merges them anew for every job, for 60 to 150 ms. Here that happens once for
``algorithm=gf dataset=naval``, and the values (``algorithm.eta=0.1``) are set in a copy, by Hydra's
own function.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl, get_overrides_dirname
from hydra._internal.config_repository import CachingConfigRepository, IConfigRepository
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from omkl import conf

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override


class _ReadOnce(CachingConfigRepository):
    """What files say, as Hydra's own class has it for one configuration, from ``known``.

    Hydra changes what it is given: every configuration gets copies.
    """

    def __init__(self, delegate: IConfigRepository, known: dict[str, bytes]) -> None:
        self.delegate = delegate
        self.cache: dict[str, ConfigResult | None] = {}
        self.known = known

    def load_config(self, config_path: str) -> ConfigResult | None:
        if config_path not in self.cache:
            if config_path not in self.known:
                self.known[config_path] = pickle.dumps(self.delegate.load_config(config_path))
            self.cache[config_path] = pickle.loads(self.known[config_path])
        return self.cache[config_path]


class Composer(ConfigLoaderImpl):
    """Hydra's loader of configurations, with the same results for the jobs of one sweep."""

    def __init__(self, loader: ConfigLoaderImpl) -> None:
        self.__dict__.update(loader.__dict__)
        self._bases: dict[tuple[str, ...], bytes] = {}
        self._files: dict[str, bytes] = {}
        self._repository: Any = None

    def load_sweep_config(
        self, master_config: DictConfig, sweep_overrides: Sequence[str]
    ) -> DictConfig:
        """A job's configuration; equal to Hydra's, its errors too."""
        overrides = [_parsed(text) for text in sweep_overrides]
        config = self._composed(master_config, overrides)
        hydra = config.hydra
        hydra.overrides.task = list(sweep_overrides)
        settings = hydra.job.config.override_dirname
        hydra.job.override_dirname = get_overrides_dirname(
            overrides=overrides,
            kv_sep=settings.kv_sep,
            item_sep=settings.item_sep,
            exclude_keys=settings.exclude_keys,
        )
        return config

    def _composed(self, master: DictConfig, overrides: Sequence[Override]) -> DictConfig:
        if self._repository is None:
            given = OmegaConf.to_container(master.hydra.overrides.hydra)
            assert isinstance(given, list)
            _, self._repository = super()._parse_overrides_and_create_caching_repo(
                master.hydra.job.config_name, [str(text) for text in given]
            )
        self.validate_sweep_overrides_legal(
            overrides=list(overrides), run_mode=RunMode.RUN, from_shell=True
        )
        choices: list[Override] = []
        values: list[Override] = []
        for override in overrides:
            (choices if self._chooses(override) else values).append(override)
        texts = tuple(str(o.input_line) for o in choices)
        if texts not in self._bases:
            self._bases[texts] = pickle.dumps(super().load_sweep_config(master, list(texts)))
        config = pickle.loads(self._bases[texts])  # a sixth of the time of copy.deepcopy
        ConfigLoaderImpl._apply_overrides_to_config(values, config)
        OmegaConf.copy_cache(from_config=master, to_config=config)
        return config

    def _chooses(self, override: Override) -> bool:
        """Whether an override has a say in which YAML files are taken (Hydra's own rule)."""
        key = override.key_or_group
        return self._repository.group_exists(key) and not isinstance(override.value(), dict)

    def _parse_overrides_and_create_caching_repo(
        self, config_name: str | None, overrides: list[str]
    ) -> tuple[list[Override], CachingConfigRepository]:
        """All jobs of a sweep have Hydra's own overrides in common, and so where it searches."""
        repository = _ReadOnce(self._repository.delegate, self._files)
        return [_parsed(text) for text in overrides], repository


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> Override:
    return OverridesParser.create().parse_override(text)


class Compositions:
    """Configurations of jobs, equal to those of ``conf.compose``.

    What a YAML file says is what it said when it was first chosen. What Hydra itself is told,
    ``hydra.searchpath`` say, only ``conf.compose`` takes.
    """

    def __init__(self) -> None:
        with conf.hydra_of_our_own():
            loader = GlobalHydra.instance().config_loader()
            assert isinstance(loader, ConfigLoaderImpl)
            self._composer = Composer(loader)
            name = conf.main_file().stem
            self._master = loader.load_configuration(name, [], RunMode.MULTIRUN)

    def compose(self, overrides: Sequence[str]) -> dict[str, Any]:
        """The configuration of one job, a dictionary of the caller's own."""
        config = self._composer.load_sweep_config(self._master, list(overrides))
        with open_dict(config):
            del config["hydra"]
        return conf.resolve(config, overrides)
