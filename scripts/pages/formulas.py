"""Formulas of pages as MathML, which needs no script and no font from another site."""

import html
import re

from latex2mathml.converter import convert

# As pymdownx.arithmatex marks them with ``generic``.
DISPLAYED = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
TAG = re.compile(r"\\tag\{(\w+)\}")


def typeset(page: str) -> str:
    r"""Return a page's HTML with its formulas as MathML; their numbers come from ``\tag``."""
    return INLINE.sub(lambda m: convert(html.unescape(m[1])), DISPLAYED.sub(_displayed, page))


def _displayed(match: re.Match[str]) -> str:
    latex = html.unescape(match[1])
    tag = TAG.search(latex)
    formula = convert(TAG.sub("", latex).strip(), display="block")
    number = f'<span class="formula-number">({tag[1]})</span>' if tag else ""
    return f'<div class="formula">{formula}{number}</div>'
