"""``config.yaml`` of a run folder: written, and read with no more than a run writes."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from omkl.utils.conf import yaml_loader

# Keys of a data set that describe it and cannot change a number.
PROSE = ("title", "notes", "licence", "citation", "uci", "url", "member", "by_hand")


def config_text(config: Mapping[str, Any]) -> str:
    """The text of ``config.yaml``: what OmegaConf would write, 30 times as fast."""
    import yaml

    style = {"default_flow_style": False, "allow_unicode": True, "sort_keys": False}
    return yaml.dump(dict(config), Dumper=_dumper(), **style)


def read_config(text: str) -> dict[str, Any]:
    """The content of a ``config.yaml``: what OmegaConf would read, 10 times as fast.

    Raises ValueError for what no run writes: another thing than a mapping, references between
    parts of it, which unfold without end, and parts in each other that exhaust the reader.
    """
    import yaml

    if len(text) > _LONGEST_CONFIG:
        raise ValueError(f"it has more than {_LONGEST_CONFIG:,} characters")
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml_loader()):
            if isinstance(event, yaml.AliasEvent):
                raise ValueError(f"it refers to another part of itself, *{event.anchor}")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST_CONFIG:
                raise ValueError(f"it is nested more than {_DEEPEST_CONFIG} deep")
        content = yaml.load(text, Loader=yaml_loader())
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}, not a mapping")
    return {str(k): v for k, v in content.items()}


_LONGEST_CONFIG, _DEEPEST_CONFIG = 2**20, 50


@functools.cache
def _dumper() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        # OmegaConf reads 1e-3 as a number, which YAML itself does not.
        style = "'" if _is_number(value) or value.lower() in _YAML_BOOLEANS else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper


_YAML_BOOLEANS = ("y", "yes", "n", "no", "on", "off", "true", "false")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def flattened(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by dotted keys; an empty mapping is a value."""
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def override_text(value: Any) -> str:
    """A value in the grammar of overrides on the command line."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{override_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(override_text, value)) + "]"
    if not isinstance(value, str):
        return str(value)
    if re.fullmatch(r"[^\W\d][\w./-]*", value) and value.lower() not in _WORDS:
        return value
    text = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


_WORDS = (*_YAML_BOOLEANS, "null", "nan", "inf")
