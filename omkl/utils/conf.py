"""YAML files of ``conf``.

The file ``conf/algorithm/rf/omkc_da_o.yaml`` belongs to the group ``algorithm`` and has the name
``rf/omkc_da_o``, the rest of its path. Every function searches ``folder()``, then the ``conf``
folders of algorithms outside the package (``outside``), then ``config_dirs``, the folders of
``--config-dir``. If several files have the same name, the first is used, as in Hydra.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from omkl.utils import outside
from omkl.utils.constraints import no_such_key

# Defaults of panels: few kernels and features, because each series has its own coefficients.
PANEL_KERNELS: dict[str, Any] = {"kernels": "gauss5", "D": 24}
# The inputs do not tell the level of a series, so its past targets are inputs too.
PANEL: dict[str, Any] = {"algorithm": "ridge", "lags": 4, **PANEL_KERNELS}


class MissingEntry(LookupError):
    """Error: there is no YAML file with this name. The text lists the searched folders."""


class UnreadableFile(ValueError):
    """Error: a YAML file cannot be read. The text names the file and the reason."""


def folder() -> Path:
    """Return the folder of the YAML files: in the installed package, or in the checkout."""
    package = Path(__file__).parents[1]
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def main_file() -> Path:
    """Return the YAML file that names the default entry of each group."""
    return folder() / "config.yaml"


def _places(config_dirs: Iterable[Path]) -> list[Path]:
    return [folder(), *outside.conf_folders(), *config_dirs]


def groups(config_dirs: Sequence[Path] = ()) -> dict[str, list[str]]:
    """Return the names of the YAML files of each group."""
    places = _places(config_dirs)
    folders = {path.name for place in places for path in place.iterdir() if path.is_dir()}
    return {group: some for group in sorted(folders) if (some := names(group, config_dirs))}


def names(group: str, config_dirs: Sequence[Path] = ()) -> list[str]:
    """Return the sorted names of the entries of a group.

    A name in a sub-folder has a slash. These names come last.
    """
    found = {
        path.relative_to(place / group).with_suffix("").as_posix()
        for place in _places(config_dirs)
        for path in (place / group).rglob("*.yaml")
    }
    return sorted(found, key=lambda name: ("/" in name, name))


def _path_of(group: str, name: str, config_dirs: Sequence[Path]) -> Path:
    places = [place / group / f"{name}.yaml" for place in _places(config_dirs)]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        searched = ", ".join(map(str, _places(config_dirs)))
        raise MissingEntry(f"there is no {group}/{name}.yaml in {searched}")
    return path


def entry(group: str, name: str, config_dirs: Sequence[Path] = ()) -> dict[str, Any]:
    """Return the settings of ``group=name``, merged with the files of its ``defaults`` list.

    Later files override earlier ones, key by key in nested mappings, as in Hydra. Entries of other
    groups in the list are ignored.

    Parameters
    ----------
    group, name
        Folder below ``conf``, and the rest of the path without its suffix.
    config_dirs
        Folders that are searched last.

    Raises
    ------
    MissingEntry, UnreadableFile
        There is no such file, or it cannot be read.
    """
    mapping = read(_path_of(group, name, config_dirs))
    bases = [base for base in mapping.pop("defaults", []) if _of_this_group(base)]
    merged: dict[str, Any] = {}
    for base in bases if "_self_" in bases else [*bases, "_self_"]:
        content = mapping if base == "_self_" else entry(group, base, config_dirs)
        for part in reversed(base.split("/")[:-1]):  # Hydra nests sub/name below the key sub
            content = {part: content}
        merged = _merged(merged, content)
    return merged


def default_settings(name: str) -> dict[str, Any]:
    """Return the parameters in an algorithm's YAML file."""
    parameters = entry("algorithm", name)
    return {key: value for key, value in parameters.items() if key not in ("name", "module")}


def when(group: str, name: str, config_dirs: Sequence[Path] = ()) -> str:
    """Return the advice in a YAML file on when to choose the file's entry, or "".

    The advice is the comment "# when: ..." in the first line of the file.

    Parameters
    ----------
    group, name, config_dirs
        As in ``entry``.
    """
    with open(_path_of(group, name, config_dirs), encoding="utf-8") as file:
        match = re.match(r"# when: (.*)", file.readline())
    return match[1].strip() if match else ""


def chosen(group: str, name: str) -> dict[str, Any]:
    """Return ``entry(group, name)``. Raises ValueError with similar names for an unknown name."""
    known = names(group)
    if name not in known:
        raise ValueError(no_such_key(f"{group}=", name, known))
    return entry(group, name)


def _of_this_group(base: Any) -> bool:
    return isinstance(base, str) and re.fullmatch(r"\w[\w./-]*", base) is not None


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        nested = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if nested else value
    return merged


def read(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file, or {} if the content is not a mapping."""
    import yaml

    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.load(file, Loader=_yaml_loader())
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(f"cannot read {path}: {error}") from None
    return {str(k): v for k, v in content.items()} if isinstance(content, dict) else {}


@functools.cache
def _yaml_loader() -> Any:
    """Return a YAML loader with OmegaConf's rules: 1e-3 is a number, 2024-01-01 is text.

    OmegaConf's own loader takes ten times as long.
    """
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
            first: [(tag, rule) for tag, rule in rules if not tag.endswith(":timestamp")]
            for first, rules in base.yaml_implicit_resolvers.items()
        }

    number = re.compile(r"[-+]?(\d[\d_]*\.?\d*|\.\d+)[eE][-+]?\d+$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+.0123456789"))
    return Loader


# Settings of execution and of paths. They do not change the content of a run folder.
NEUTRAL = ("threads", "tracking", "force", "outputs", "block", "figures", "fail_fast")
KEY_DIGITS = 12  # hex digits of a hash in file names: unlikely to collide among a million
# Keys that only describe a data set and do not change a result.
PROSE = ("title", "notes", "licence", "citation", "uci", "url", "member", "by_hand")


def flattened(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield settings as pairs of dotted key and value. An empty mapping is yielded as a value."""
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def override_text(value: Any) -> str:
    """Return a value as text for an override on the command line (``key=value``)."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{override_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(override_text, value)) + "]"
    if not isinstance(value, str):
        return str(value)
    if re.fullmatch(r"[a-zA-Z_][\w./-]*", value, re.ASCII) and value.lower() not in _WORDS:
        return value
    # Hydra reads a backslash literally, except before a quote.
    text = re.sub(r"(\\*)('|\Z)", lambda m: 2 * m[1] + (m[2] and "\\'"), without_references(value))
    return f"'{text}'"


def without_references(text: str) -> str:
    """Escape ``${``, so that OmegaConf reads it as text."""
    return re.sub(r"(\\*)\$\{", lambda m: 2 * m[1] + "\\${", text)


_WORDS = ("y", "yes", "n", "no", "on", "off", "true", "false", "null", "nan", "inf")
