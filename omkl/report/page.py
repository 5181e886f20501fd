"""HTML page of several runs: one file with their table, figures and commands."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from pathlib import Path

from omkl.report import naming, sweep_table
from omkl.report.frame import frame_of
from omkl.runs.run_folder import FIGURES, Run
from omkl.utils.disk import write_atomically
from omkl.utils.wording import few

MOST_WITH_FIGURES = 30  # runs; each has about half a megabyte of them


def write_page(runs: Sequence[Run], path: Path, figures: Iterable[Path] = ()) -> Path:
    """Write the page of several runs, and return its path.

    Parameters
    ----------
    runs
        Runs, failures included.
    path
        HTML file.
    figures
        PNG files, drawn below the table.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page(runs, figures))
    return path


def page(runs: Sequence[Run], figures: Iterable[Path] = ()) -> str:
    """Return the page as HTML. All content of run folders is escaped."""
    import jinja2

    frame = frame_of(runs)
    shown = sweep_table.shown_of(frame)
    columns, rows = sweep_table.columns_of(shown), shown.to_dict("records")
    star, *notes = sweep_table.notes_of(shown)
    complete = [run for run in runs if run.complete]
    learners = dict.fromkeys(map(naming.name_of, complete))
    datasets = [row["dataset"] for row in rows]
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    templates = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    return templates.get_template("page.html").render(
        title=f"{few(learners)} on {few(dict.fromkeys(datasets))}",
        columns=columns,
        lines=zip(
            rows,
            [a != b for a, b in zip(datasets, [*datasets[1:], None], strict=True)],
            zip(*(column.texts for column in columns), strict=True),
            strict=True,
        ),
        notes=[f"Bold: {star}", *notes],
        failures=[f"{few(n)}: {error}" for error, n in sweep_table.failures_of(frame).items()],
        pictures=_images(figures),
        runs=[
            {
                "name": f"{entry} on {stream}",
                "computed": f"computed {run.result['started']}, commit {run.result['commit']}",
                "command": naming.command(run),
                "pictures": _images(sorted((run.folder / FIGURES).glob("*.png")))
                if len(complete) <= MOST_WITH_FIGURES
                else [],
            }
            for run, entry, stream in zip(
                complete, naming.legend(complete), naming.streams(complete), strict=True
            )
        ],
    )


def _images(paths: Iterable[Path]) -> list[tuple[str, str]]:
    """Return names of PNG files, and their content in base 64."""
    return [(path.stem, base64.b64encode(path.read_bytes()).decode()) for path in paths]
