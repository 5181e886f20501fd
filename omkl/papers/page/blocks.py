"""What the page says, as a list of blocks that is rendered twice: as HTML and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from omkl.papers.filled import Filled
from omkl.papers.formats import html, markdown
from omkl.papers.pictures import Drawn
from omkl.report.text import markdown_table, markdown_text


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Items:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """A plain table; the first ``left`` columns and the ``wordy`` ones are flush left."""

    headings: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    left: int = 1
    wordy: tuple[int, ...] = ()


@dataclass(frozen=True)
class Facts:
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Links:
    """Texts and what they lead to; a place without a suffix is a page beside this one."""

    links: tuple[tuple[str, str], ...]


Block = Heading | Text | Items | Grid | Facts | Links | Filled | Drawn


_CSS = """
figure { margin: 1.6rem 0; }
figure img { max-width: 100%; height: auto; background: #fff; border-radius: 6px;
  border: 1px solid var(--line); }
figcaption { font-size: .88rem; color: var(--soft); }
table.plain td { border-bottom: 1px solid var(--line); }
table.plain td:first-child { padding-left: 0; }
table.plain th { white-space: normal; }
table.plain .left, table.plain .words { text-align: left; }
table.plain td.words { white-space: normal; min-width: 11rem; }
"""


def html_page(title: str, blocks: Iterable[Block]) -> str:
    parts = [f"<h1>{escape(title)}</h1>"]
    for block in blocks:
        parts += _html_block(block)
    return html.page(title, parts, _CSS)


def _html_block(block: Block) -> list[str]:
    match block:
        case Heading():
            return [f"<h{block.level}>{escape(block.text)}</h{block.level}>"]
        case Text():
            return [f"<p>{escape(block.text)}</p>"]
        case Items():
            items = "".join(f"<li>{escape(text)}</li>" for text in block.items)
            return [f"<ul>{items}</ul>"] if items else []
        case Facts():
            return [html.fact_list(block.facts)]
        case Links():
            items = "".join(
                f'<li><a href="{escape(_page(place, "html"), quote=True)}">{escape(text)}</a></li>'
                for text, place in block.links
            )
            return [f"<ul>{items}</ul>"]
        case Drawn():
            alt, name = escape(block.caption, quote=True), escape(block.path.name, quote=True)
            picture = f'<img src="{name}" alt="{alt}" loading="lazy">'
            return [f"<figure>{picture}<figcaption>{escape(block.caption)}</figcaption></figure>"]
        case Filled():
            return html.body(block)
        case Grid():
            return [_html_grid(block)]


def _page(place: str, suffix: str) -> str:
    if "." in place:
        return place
    return f"{'index' if (place, suffix) == ('README', 'html') else place}.{suffix}"


def _html_grid(grid: Grid) -> str:
    sides = [
        ' class="words"' if i in grid.wordy else ' class="left"' if i < grid.left else ""
        for i in range(len(grid.headings))
    ]

    def joined(before: str, texts: Iterable[str], after: str) -> str:
        cells = (
            f"<{before}{side}>{escape(text)}</{after}>"
            for side, text in zip(sides, texts, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    head = joined('th scope="col"', grid.headings, "th")
    lines = "".join(joined("td", line, "td") for line in grid.body)
    table = f"<thead>{head}</thead><tbody>{lines}</tbody>"
    return f'<div class="wide"><table class="plain">{table}</table></div>'


def markdown_page(title: str, blocks: Iterable[Block]) -> str:
    parts = [f"# {markdown_text(title)}", ""]
    for block in blocks:
        parts += _markdown_block(block)
    return "\n".join(parts).rstrip() + "\n"


def _markdown_block(block: Block) -> list[str]:
    match block:
        case Heading():
            return [f"{'#' * block.level} {markdown_text(block.text)}", ""]
        case Text():
            return [markdown_text(block.text), ""]
        case Items():
            return [*(f"- {markdown_text(text)}" for text in block.items), ""]
        case Facts():
            facts = [tuple(map(markdown_text, fact)) for fact in block.facts]
            return [*(f"- {name}: {text}" for name, text in facts), ""]
        case Links():
            links = ((markdown_text(text), _page(place, "md")) for text, place in block.links)
            return [*(f"- [{text}]({place})" for text, place in links), ""]
        case Drawn():
            caption = markdown_text(block.caption)
            return [f"![{caption}]({block.path.name})", "", caption, ""]
        case Filled():
            return markdown.body(block)
        case Grid():
            return [markdown_table(block.headings, block.body, block.left), ""]
