"""One page of tables, figures and texts: an HTML file that needs no other, Markdown or LaTeX.

A page is a title and a list of parts, written down once and rendered in each form. The look of the
HTML is in ``page.html``, the script that draws ``Curves`` in ``page.js``: SVG, where what is under
the mouse is read off. ``sweep_page`` is that of a sweep: table, curves, settings, commands.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.report import naming, stats, style, sweep_table
from omkl.report.naming import markdown_text
from omkl.report.sweep_table import Row
from omkl.report.tables import Table, templates
from omkl.runs.run_folder import MSE, Run, measure
from omkl.utils.disk import write_atomically

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
    """Parts that are shown when they are asked for."""

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
            summary = f"<summary>{escape(part.title)}</summary>"
            inner = map(_markdown, part.parts)
            return "\n\n".join(['<details markdown="1">', summary, *inner, "</details>"])
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


N_POINTS = 240  # of a curve
DIGITS = 4
SKIPPED = 0.005  # share of the rounds whose means are of a handful: they set no scale


def write_sweep_page(runs: Sequence[Run], path: Path, failures: Sequence[Row] = ()) -> Path:
    """Write the page of complete runs to ``path``; ``failures`` are rows of ``failure_table``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, sweep_page(runs, failures))
    return path


def sweep_page(runs: Sequence[Run], failures: Sequence[Row] = ()) -> str:
    runs = [run for run in runs if run.complete]
    legend, streams = naming.legend(runs), naming.streams(runs)
    looks = style.looks_of(legend)
    members: dict[str, list[Member]] = {}
    for run, entry, stream in zip(runs, legend, streams, strict=True):
        members.setdefault(stream, []).append(Member(run, str(entry), looks[entry]))
    parts = list(_table(sweep_table.sweep_table(runs)))
    if failures:
        facts = [(sweep_table.described(row), row["error"]) for row in failures]
        parts += [Heading("Not complete"), Facts(facts)]
    for stream, of_stream in members.items():
        parts += [Heading(stream), Curves(stream, _curves(of_stream))]
    names = [f"{entry} on {stream}" for entry, stream in zip(legend, streams, strict=True)]
    parts += [*_settings(runs, names), *_commands(runs)]
    learners = list(dict.fromkeys(map(naming.name_of, runs)))
    datasets = list(dict.fromkeys(run.result["dataset"] for run in runs))
    return html_page(f"{naming.some(learners, 4)} on {naming.some(datasets, 4)}", parts)


class Member(NamedTuple):
    """A run of a stream, and its entry and look in the chart."""

    run: Run
    entry: str
    looks: Mapping[str, Any]


def _table(rows: Sequence[Row]) -> Iterator[Part]:
    yield sweep_table.table(rows)
    notes = [f"Bold: {stats.meaning(rows, sweep_table.short_names(rows))}."] if rows else []
    notes.append("± is the standard deviation over the seeds; seconds are of all seeds.")
    if comparators := sweep_table.comparators_text(rows):
        notes.append(f"Regret is against {comparators}.")
    yield Text(" ".join(notes), note=True)


def _curves(members: Sequence[Member]) -> dict[str, Any]:
    """What the script draws of the runs of a stream: the same lines seen in several ways."""
    kind = measure(members[0].run.result)
    short = "MSE" if kind is MSE else kind.long
    baselines = _baselines([member.run for member in members])
    each = [(one, stats.windowed(one.run)) for one in members]
    windows = [_line(one.entry, one.looks, w.edges[1:], w.loss) for one, w in each]
    views = [
        (f"{kind.long} so far", f"{short} of rows 1..t", True, SKIPPED,
         [*map(_running, members), *baselines]),
        ("of windows", f"{short} of a window", True, 0, windows),
    ]  # fmt: skip
    if regrets := [line for member in members if (line := _regret(member))]:
        ylabel = "cumulative squared error above the comparator"
        views.append(("regret", ylabel, False, 0, regrets))
    changes = {int(t) for member in members for t in member.run.curves["change_rounds"]}
    names = ("name", "ylabel", "log", "skip", "lines")
    return {
        "changes": sorted(changes),
        "views": [dict(zip(names, view, strict=True)) for view in views],
    }


