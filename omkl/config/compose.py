"""The configuration of a job: composed of the YAML files by Hydra, with all references resolved."""

from __future__ import annotations

import contextlib
import functools
import pickle
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl.utils import conf, outside
from omkl.utils.conf import override_text

# Hydra and OmegaConf take 0.2 s to import and are imported where something is composed.
if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig

SEARCH = "hydra.searchpath"
BATCH = "batch"  # a launcher


class Composer:
    """Configurations of many jobs: files are put together once for each set of choices.

    Hydra reads and merges them anew for every job, for 60 to 150 ms. Here that happens once for
    ``algorithm=gf dataset=naval``, and values (``algorithm.eta=0.1``) are set in a copy. What a
    YAML file says is what it said when it was first chosen.

    Parameters
    ----------
    config_dirs
        Folders that are searched after ``conf``, as of ``--config-dir``.
    """

    def __init__(self, config_dirs: Sequence[Path] = ()) -> None:
        self.config_dirs = config_dirs
        self._bases: dict[tuple[str, ...], bytes] = {}

    def compose(self, overrides: Sequence[str]) -> dict[str, Any]:
        """The configuration of one job, a dictionary of the caller's own.

        Raises hydra.errors.HydraException or omegaconf.errors.OmegaConfBaseException, with
        Hydra's own words, for overrides that cannot be.
        """
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        values: list[Override] = []
        choices: list[str] = []
        for text in overrides:
            one = parsed(text)
            if _is_a_value(one):
                values.append(one)
            else:
                choices.append(text)
        key = tuple(choices)
        if key not in self._bases:
            self._bases[key] = pickle.dumps(without_hydra(self.with_hydra(choices)))
        config = pickle.loads(self._bases[key])  # six times as fast as copy.deepcopy
        try:
            for one in values:
                added = one.is_force_add()
                OmegaConf.update(config, one.key_or_group, one.value(), force_add=added)
        except OmegaConfBaseException:
            config = without_hydra(self.with_hydra(overrides))  # which says what is wrong
        return resolve(config, overrides)

    def with_hydra(self, overrides: Sequence[str]) -> DictConfig:
        """What Hydra composes, not resolved, and with its own settings below ``hydra``."""
        import hydra

        folders: list[Any] = [*self.config_dirs]
        others = []
        for text in overrides:
            if text.startswith(f"{SEARCH}="):
                value: Any = parsed(text).value()
                folders += value if isinstance(value, list) else [value]
            else:
                others.append(text)
        places = search_path(folders)
        declare_batch()
        with hydra_of_our_own():
            name = conf.main_file().stem
            return hydra.compose(name, [places, *others], return_hydra_config=True)


def search_path(config_dirs: Iterable[Path | str]) -> str:
    """The override by which Hydra searches these folders, after those of algorithms outside."""
    places = [str(place) for place in (*outside.conf_folders(), *config_dirs)]
    full = [text if "://" in text else f"file://{Path(text).resolve()}" for text in places]
    return f"{SEARCH}={override_text(full)}"


def declare_batch() -> None:
    """Let Hydra know ``launcher=batch`` and what it may set; ``omkl.commands.sweep`` runs it."""
    from hydra.core.config_store import ConfigStore

    options = {"workers": None}  # processes; null: one for each `threads` cores
    ConfigStore.instance().store(BATCH, options, group="hydra/launcher", provider="omkl")


@functools.lru_cache(maxsize=4096)
def parsed(text: str) -> Override:
    """An override as Hydra reads it."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create().parse_override(text)


def _is_a_value(override: Override) -> bool:
    """Whether it sets a value of omkl's, and has no say in which YAML files are chosen."""
    key = override.key_or_group
    if override.is_add() or override.is_delete() or override.is_sweep_override():
        return False
    if override.package is not None or "/" in key or key.startswith("hydra."):
        return False
    return "." in key or key in _settings()


@functools.cache
def _settings() -> frozenset[str]:
    """The keys of the main file that are no groups."""
    return frozenset(conf.read(conf.main_file()).keys() - conf.groups().keys())


def without_hydra(config: DictConfig) -> DictConfig:
    """The part of a configuration that is omkl's."""
    from omegaconf import open_dict

    with open_dict(config):
        del config["hydra"]
    return config


def compose(overrides: Sequence[str], config_dirs: Sequence[Path] = ()) -> dict[str, Any]:
    """The configuration of one job, as ``omkl-run`` makes it of these overrides."""
    return Composer(config_dirs).compose(overrides)


_one_at_a_time = threading.RLock()


@contextlib.contextmanager
def hydra_of_our_own() -> Iterator[None]:
    """Hydra on the folder conf, for one thread, whatever application it is called in.

    Hydra is one in a process: threads take turns, and an application that runs on it has its own
    back afterwards.
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


def resolve(composed: DictConfig, overrides: Iterable[str]) -> dict[str, Any]:
    """What Hydra composed of ``overrides``, with all references to other keys resolved.

    Raises omegaconf.errors.InterpolationResolutionError for one that names a secret of the
    environment: what is resolved is kept in run folders and shown in the MLflow view.
    """
    from omegaconf import OmegaConf

    with _without_secrets():
        container = OmegaConf.to_container(composed, resolve=True)
    assert isinstance(container, dict)
    config = {str(key): value for key, value in container.items()}
    keys = [text.lstrip("+").partition("=")[0] for text in overrides]
    if any(key.startswith("kernels.") for key in keys) and "kernels.name" not in keys:
        config["kernels"]["name"] = "own"  # no longer the dictionary of that name
    return config


# Names such as AWS_SECRET_ACCESS_KEY, HF_TOKEN, PGPASSWORD, and values such as
# postgres://user:word@host.
_SECRET = re.compile(
    r"SECRET|PASSW|PASSPHRASE|CREDENTIAL|PRIVATE|APIKEY|_PWD$"
    r"|(?:^|_)(?:KEYS?|TOKENS?|AUTH|PASS|PAT|PW|DSN)(?:_|$)",
    re.IGNORECASE,
)
_PASSWORD_IN_ADDRESS = re.compile(r"\w://[^/\s:@]*:[^/\s@]+@")


@contextlib.contextmanager
def _without_secrets() -> Iterator[None]:
    """``${oc.env:NAME}`` refuses what looks like a secret, by its name or its value."""
    from omegaconf import OmegaConf
    from omegaconf.resolvers import oc

    def environment(name: str, *default: Any) -> Any:
        value = oc.env(name, *default)
        if _SECRET.search(name) or _PASSWORD_IN_ADDRESS.search(str(value)):
            raise ValueError(
                f"${{oc.env:{name}}} looks like a secret, and a run folder keeps all settings as "
                "they are resolved. Pass what is no secret under another name."
            )
        return value

    OmegaConf.register_new_resolver("oc.env", environment, replace=True)
    try:
        yield
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)
