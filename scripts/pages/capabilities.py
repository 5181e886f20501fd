"""Page of the needs, costs and features of each algorithm, from its box and from test calls."""

from __future__ import annotations

import html
import re
from typing import Any

import omkl
from omkl import algorithms, federated
from omkl.utils import registry
from pages import cards

PLACE = "reference/capabilities.md"
YES, NO = "✓", ""
# Where the conditions of a bound, and what its symbols are, begin.
CONDITIONS = (
    r"; |\.(?: (?=[A-Z(])|$)|, with \w the | with eta| for eta|, for |, as others| \(the paper"
    r"|, g (?:=|the) |, a = "
)
PAGE = """\
---
hide: [toc]
---

# What each algorithm needs and supports

The tables use these symbols: N kernels with D random frequencies each, d inputs, T rows (t so far),
and M selected kernels. The page of an algorithm explains its other symbols, the conditions of its
bound and the rest of its cost. [Performance](../performance.md) has measured times, and
[the benchmark](../benchmark.md) has errors.

## Feedback, cost and bound

Feedback is what a learner gets after its prediction of a row: the losses of all kernels (*full*),
the losses of selected kernels (*partial*), or the target if it requested it (*on request*).

<div class="bounds" markdown>

{needs}

</div>

## Federated

These algorithms need K clients and a server. All except eM-KOFL also learn without a server,
[on a graph](../federated.md#without-a-server). A number takes 8 bytes.

{federated}

## What it supports

- **classes**: the number of classes. K classes are learned together, or each against the rest. An
  empty cell means regression.
- **interval**: adaptive intervals around predictions (`interval=0.9`).
- **std**: a standard deviation with every prediction.
- **panel**: one learner per series (`series=`, `omkl.panel`).
- **outputs**: several targets per row (`omkl.learner(outputs=...)`).
- **delay**: late targets (`stream.delay`, `stream.horizon`).
- **features**: random frequencies by `features=orthogonal` and `features=qmc`.
- **bounded**: memory that does not grow with the stream.
- **variants**: folders with an algorithm of the same name, such as `rf/omkc_da_o`.

Federated algorithms have no classes, intervals, panels, several outputs or delays.

{supports}
"""
NEEDS = ("", "feedback", "time per row", "memory", "bound")
OF_A_CLIENT = ("", "time per row of a client", "numbers sent per row of a client", "bound")
SUPPORTS = (
    "", "classes", "interval", "std", "panel", "outputs", "delay", "features", "bounded",
    "variants",
)  # fmt: skip
# Settings of the smallest learner of any algorithm, so that the answers come at once.
SMALL: dict[str, Any] = {"inputs": 2, "kernels": "gauss13", "D": 8, "horizon": 1000}


def page() -> str:
    """Return the page as Markdown."""
    own = [name for name in registry.names("omkl.algorithms") if "/" not in name]
    return PAGE.format(
        needs=_table(NEEDS, map(_needs, own)),
        federated=_table(OF_A_CLIENT, map(_federated, federated.names())),
        supports=_table(SUPPORTS, map(_supports, own)),
    )


def _table(headings: tuple[str, ...], rows: Any) -> str:
    return "\n".join([_row(headings), _row(("---",) * len(headings)), *map(_row, rows)])


def _row(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _link(name: str) -> str:
    return f"[{registry.title(name)}](../algorithms/{name}.md) `{name}`"


# --- what the box says ----------------------------------------------------------------------------


def _needs(name: str) -> tuple[str, ...]:
    cost = _cost(name)
    return (
        _link(name), _feedback(name), _text(_order(cost, " time per round")),
        _text(_order(cost, " memory")), _text(bound(name)),
    )  # fmt: skip


def _federated(name: str) -> tuple[str, ...]:
    cost = _cost(name)
    numbers = re.split(r", |: | and ", cost.partition(" numbers sent")[0])[-1]
    time = _order(cost, " time per round")
    return _link(name), _text(time), _text(numbers), _text(bound(name))


def _feedback(name: str) -> str:
    """Return the second part of the box's Task, in the words of the page."""
    stated = _line(name, "Task").split("; ")[1].rstrip(".")
    words = {"full information": "full", "queried labels": "on request"}
    partial = stated.replace("selected kernels", "partial").replace("a round", "per row")
    return words.get(stated, partial)


def _cost(name: str) -> str:
    """Return the Cost of the box, or of the algorithm's box to which it refers."""
    cost = _line(name, "Cost")
    other = re.match(r"as [^(]*\(?``(\w+)``", cost)
    return _cost(other[1]) if other else cost


def _order(text: str, unit: str) -> str:
    """Return the O(...) before a unit; "" if there is none."""
    for start in (match.start() for match in re.finditer(r"O\(", text)):
        depth = 0
        for end in range(start + 1, len(text)):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                break
        if text[end + 1 :].startswith(unit):
            return text[start : end + 1]
    return ""


def bound(name: str) -> str:
    """Return the first clause of the box's Bound, and whether it is unproved."""
    text = _line(name, "Bound")
    if text.startswith("none"):
        return "none"
    clause = re.split(CONDITIONS, text)[0]
    doubt = re.search(r"Unproved( for [^,:]*)?", text)
    return f"{clause}, u{doubt[0][1:]}" if doubt else clause


def _line(name: str, heading: str) -> str:
    return " ".join(cards.box(name)[heading].split())


def _text(text: str) -> str:
    """Format plain text for a cell of a table; text in double backticks becomes code."""
    parts = re.split(r"``(.+?)``", text)
    return "".join(
        f"`{part}`" if k % 2 else re.sub(r"([_*|])", r"\\\1", html.escape(part, quote=False))
        for k, part in enumerate(parts)
    )


# --- what the program says ------------------------------------------------------------------------


def _supports(name: str) -> tuple[str, ...]:
    one = algorithms.load(name)
    kept, folders = one.representation, [folder for folder in registry.FOLDERS if _in(folder, name)]
    interval = "adaptive" if _takes(name, interval=0.9) else NO
    return (
        _link(name), _classes(one), interval, _mark(one.has_spread), _mark(_in_panels(name)),
        _mark(_takes(name, outputs=2)), _mark(not one.queries),
        _mark(_takes(name, features="qmc")), _mark(kept.bounded),
        ", ".join(f"`{folder}`" for folder in folders),
    )  # fmt: skip


def _mark(yes: bool) -> str:
    return YES if yes else NO


def _classes(one: Any) -> str:
    if one.task != "classification":
        return NO
    return "K together" if one.of_classes else "2, K one against the rest"


def _in(folder: str, name: str) -> bool:
    return folder + name in registry.names("omkl.algorithms")


def _takes(name: str, **settings: Any) -> bool:
    """Return whether a learner accepts these settings. Raises if it fails without them."""
    classes = [0, 1] if algorithms.load(name).task == "classification" else None
    small = {**SMALL, "classes": classes}
    omkl.learner(name, **small)
    try:
        omkl.learner(name, **small, **settings)
    except ValueError:
        return False
    return True


def _in_panels(name: str) -> bool:
    try:
        omkl.panel(name, **SMALL)
    except ValueError:
        return False
    return True
