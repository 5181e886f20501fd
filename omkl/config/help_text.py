"""What ``omkl-run --help`` says of the YAML files: choices, algorithms, settings."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omkl import conf, registry

WIDTH = 79


def of(groups: Mapping[str, Sequence[str]], besides: Sequence[Path] = ()) -> str:
    """All of it, of the names by group; files are looked for in the folders ``besides`` too.

    Algorithms of a sub-folder are another's, changed in the same way: a line a folder.
    """
    lines = ["Choices (group=name); algorithms are below"]
    for group, names in groups.items():
        lines += hanging(group, ", ".join(names)) if group != "algorithm" else []
    lines += ["", "Algorithms (algorithm=NAME): what each is, when to take it, and its parameters"]
    lines += ["(algorithm.KEY=value) with their defaults"]
    folders: dict[str, list[str]] = {}
    for name in groups["algorithm"]:
        folder, _, last = name.rpartition("/")
        if folder:
            folders.setdefault(folder, []).append(last)
        else:
            lines += _about(name, besides)
    if folders:
        lines += ["", "Some of them changed (algorithm=rf/NAME; --cfg job shows their parameters)"]
    for folder, names in folders.items():
        about = registry.summary(f"{folder}/")
        said = f": {about[0].lower()}{about[1:]}" if about else ""
        lines += hanging(f"{folder}/", ", ".join(names) + said)
    lines += ["", "Settings (key=value) and their defaults"]
    text = conf.main_file().read_text(encoding="utf-8")
    between = text.partition("\n\n")[2].partition("\nhydra:")[0]
    return "\n".join(lines + textwrap.indent(between.strip(), "  ").splitlines())


def _about(name: str, besides: Sequence[Path]) -> list[str]:
    entry = conf.entry("algorithm", name, besides)
    when = conf.when("algorithm", name, besides)
    fields = (f"{key}={_plain(v)}" for key, v in entry.items() if key not in ("name", "module"))
    texts = [registry.summary(str(entry.get("name", name))), when and f"when: {when}"]
    first, *others = [text for text in [*texts, ", ".join(fields)] if text] or [""]
    return [line for head, text in [(name, first), *(("", text) for text in others)]
            for line in hanging(head, text)]  # fmt: skip


def hanging(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"  {head:9} ",
        subsequent_indent=" " * 12,
        break_long_words=False,
    )


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
