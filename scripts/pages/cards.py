"""Card of each algorithm: its docstring's box, its parameters, and a curve."""

from __future__ import annotations

import functools
import html
import io
import json
import posixpath
import re
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl import federated
from omkl.utils import conf, registry

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
FOLDER = "algorithms"
SEED = 7  # that of the golden numbers


def names() -> list[str]:
    """Return all algorithms of the package, the federated ones last."""
    return [name for package in registry.PACKAGES for name in registry.names(package)]


def box(name: str) -> dict[str, str]:
    """Return the box of an algorithm's docstring by its headings: Paper, Task, Round, ..."""
    paragraphs = registry.docstring(name).split("\n\n")
    paragraph = next((text for text in paragraphs if text.startswith("Paper ")), "")
    _, *parts = re.split(r"^([A-Z][a-z]+) +(?=\S)", paragraph, flags=re.MULTILINE)
    return {
        heading: _dedented(lines) for heading, lines in zip(parts[::2], parts[1::2], strict=True)
    }


def _dedented(lines: str) -> str:
    first, _, rest = lines.rstrip().partition("\n")
    return f"{first}\n{textwrap.dedent(rest)}".strip()


def place(name: str) -> str:
    """Return the path of an algorithm's page from the site's root."""
    return f"{FOLDER}/{name}.md"


def groups() -> dict[str, list[str]]:
    """Return the algorithms by task, in the order of the navigation."""
    found: dict[str, list[str]] = {}
    for name in names():
        task = box(name)["Task"]
        if name in federated.names():
            group = "Federated"
        elif task.startswith("classification"):
            group = "Classification"
        elif "queried labels" in task:
            group = "Targets on request"
        else:
            group = "Regression"
        found.setdefault(group, []).append(name)
    return found


def index() -> str:
    """Return the page that lists all algorithms."""
    lines = [
        "# Algorithms", "",
        "The first column has the names for `algorithm=`.",
        "[One table](../reference/capabilities.md) has the needs and costs of all algorithms.", "",
    ]  # fmt: skip
    for group, members in groups().items():
        lines += [f"## {group}", "", "| | | task |", "|---|---|---|"]
        for name in members:
            line = f"[{registry.title(name)}]({name}.md)"
            task = re.split(r"[.:]", box(name)["Task"])[0]
            lines.append(f"| `{name}` | {line} | {' '.join(task.split())} |")
        lines.append("")
    return "\n".join(lines)


def card(name: str, curve: Curve) -> str:
    """Return an algorithm's page as Markdown; its picture is ``FOLDER/NAME.svg``."""
    head = registry.docstring(name).partition("\n")[0]
    summary = head.partition(": ")[2] or head
    parent = name.rpartition("/")[2]
    lines = [f"# {registry.title(name)}", "", html.escape(summary[:1].upper() + summary[1:]), ""]
    if when := conf.when("algorithm", name):
        lines += [f"**When to take it:** {html.escape(when)}.", ""]
    lines += [f"    {_typed(name)}", ""]
    if parent != name and registry.docstring(name) == registry.docstring(parent):
        common = registry.FOLDERS[name.removesuffix(parent)].replace("``", "`")
        lines += [
            f"{common} All else is as in [{registry.title(parent)}]({_to(name, parent)}).",
            "",
        ]
    lines += [f"![{curve.caption}]({posixpath.basename(name)}.svg)", "", curve.caption, ""]
    for heading, text in box(name).items():
        lines += [f"## {heading}", "", _section(name, heading, text), ""]
    lines += _parameters(name)
    return "\n".join(lines)


def _typed(name: str) -> str:
    """Return a command that runs the algorithm."""
    if box(name)["Task"].startswith("classification"):
        return f"omkl-run my.csv target=class task=classification algorithm={name}"
    more = " federation=iid clients=5" if name in federated.names() else ""
    return f"omkl-run algorithm={name}{more}"


def _section(name: str, heading: str, text: str) -> str:
    """Return a section of the box as HTML, without Markdown."""
    if heading == "Symbols" and re.match(r"\S+(, \S+)*  ", text):
        rows = re.split(r"\n(?=\S+(?:, \S+)*  )", text)  # other lines continue a meaning
        cells = [re.split(r"\s{2,}", row, maxsplit=1) for row in rows]
        shown = "".join(
            f"<tr><td><code>{html.escape(symbol)}</code></td><td>{_inline(name, meaning)}</td></tr>"
            for symbol, meaning in ([*cell, ""][:2] for cell in cells)
        )
        return f"<table>{shown}</table>"
    if heading == "Round" and (first := re.search(r"^([01])\. ", text, re.MULTILINE)):
        before, text = text[: first.start()].strip(), text[first.start() :]
        text, *after = re.split(r"\n(?=[^\s\d])", text, maxsplit=1)  # what is of no single step
        steps = [re.sub(r"^\d+\. ", "", step) for step in re.split(r"\n(?=\d+\. )", text)]
        shown = "".join(f"<li>{_with_items(name, step)}</li>" for step in steps)
        rest = "".join(f"<p>{_inline(name, part)}</p>" for part in after)
        said = f"<p>{_inline(name, before)}</p>" if before else ""
        return f'{said}<ol start="{first[1]}">{shown}</ol>{rest}'
    return f"<div>{_with_items(name, text)}</div>"