def _line(name: str, looks: Mapping[str, Any], t: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    """A line of the script: values (R, P) at rounds t (P,), their mean and deviation."""
    values = np.atleast_2d(values)
    std = values.std(axis=0, ddof=1) if len(values) > 1 else None
    colour, dash = str(looks["color"]), looks["linestyle"]
    return {
        "name": name,
        "colour": "var(--black)" if colour == "#000000" else colour,
        "dash": "" if isinstance(dash, str) else " ".join(f"{2 * part:g}" for part in dash[1]),
        "width": looks.get("linewidth", 1.8),
        "t": t.tolist(),
        "y": _brief(values.mean(axis=0)),
        "s": None if std is None else _brief(std),
    }


def _brief(values: np.ndarray) -> list[float | None]:
    return [float(f"{v:.{DIGITS}g}") if math.isfinite(v) else None for v in values.tolist()]


def _running(member: Member) -> dict[str, Any]:
    curves = member.run.curves
    drawn = style.drawn_rounds(curves["t"], limit=N_POINTS)
    values = curves[measure(member.run.result).key][:, drawn]
    return _line(member.entry, member.looks, curves["t"][drawn], values)


def _baselines(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    for index, line in enumerate(stats.baseline_lines(runs)):
        drawn = style.drawn_rounds(line.t, limit=N_POINTS)
        dash = style.LINES[index % len(style.LINES)]
        looks = {"color": "#888888", "linestyle": dash, "linewidth": 1}
        yield _line(line.text, looks, line.t[drawn], line.values[drawn])


def _regret(member: Member) -> dict[str, Any] | None:
    """Against the first comparator that was computed, as in the table."""
    stated, curves = member.run.result["regret"], member.run.curves
    name = next((n for n in stated if "mean" in stated[n] and f"regret_{n}" in curves), None)
    if name is None:
        return None
    drawn = style.drawn_rounds(curves["t"], limit=N_POINTS)
    return _line(member.entry, member.looks, curves["t"][drawn], curves[f"regret_{name}"][:, drawn])


def _settings(runs: Sequence[Run], names: Sequence[str]) -> Iterator[Part]:
    """What all runs have in common, others than the defaults first, and of each what differs."""
    facts = [
        naming.settings_of(run) | {f"algorithm.{k}": v for k, v in run.result["params"].items()}
        for run in runs
    ]
    common = {
        name: value
        for name, value in facts[0].items()
        if all(name in of_run and of_run[name] == value for of_run in facts)
    }
    yield Heading("Settings")
    chosen = {"kernels"}.union(*(naming.differences(run) for run in runs))
    yield _facts({name: value for name, value in common.items() if name in chosen})
    defaults = {name: value for name, value in common.items() if name not in chosen}
    if defaults:
        yield Fold("defaults, the same in all runs", [_facts(defaults)])
    for run, name, of_run in zip(runs, names, facts, strict=True):
        more = {name: value for name, value in of_run.items() if name not in common}
        more |= {"computed": f"{run.result['started']}, at commit {run.result['commit']}"}
        files = run.result.get("stream", {}).get("files", ())
        more |= {f"sha256 of {file['name']}": file["sha256"] for file in files if "name" in file}
        yield Fold(name, [_facts(more)])


def _facts(facts: Mapping[str, Any]) -> Facts:
    return Facts([(name, naming.value_text(value)) for name, value in facts.items()])


def _commands(runs: Sequence[Run]) -> Iterator[Part]:
    yield Heading("Commands")
    note = "A line computes one run again. Folders and files are as they lay when this was written."
    yield Text(note, note=True)
    for run in runs:
        yield Code(naming.command(run))
