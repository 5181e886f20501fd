"""BibTeX of the papers (``papers.bib``) and of omkl itself (``CITATION.cff``).

Which papers an algorithm is of says the section "Paper" of its docstring.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from omkl.papers import FOLDER
from omkl.utils import registry
from omkl.utils.version import __version__


@dataclass(frozen=True, eq=False)
class Reference:
    """One BibTeX entry: ``Reference("article", "ghari2023graph", {"title": ...})``."""

    kind: str
    key: str
    fields: dict[str, str]

    @property
    def bibtex(self) -> str:
        """The entry as a BibTeX file holds it."""
        shown = {name: text for name, text in self.fields.items() if name != PHRASES}
        lines = [f"  {name} = {{{text}}}," for name, text in shown.items()]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])

    @property
    def phrases(self) -> list[str]:
        """What a docstring calls it."""
        return [self.fields["title"], *filter(None, self.fields.get(PHRASES, "").split(";"))]


PHRASES = "omkl"  # the field of what a docstring calls it, besides its title
_ENTRY = re.compile(r"^@(\w+)\{(\w+),\n(.*?)^\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (\w+) = \{(.*)\},$", re.MULTILINE)


@functools.cache
def papers() -> tuple[Reference, ...]:
    """All that ``papers.bib`` has, in its order."""
    text = (FOLDER / "papers.bib").read_text(encoding="utf-8")
    entries = _ENTRY.findall(text)
    return tuple(Reference(kind, key, dict(_FIELD.findall(body))) for kind, key, body in entries)


def papers_of(algorithm: str) -> list[Reference]:
    """The papers that the docstring of an algorithm names, in its order; none for a baseline."""
    text = _words(registry.box(algorithm).get("Paper", ""))
    phrases = [(_words(phrase), paper) for paper in papers() for phrase in paper.phrases]
    places: dict[int, Reference] = {}
    # The longest first: a title may be part of another's.
    for phrase, paper in sorted(phrases, key=lambda pair: -len(pair[0])):
        if (place := text.find(phrase)) >= 0:
            places[place] = paper
            text = text.replace(phrase, f" {'_' * (len(phrase) - 2)} ")
    return list(dict.fromkeys(places[place] for place in sorted(places)))


def _words(text: str) -> str:
    return " ".join(["", *re.findall(r"[^\W_]+", text.lower()), ""])


def software() -> Reference:
    """omkl itself, with the version that runs."""
    cff = _cff()
    year, month, _ = str(cff["date-released"]).split("-")
    fields = {
        "author": " and ".join(map(_author, cff["authors"])),
        "title": f"{{{cff['title']}}}",
        "version": __version__,
        "year": year,
        "month": str(int(month)),
        "note": f"Software, {cff['license']} licence",
    }
    return Reference("misc", "omkl", fields)


def _author(author: dict[str, str]) -> str:
    if "name" in author:  # of a group, which is no person's
        return f"{{{author['name']}}}"
    return f"{author['family-names']}, {author['given-names']}"


def _cff() -> dict[str, Any]:
    from omkl.utils import conf  # YAML, for whoever cites

    installed = FOLDER / "CITATION.cff"
    return conf.read(installed if installed.is_file() else FOLDER.parents[1] / "CITATION.cff")


def bibtex(algorithms: Iterable[str]) -> str:
    """What a text that used these algorithms cites: every paper once, and omkl."""
    cited = {paper.key: paper for name in algorithms for paper in papers_of(name)}
    return "\n\n".join(one.bibtex for one in [*cited.values(), software()])