def _with_items(name: str, text: str) -> str:
    """Return a text, a list of its lines that begin with a dash, and the text after the list.

    Further lines of an item are indented by two more than its dash. The first line with another
    indentation ends the list.
    """
    before, *items = re.split(r"\n(?= *- )", text)
    if not items:
        return _inline(name, text)
    indent = len(items[0]) - len(items[0].lstrip())
    items[-1], *after = re.split(rf"\n(?= {{{indent}}}\S)", items[-1], maxsplit=1)
    shown = "".join(f"<li>{_inline(name, item.lstrip(' -'))}</li>" for item in items)
    return f"{_inline(name, before)}<ul>{shown}</ul>{''.join(_inline(name, a) for a in after)}"


def _inline(name: str, text: str) -> str:
    """Return text on one line; text in double backticks becomes code or a link to its card."""

    def shown(match: re.Match[str]) -> str:
        inner = html.unescape(match[1])
        code = f"<code>{html.escape(inner)}</code>"
        if inner.startswith("docs/") and inner.endswith(".md"):
            to = _to_page(name, inner.removeprefix("docs/"))
        elif inner in names() and inner != name:
            to = _to(name, inner)
        else:
            return code
        return f'<a href="{to.removesuffix(".md")}.html">{code}</a>'

    return re.sub(r"``(.+?)``", shown, html.escape(" ".join(text.split()), quote=False))


def _to(name: str, other: str) -> str:
    return _to_page(name, place(other))


def _to_page(name: str, page: str) -> str:
    return posixpath.relpath(page, posixpath.dirname(place(name)))


def _parameters(name: str) -> list[str]:
    given = {k: v for k, v in conf.entry("algorithm", name).items() if k != "name"}
    if not given:
        return ["## Parameters", "", "None.", ""]
    lines = ["## Parameters", "", "| | default |", "|---|---|"]
    return [*lines, *(f"| `algorithm.{key}` | `{value}` |" for key, value in given.items()), ""]


# --- the picture ----------------------------------------------------------------------------------


class Curve(NamedTuple):
    """Content of a picture: its label, its values (T,), those of a comparator, and a sentence."""

    label: str
    values: np.ndarray
    comparator: str
    compared: np.ndarray
    caption: str


@functools.cache
def curve(name: str) -> Curve:
    """Return the squared error, or share of mistakes, so far on the stream of the golden numbers.

    The error of a federation is the mean over its clients. Raises ValueError if the golden numbers
    differ.
    """
    from omkl.checks import federations, learners

    together = name in federated.names()
    case: Any = federations.Case(name) if together else learners.Case(name)
    X, y = case.stream()
    y_hat = case.learner(seed=SEED).partial_fit(X, y).y_hat
    golden = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))["mse"]
    squared = (y_hat - y) ** 2
    if not np.isclose(squared.mean(), golden, rtol=1e-9):
        raise ValueError(f"{name}: {squared.mean()} is not {golden} of tests/golden")
    mistakes = not together and case.classifies
    comparator, simple = _comparator(name, X, y, mistakes)

    def so_far(predictions: np.ndarray) -> np.ndarray:
        errors = predictions * y <= 0.0 if mistakes else (predictions - y) ** 2
        errors = errors.mean(axis=1) if together else errors
        return np.cumsum(errors) / np.arange(1, len(errors) + 1)

    values, compared = so_far(y_hat), so_far(simple)
    label = "share of mistakes" if mistakes else "mean squared error"
    caption = (
        f"The {label} so far on a small simulated stream. At the end it is {values[-1]:.4f}, "
        f"and that of the {comparator} is {compared[-1]:.4f}."
    )
    return Curve(label, values, comparator, compared, caption)


def _comparator(name: str, X: np.ndarray, y: np.ndarray, mistakes: bool) -> tuple[str, np.ndarray]:
    """Return name and predictions of a simpler learner: a linear ridge, or a mean of the past."""
    from omkl.checks import learners

    if y.ndim == 1 and not mistakes and name != "ridge":
        return "linear ridge", learners.Case("ridge").learner(seed=SEED).partial_fit(X, y).y_hat
    before = np.cumsum(y, axis=0) - y
    if mistakes:
        return "most frequent class", np.where(before >= 0.0, 1.0, -1.0)
    rows = np.arange(len(y)).reshape(-1, *[1] * (y.ndim - 1))
    return "running mean", before / np.maximum(rows, 1)


def picture(curve: Curve) -> bytes:
    """Return a small SVG that is legible on light and dark backgrounds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    grey = "#888888"
    with plt.rc_context({"svg.hashsalt": "omkl", "text.color": grey, "axes.labelcolor": grey}):
        fig, ax = plt.subplots(figsize=(5.2, 2.0))
        rounds = np.arange(1, len(curve.values) + 1)
        ax.plot(rounds, curve.compared, color=grey, lw=1.2, ls="--", label=curve.comparator)
        ax.plot(rounds, curve.values, color="#3f7fbf", lw=1.6, label="this algorithm")
        ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        ax.set(xlabel="row", ylabel=curve.label, xlim=(0, len(curve.values)), ylim=(0, None))
        ax.tick_params(colors=grey)
        for side, spine in ax.spines.items():
            spine.set(color=grey, visible=side in ("left", "bottom"))
        file = io.BytesIO()
        fig.savefig(
            file, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None}
        )
        plt.close(fig)
    return file.getvalue()
