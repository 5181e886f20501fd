"""The YAML files of ``conf``: where they are, what each says, and what they compose.

A file stands in a group, ``conf/algorithm/rf/omkc_da_o.yaml`` in ``algorithm``, and is called
by the rest of its path, ``rf/omkc_da_o``. Every function looks into ``folder()`` and then into
the folders that it is given besides (those of ``--config-dir``), with those of algorithms outside
the package (``omkl.outside``) in between; of two files of one name the first counts, as with Hydra.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl import outside

# OmegaConf and Hydra take 0.1 s to import and are imported where a file is read.
if TYPE_CHECKING:
    from omegaconf import DictConfig


class MissingEntry(LookupError):
    """There is no YAML file of that name; the text says where it was looked for."""


class UnreadableFile(ValueError):
    """A YAML file cannot be read; the text says which and why."""


def folder() -> Path:
    """Where the YAML files are: in the package when installed, beside it in a checkout."""
    package = Path(__file__).parent
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def main_file() -> Path:
    """The file that chooses one of each group and holds all other settings."""
    return folder() / "config.yaml"


def files(without: Sequence[str] = ()) -> list[Path]:
    """All YAML files, but for those of some groups."""
    found = sorted(folder().rglob("*.yaml"))
    return [path for path in found if path.relative_to(folder()).parts[0] not in without]


def _places(besides: Iterable[Path]) -> list[Path]:
    return [folder(), *outside.conf_folders(), *besides]


def groups(besides: Sequence[Path] = ()) -> dict[str, list[str]]:
    """The names of all files, by group."""
    places = _places(besides)
    folders = {path.name for place in places for path in place.iterdir() if path.is_dir()}
    return {group: some for group in sorted(folders) if (some := names(group, besides))}


def names(group: str, besides: Sequence[Path] = ()) -> list[str]:
    """What can be typed after ``group=``; what is in a sub-folder has a slash and comes last."""
    found = {
        path.relative_to(place / group).with_suffix("").as_posix()
        for place in _places(besides)
        for path in (place / group).rglob("*.yaml")
    }
    return sorted(found, key=lambda name: ("/" in name, name))


def _path_of(group: str, name: str, besides: Sequence[Path]) -> Path:
    places = [place / group / f"{name}.yaml" for place in _places(besides)]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        searched = ", ".join(map(str, _places(besides)))
        raise MissingEntry(f"there is no {group}/{name}.yaml in {searched}")
    return path


def entry(group: str, name: str, besides: Sequence[Path] = ()) -> dict[str, Any]:
    """What ``group=name`` says: the files of its ``defaults`` list merged with its own content.

    The later counts, key by key in nested mappings too, as with Hydra. What the list takes from
    other groups is not of this one. Raises MissingEntry or UnreadableFile.
    """
    own = read(_path_of(group, name, besides))
    bases = [base for base in own.pop("defaults", []) if _of_this_group(base)]
    merged: dict[str, Any] = {}
    for base in bases if "_self_" in bases else [*bases, "_self_"]:
        content = own if base == "_self_" else entry(group, base, besides)
        for part in reversed(base.split("/")[:-1]):  # Hydra puts sub/name below the key sub
            content = {part: content}
        merged = _merged(merged, content)
    return merged


def when(group: str, name: str, besides: Sequence[Path] = ()) -> str:
    """When to take it: the comment "# when: .." that the file begins with; "" where it has none."""
    with open(_path_of(group, name, besides), encoding="utf-8") as file:
        found = re.match(r"# when: (.*)", file.readline())
    return found[1].strip() if found else ""


def chosen(group: str, name: str) -> dict[str, Any]:
    """As ``entry``; ValueError lists what there is, and what is like the name."""
    known = names(group)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(f"there is no {group}={name}.{hint} There are: {', '.join(known)}.")
    return entry(group, name)


def choices_of(group: str, name: str, besides: Sequence[Path] = ()) -> dict[str, str]:
    """What ``group=name`` chooses in other groups, where nothing else is typed: name by group."""
    path = _path_of(group, name, besides)
    found: dict[str, str] = {}
    for base in read(path).get("defaults", []):
        if isinstance(base, dict):
            pairs = ((re.match(r"override /(\w+)", str(key)), base[key]) for key in base)
            found |= {match[1]: str(chosen) for match, chosen in pairs if match}
        elif _of_this_group(base) and base != "_self_":
            found |= choices_of(group, base, besides)
    return found


def _of_this_group(base: Any) -> bool:
    return isinstance(base, str) and re.fullmatch(r"\w[\w./-]*", base) is not None


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    found = dict(below)
    for key, value in above.items():
        nested = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = _merged(found[key], value) if nested else value
    return found


def read(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; {} where it holds another thing, a list say."""
    import yaml

    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.load(file, Loader=_loader())
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(f"cannot read {path}: {error}") from None
    return {str(k): v for k, v in content.items()} if isinstance(content, dict) else {}


@functools.cache
def _loader() -> Any:
    """OmegaConf's loader of YAML, by libyaml where it is there: ten times as fast."""
    import yaml
    from omegaconf._utils import get_yaml_loader

    rules: Any = get_yaml_loader()
    if not hasattr(yaml, "CSafeLoader"):
        return rules
    from yaml.cyaml import CParser

    class Loader(CParser, rules):
        def __init__(self, stream: Any) -> None:
            CParser.__init__(self, stream)
            yaml.constructor.SafeConstructor.__init__(self)
            yaml.resolver.Resolver.__init__(self)

    return Loader


def compose(overrides: Sequence[str]) -> dict[str, Any]:
    """The configuration of one job, as ``omkl-run`` makes it of these overrides."""
    import hydra

    with hydra_of_our_own():
        return resolve(hydra.compose(main_file().stem, list(overrides)), overrides)


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
            with hydra.initialize_config_dir(str(folder()), version_base="1.3"):
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
