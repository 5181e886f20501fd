"""One page of tables, figures and texts: an HTML file that needs no other, Markdown or LaTeX.

A page is a title and a list of parts, written down once and rendered in each form. The look of the
HTML is in ``page.html``, the script that draws ``Curves`` in ``page.js``.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from omkl.report.tables import Table, templates
from omkl.report.text import markdown_text

if TYPE_CHECKING:
    from markupsafe import Markup


class Heading(NamedTuple):
    text: str
    level: int = 2


class Text(NamedTuple):
    """A paragraph. ``markup``: its **bold** and `code` are shown so. ``note``: it is small."""

    text: str
    markup: bool = False
    note: bool = False


class Items(NamedTuple):
    """A list of lines."""

    items: Sequence[str]


class Facts(NamedTuple):
    """Names and what they are."""

    facts: Sequence[tuple[str, str]]


class Links(NamedTuple):
    """Texts and what they lead to; a place without a suffix is a page beside this one.

    README is index.html.
    """

    links: Sequence[tuple[str, str]]


class Picture(NamedTuple):
    """A PNG file, which lies beside the page; HTML has it within if it is ``embedded``."""

    path: Path
    caption: str
    embedded: bool = True


class Code(NamedTuple):
    """Lines of a shell."""

    text: str


class Fold(NamedTuple):
    """Parts that HTML shows when they are asked for."""

    title: str
    parts: Sequence[Part]


class Curves(NamedTuple):
    """A chart that ``page.js`` draws of ``data``, which says how; in HTML alone."""

    name: str
    data: Mapping[str, Any]


Part = Heading | Text | Items | Facts | Links | Table | Picture | Code | Fold | Curves


def html_page(title: str, parts: Iterable[Part]) -> str:
    """The page as one HTML document."""
    parts = list(parts)
    charts = {part.name: part.data for part in parts if isinstance(part, Curves)}
    data = json.dumps(charts, separators=(",", ":")).replace("<", "\\u003c") if charts else ""
    return templates().get_template("page.html").render(
        title=title, parts=parts, data=data,
        name_of=lambda part: type(part).__name__, markup=_markup, href=_href, image=_image,
    )  # fmt: skip


def markdown_page(title: str, parts: Iterable[Part]) -> str:
    """The page as Markdown."""
    texts = [f"# {markdown_text(title)}", *map(_markdown, parts)]
    return "\n\n".join(text for text in texts if text) + "\n"


def latex_tables(parts: Iterable[Part]) -> str:
    """The tables of a page, each below its heading, for \\input (package booktabs)."""
    texts, heading = [r"% needs \usepackage{booktabs}"], ""
    for part in parts:
        if isinstance(part, Heading):
            heading = part.text
        elif isinstance(part, Table):
            texts.append(f"% {heading}\n{part.latex()}")
    return "\n\n".join(texts) + "\n"


def _markdown(part: Part) -> str:
    match part:
        case Heading():
            return f"{'#' * part.level} {markdown_text(part.text)}"
        case Text():
            return part.text if part.markup else markdown_text(part.text)
        case Items():
            return "\n".join(f"- {markdown_text(text)}" for text in part.items)
        case Facts():
            facts = [tuple(map(markdown_text, fact)) for fact in part.facts]
            return "\n".join(f"- {name}: {text}" for name, text in facts)
        case Links():
            links = [(markdown_text(text), _href(place, "md")) for text, place in part.links]
            return "\n".join(f"- [{text}]({place})" for text, place in links)
        case Table():
            return part.markdown()
        case Picture():
            caption = markdown_text(part.caption)
            return f"![{caption}]({part.path.name})\n\n{caption}"
        case Code():
            return f"```sh\n{part.text}\n```"
        case Fold():
            return "\n\n".join([f"**{markdown_text(part.title)}**", *map(_markdown, part.parts)])
        case Curves():
            return ""


def _href(place: str, suffix: str) -> str:
    if "." in place:
        return place
    return f"{'index' if (place, suffix) == ('README', 'html') else place}.{suffix}"


def _image(picture: Picture) -> str:
    """Where the picture is, or the picture itself."""
    if not picture.embedded:
        return picture.path.name
    return f"data:image/png;base64,{base64.b64encode(picture.path.read_bytes()).decode()}"


def _markup(text: str) -> Markup:
    """Text whose ``**bold**`` and `` `code` `` are marked."""
    from markupsafe import Markup

    bold = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", escape(text))
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", bold))
