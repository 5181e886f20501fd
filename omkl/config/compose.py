"""Compose the configuration of a job: merge YAML files with Hydra, and resolve references."""

from __future__ import annotations

import argparse
import contextlib
import functools
import pickle
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl.config import schema
from omkl.config.schema import Settings
from omkl.utils import conf, outside
from omkl.utils.conf import flattened, override_text

# Imported on first use: Hydra and OmegaConf take 0.2 s, and `--help` needs neither.
if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig


class Composer:
    """Compose the configurations of many jobs.

    Hydra would read and merge all YAML files for every job, which takes 60 to 150 ms. ``Composer``
    does this once for each choice of files, such as ``algorithm=gf dataset=naval``. For each job it
    copies the result and sets the values, such as ``algorithm.eta=0.1``, which takes 2 ms. Edits of
    a YAML file after its first use have no effect.

    Parameters
    ----------
    config_dirs
        Folders that are searched after ``conf``, as in ``--config-dir``.
    """

    def __init__(self, config_dirs: Sequence[Path] = ()) -> None:
        self.config_dirs = config_dirs
        self._bases: dict[tuple[str, ...], bytes] = {}

    def compose(
        self, overrides: Sequence[str], values: Mapping[str, Any] | None = None
    ) -> Settings:
        """Return the settings of one job.

        Parameters
        ----------
        overrides
            Texts of the command line, ``key=value``.
        values
            Python values by dotted keys. Overrides take precedence.

        Raises
        ------
        hydra.errors.HydraException, omegaconf.errors.OmegaConfBaseException
            An override or a key does not fit the files.
        ValueError
            A setting has an invalid value.
        """
        return schema.read(self.mapping(overrides, values))

    def mapping(
        self, overrides: Sequence[str], values: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the settings of one job before they are checked."""
        values = values or {}
        return resolved(self._config(overrides, values), [*values, *overrides])

    def _config(self, overrides: Sequence[str], values: Mapping[str, Any]) -> DictConfig:
        from omegaconf import OmegaConf

        config = self._base(overrides)
        for key, value in values.items():
            name, added = key.lstrip("+"), key.startswith("+")
            merge = name not in schema.GROUPS  # groups are replaced, not merged
            OmegaConf.update(config, name, _literal(value), merge=merge, force_add=added)
        for one in map(parsed, overrides):
            if _is_a_value(one):
                added = one.is_force_add()
                OmegaConf.update(config, one.key_or_group, one.value(), force_add=added)
        return config

    def keys(self, overrides: Sequence[str], values: Mapping[str, Any]) -> list[str]:
        """Return the dotted keys of ``values``, and of the files that the overrides choose."""
        from omegaconf import OmegaConf

        content = OmegaConf.to_container(self._config(_choices(overrides), values))
        assert isinstance(content, dict)
        return [key for key, _ in flattened(content)]

    def sweep_of(self, overrides: Sequence[str]) -> list[str]:
        """Return the overrides that the chosen files contain in ``hydra.sweeper.params``."""
        params = self._by_hydra(_choices(overrides), with_hydra=True).hydra.sweeper.params or {}
        return [f"{key}={value}" for key, value in params.items()]

    def text(self, overrides: Sequence[str], values: Mapping[str, Any], resolve: bool) -> str:
        """Return the configuration of one job as YAML.

        Parameters
        ----------
        overrides, values
            As in ``compose``.
        resolve
            Whether references are resolved.
        """
        from omegaconf import OmegaConf

        read = self.mapping if resolve else self._config
        return OmegaConf.to_yaml(OmegaConf.create(read(overrides, values)))

    def _base(self, overrides: Sequence[str]) -> DictConfig:
        """Return the merged content of the files that the overrides choose, as a copy."""
        from omegaconf import OmegaConf

        _require_no_environment(*overrides)
        choices = _choices(overrides)
        if choices not in self._bases:
            base = self._by_hydra(choices)
            _require_no_environment(OmegaConf.to_yaml(base))
            self._bases[choices] = pickle.dumps(base)
        copy: DictConfig = pickle.loads(self._bases[choices])  # six times as fast as copy.deepcopy
        return copy

    def _by_hydra(self, overrides: Sequence[str], with_hydra: bool = False) -> DictConfig:
        import hydra

        with hydra_of_our_own():
            store_defaults()
            return hydra.compose(
                conf.main_file().stem,
                [_search_path(self.config_dirs), *overrides],
                return_hydra_config=with_hydra,
            )


def store_defaults() -> None:
    """Register the defaults of the schema with Hydra, because conf/config.yaml refers to them."""
    from hydra.core.config_store import ConfigStore

    ConfigStore.instance().store("omkl_settings", schema.DEFAULTS)


def _search_path(config_dirs: Iterable[Path]) -> str:
    """Return the override that sets Hydra's search path.

    The path consists of the folders of algorithms outside the package, and then ``config_dirs``.
    """
    places = [*outside.conf_folders(), *config_dirs]
    return f"hydra.searchpath={override_text([f'file://{place.resolve()}' for place in places])}"


@functools.lru_cache(maxsize=4096)
def parsed(text: str) -> Override:
    """Parse an override with Hydra's grammar."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create().parse_override(text)


def _literal(value: Any) -> Any:
    """Escape ``${`` in a Python value, so that OmegaConf does not read it as a reference."""
    if isinstance(value, Mapping):
        return {key: _literal(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_literal(item) for item in value]
    return conf.without_references(value) if isinstance(value, str) else value


def _require_no_environment(*texts: str) -> None:
    """Raise ValueError for references to environment variables, which may contain secrets."""
    if any("oc.env" in text for text in texts):
        raise ValueError(
            "${oc.env:NAME}: a run folder keeps all settings, and a variable may be a secret. Let "
            "the shell write what is none: dataset.path=$HOME/my.csv"
        )


def _choices(overrides: Sequence[str]) -> tuple[str, ...]:
    return tuple(text for text in overrides if not _is_a_value(parsed(text)))


def _is_a_value(override: Override) -> bool:
    """Return whether an override sets a value. If False, it chooses a YAML file."""
    key = override.key_or_group
    if override.is_add() or override.package is not None or "/" in key:
        return False
    return "." in key or key in schema.DEFAULTS


_one_at_a_time = threading.RLock()


@contextlib.contextmanager
def hydra_of_our_own() -> Iterator[None]:
    """Initialise Hydra with the folder conf, and restore its previous state at the end.

    The previous state belongs to an application that uses Hydra and calls omkl. Hydra has one state
    per process, so threads must wait for each other.
    """
    import hydra
    from hydra.core.global_hydra import GlobalHydra

    with _one_at_a_time:
        theirs = GlobalHydra.instance().hydra
        GlobalHydra.instance().clear()
        try:
            with hydra.initialize_config_dir(str(conf.folder()), version_base="1.3"):
                yield
        finally:
            GlobalHydra.instance().hydra = theirs


@contextlib.contextmanager
def help_as_text() -> Iterator[None]:
    """Convert help texts to str while Hydra 1.3 builds its argument parser.

    argparse of Python 3.14 requires texts. Hydra passes an object that creates the text later.
    """

    def add_argument(parser: Any, *names: str, **options: Any) -> Any:
        if options.get("help") is not None:
            options["help"] = str(options["help"])
        return original(parser, *names, **options)

    parser_class: Any = argparse.ArgumentParser
    original = parser_class.add_argument
    parser_class.add_argument = add_argument
    try:
        yield
    finally:
        parser_class.add_argument = original


def resolved(composed: DictConfig, overrides: Iterable[str]) -> dict[str, Any]:
    """Return a configuration as a mapping in which all references to other keys are resolved.

    ``overrides`` are the overrides of the job, or their keys. If they change the kernels of a
    dictionary but not its name, the name becomes "own". Raises
    omegaconf.errors.InterpolationResolutionError for a reference to a missing key.
    """
    from omegaconf import OmegaConf

    container = OmegaConf.to_container(composed, resolve=True)
    assert isinstance(container, dict)
    config = {str(key): value for key, value in container.items()}
    keys = [text.lstrip("+").partition("=")[0] for text in overrides]
    if any(key.startswith("kernels.") for key in keys) and "kernels.name" not in keys:
        config["kernels"]["name"] = "own"  # it differs from the dictionary of the YAML file
    return config
