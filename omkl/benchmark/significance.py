"""What statistics over the streams say of learners: the part of the page that is about ranks."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from omkl.benchmark import rank_diagram, statistics
from omkl.benchmark.documents import Heading, Part, Picture, Table, Text


def parts(errors: pd.DataFrame, reference: str, place: Path, task: str) -> list[Part]:
    """Friedman's test, the diagram of critical differences, and ratios with their intervals.

    ``errors`` are streams x learners, inf where one failed, NaN where there is no value.
    """
    found: list[Part] = [Heading(f"{task.capitalize()}: over the streams", 3)]
    try:
        drawn = rank_diagram.draw_critical_differences(errors, place / f"{task}_ranks.png")
        whole = statistics.friedman(errors) if len(errors) > 1 else None
    except ValueError as error:
        return [*found, Text(f"Nothing can be said: {error}.")]
    if whole is not None:
        found.append(
            Text(
                f"Friedman's test on {whole.n_learners} learners and {whole.n_streams} streams: "
                f"chi-squared {whole.statistic:.1f}, p = {whole.p:.2g}; F of Iman and Davenport "
                f"{whole.f:.2f}, p = {whole.f_p:.2g}. {whole.blocks.left_out}".strip()
            )
        )
    found.append(Picture(drawn[0], "Average ranks; bars join what does not differ"))
    if reference in errors:
        ratios = statistics.log_ratio(errors, to=reference)
        body = [
            [str(name), f"{row.ratio:.3f}", _interval(row),
             str(row.n_streams)]
            for name, row in ratios.iterrows()
        ]  # fmt: skip
        found += [
            Text(f"Error over that of {reference}: geometric mean, and its 95 % interval."),
            Table(["", "ratio", "interval", "streams"], body),
        ]
    return found


def _interval(row: pd.Series) -> str:
    """Nothing where one stream gives none."""
    known = row.notna()[["ratio_low", "ratio_high"]].all()
    return f"{row.ratio_low:.3f} to {row.ratio_high:.3f}" if known else ""
