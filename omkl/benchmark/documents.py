"""A page as a list of parts, written as Markdown, HTML in one file, or LaTeX."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from omkl.report.text import markdown_table


class Heading(NamedTuple):
    text: str
    level: int = 2


class Text(NamedTuple):
    """A paragraph in plain words."""

    text: str


class Table(NamedTuple):
    """Cells as text; **bold** is bold, the first ``left`` columns are flush left."""

    headings: Sequence[str]
    body: Sequence[Sequence[str]]
    left: int = 1


class Picture(NamedTuple):
    path: Path
    caption: str


class Code(NamedTuple):
    text: str


Part = Heading | Text | Table | Picture | Code


def markdown(parts: Sequence[Part]) -> str:
    """Pictures are named, and lie beside the page."""
    found = []
    for part in parts:
        if isinstance(part, Heading):
            found.append(f"{'#' * part.level} {part.text}")
        elif isinstance(part, Text):
            found.append(part.text)
        elif isinstance(part, Table):
            found.append(markdown_table(part.headings, part.body, part.left))
        elif isinstance(part, Picture):
            found.append(f"![{part.caption}]({part.path.name})\n\n*{part.caption}*")
        else:
            found.append(f"```sh\n{part.text}\n```")
    return "\n\n".join(found) + "\n"


STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}
th,td{padding:2px 8px;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}
th.l,td.l{text-align:left}img{max-width:100%}pre{overflow-x:auto;background:#f6f6f6;padding:8px}
figcaption{color:#555;font-size:13px}"""


def html_page(title: str, parts: Sequence[Part]) -> str:
    """One file that needs no other: pictures are in it."""
    body = "\n".join(_html(part) for part in parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}'
        f"</title><style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _html(part: Part) -> str:
    if isinstance(part, Heading):
        return f"<h{part.level}>{html.escape(part.text)}</h{part.level}>"
    if isinstance(part, Text):
        return f"<p>{_inline(part.text)}</p>"
    if isinstance(part, Code):
        return f"<pre>{html.escape(part.text)}</pre>"
    if isinstance(part, Picture):
        data = base64.b64encode(part.path.read_bytes()).decode()
        alt = html.escape(part.caption, quote=True)
        return (
            f'<figure><img alt="{alt}" src="data:image/png;base64,{data}">'
            f"<figcaption>{html.escape(part.caption)}</figcaption></figure>"
        )

    def line(cells: Sequence[str], tag: str) -> str:
        texts = [
            f"<{tag}{' class=l' if i < part.left else ''}>{_inline(cell)}</{tag}>"
            for i, cell in enumerate(cells)
        ]
        return f"<tr>{''.join(texts)}</tr>"

    lines = [line(part.headings, "th"), *(line(row, "td") for row in part.body)]
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def _inline(text: str) -> str:
    """Text whose **bold** and `code` are marked."""
    escaped = html.escape(text)
    escaped = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", escaped)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)


_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "×": r"$\times$", "µ": r"$\mu$", "≤": r"$\le$", "≥": r"$\ge$",
}  # fmt: skip


def tex_text(text: str) -> str:
    """Plain text for LaTeX, **bold** marked."""
    plain = "".join(_TEX.get(letter, letter) for letter in text)
    return re.sub(r"\*\*([^*]+)\*\*", r"\\textbf{\1}", plain)


def latex(parts: Sequence[Part]) -> str:
    """The tables, each below its heading, for \\input (package booktabs)."""
    found, heading = [], ""
    for part in parts:
        if isinstance(part, Heading):
            heading = part.text
        elif isinstance(part, Table):
            columns = "l" * part.left + "r" * (len(part.headings) - part.left)
            rows = [" & ".join(map(tex_text, row)) + r" \\" for row in part.body]
            head = " & ".join(map(tex_text, part.headings)) + r" \\"
            lines = [
                f"% {heading}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule",
                *rows, r"\bottomrule", r"\end{tabular}",
            ]  # fmt: skip
            found.append("\n".join(lines))
    return "\n\n".join(found) + "\n"
