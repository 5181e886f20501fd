"""``omkl-run --cite algorithm=gf``: BibTeX of what a text that used it cites."""

from __future__ import annotations

from collections.abc import Sequence

from omkl import conf, registry
from omkl.config.command_line import CommandLine, UsageError, parse_override, values_of
from omkl.papers import citation

FLAG = "--cite"


def cite(arguments: Sequence[str]) -> str:
    """The entries of the algorithms that the command line chooses, and of omkl.

    Raises UsageError as a run does, and where no algorithm is chosen.
    """
    line = CommandLine([text for text in arguments if text != FLAG])
    overrides = [parse_override(text)[1] for text in line.checked() if not text.startswith("-")]
    known = line.groups()["algorithm"]
    chosen = [one for one in overrides if one.key_or_group == "algorithm"]
    if not chosen:
        raise UsageError(f"{FLAG} shows what to cite for an algorithm: add algorithm=NAME")
    typed = [name for one in chosen for name in values_of(one, known)]
    names = [conf.entry("algorithm", name, line.config_dirs)["name"] for name in typed]
    remarks = [_remark(name) for name in dict.fromkeys(names) if not citation.papers_of(name)]
    return "\n\n".join([*remarks, citation.bibtex(names)])


def _remark(name: str) -> str:
    """What the docstring of an algorithm says in place of a paper that is known here."""
    said = registry.box(name).get("Paper", "its docstring names none")
    return f"% {registry.title(name)}, paper: {' '.join(said.split())}"
