"""Regret of runs beside what the theorems promise, and which of their conditions hold."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from omkl.experiment.metrics import mean_and_deviation
from omkl.papers import bounds
from omkl.papers.bounds import (
    Assumption,
    Bound,
    assumptions,
    bound_of_run,
    fitted_slope,
    promised,
    theorem_meant,
)
from omkl.papers.filled import Filled
from omkl.papers.page.blocks import Block, Grid, Heading, Items, Text
from omkl.papers.page.numbers import scientific, signed
from omkl.papers.tables import VARIANTS
from omkl.report import style
from omkl.runs.run_folder import Run

ACTIVE_REGRET = (
    "Regret (15) of Hong and Chae: the cumulative squared error of all predictions, of "
    "rounds without a label too, above that of the best kernel in hindsight. Each kernel "
    "is fitted to the whole stream on the same random features with the learner's lam, "
    "(45); the penalty shapes that fit and is not counted. Mean ± std over the seeds after "
    "the last round. In brackets the slope of its logarithm over log t on the second half "
    "of the rounds; theorems 1 to 3 promise 0.5 at most, for steps and eta_c of order "
    "1/sqrt(T). Theorems 2 and 3 do not cover these runs: their lemma 6 needs a loss that "
    "obeys the triangle inequality, (a5), which the squared error does not. As printed, "
    "(15) lacks the loss around f*; theorem 1 has it."
)
THEORY = (
    "Regret: cumulative squared error above that of the best kernel in hindsight (ridge "
    "regression on its random features), after the last round, mean over the seeds. The "
    "fitted slope is that of log regret over log t on the second half of the rounds; the "
    "promised one belongs to the step sizes that the theorem asks for, which the "
    "experiments do not use. The bounds are the theorem's right-hand side with the run's "
    "own settings, once against the best function of the random features and once, as in "
    "the theorem, against the best of the kernel's space. With losses in [0, 1] no regret "
    "exceeds T, so a bound above T says nothing."
)

Judged = tuple[Assumption, str, str]  # with the learner and the data set


def active_regret_blocks(filled: Sequence[Filled]) -> list[Block]:
    """Regret (15) of Hong and Chae after the last round, and how fast it still grows."""
    body: list[tuple[str, ...]] = []
    columns = list(dict.fromkeys(column for table in filled for column in table.table.columns))
    for variant, row in itertools.product(VARIANTS, [row for t in filled for row in t.cells]):
        texts = dict.fromkeys(columns, "")
        for cell in row:
            run = cell.entries[variant].run if variant in cell.entries else None
            if run is not None and "regret_ridge_features" in run.curves:
                texts[cell.column] = _regret_text(run)
        if any(texts.values()):
            body.append((row[0].row, VARIANTS[variant], *texts.values()))
    if not body:
        return []
    return [
        Heading("Regret of the active learners", 3),
        Text(ACTIVE_REGRET),
        Grid(("learner", "settings", *columns), tuple(body), left=2),
    ]


def _regret_text(run: Run) -> str:
    regret = run.curves["regret_ridge_features"]
    slope = fitted_slope(run.curves["t"], regret.mean(axis=0))
    mean, std = mean_and_deviation(regret[:, -1])
    text = f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"
    return signed(text + ("" if slope is None else f" ({slope:.2f})"))


def theory_blocks(filled: Sequence[Filled]) -> list[Block]:
    """What the theorems say of the runs of table 1, and which of their conditions hold."""
    entries = [cell.written for table in filled for cell in table.all_cells]
    runs = [e.run for e in entries if e.run is not None and e.run.complete]
    runs = [run for run in runs if theorem_meant(run.result["algorithm"])]
    runs = [run for run in runs if "regret_ridge_features" in run.curves]
    if not runs:
        return []
    evaluated = [bound_of_run(run) for run in runs]
    notes: dict[str, dict[str, None]] = {}
    judged: dict[str, list[Judged]] = {}
    for run, bound in zip(runs, evaluated, strict=True):
        if bound is None:
            continue
        for note in bound.notes:
            notes.setdefault(note, {})[bound.theorem] = None
        for assumption in assumptions(run):
            found = (assumption, style.name_of(run), run.result["dataset"])
            judged.setdefault(assumption.name, []).append(found)
    heads = (
        *("learner", "data set", "T", "regret", "fitted slope", "promised slope"),
        *("bound, random features", "bound, kernel's space"),
    )
    worst = max(runs, key=lambda run: run.result["max_squared_error"])
    return [
        Heading("Theory beside experiment"),
        Text(THEORY),
        Grid(heads, tuple(map(_theory_line, runs, evaluated)), left=2),
        Items(tuple(f"{', '.join(names)}: {note}" for note, names in notes.items())),
        Heading("Assumptions on these data", 3),
        Grid(
            ("assumption", "holds", "fails", "cannot be told", "where it fails"),
            tuple(_assumption_line(name, found) for name, found in judged.items()),
            wordy=(0, 4),
        ),
        Text(
            "The largest squared error of a prediction in these runs is "
            f"{worst.result['max_squared_error']:.3g} ({style.name_of(worst)} on "
            f"{worst.result['dataset']}). (as2) speaks of every kernel, evaluated or not. "
            + _features_text(runs)
        ),
    ]


def _theory_line(run: Run, bound: Bound | None) -> tuple[str, ...]:
    t, regret = run.curves["t"], run.curves["regret_ridge_features"].mean(axis=0)
    slope, (rate, source) = fitted_slope(t, regret), promised(run.result["algorithm"])
    return (
        *(style.name_of(run), run.result["dataset"], f"{t[-1]:,}", f"{regret[-1]:.1f}"),
        "" if slope is None else signed(f"{slope:.2f}"),
        f"{rate:.2g} ({source})",
        "" if bound is None else scientific(bound.value[-1]),
        "" if bound is None else scientific(bound.full),
    )


def _assumption_line(name: str, found: Sequence[Judged]) -> tuple[str, ...]:
    answers = [assumption.holds for assumption, _, _ in found]
    failing: dict[str, list[tuple[str, str]]] = {}
    for assumption, learner, dataset in found:
        if assumption.holds is False:
            failing.setdefault(assumption.text, []).append((learner, dataset))
    texts = []
    for text, where in failing.items():
        places = []
        for learner in dict.fromkeys(learner for learner, _ in where):
            on = [dataset for other, dataset in where if other == learner]
            everywhere = len(on) == sum(other == learner for _, other, _ in found)
            places.append(learner if everywhere else f"{learner} on {', '.join(on)}")
        texts.append(text if len(where) == len(found) else f"{', '.join(places)}: {text}")
    counts = (str(answers.count(answer)) for answer in (True, False, None))
    return (name, *counts, "; ".join(texts))


def _features_text(runs: Sequence[Run]) -> str:
    """How many random features the probability statement would need for a Gaussian kernel."""
    chance = bounds.PROBABILITY
    D, inputs = runs[0].result["D"], sorted({run.result["n_inputs"] for run in runs})
    needed = [bounds.features_needed(0.1, chance, d, d) for d in inputs]
    smallest = [bounds.smallest_epsilon(chance, d, D, d) for d in inputs]
    return (
        f"For a Gaussian kernel of variance 1 and D = {D}, probability {chance:g} "
        f"needs epsilon of {min(smallest):.1f} to {max(smallest):.1f}, where 2 holds always; "
        f"epsilon = 0.1 needs D of {min(needed):,.0f} to {max(needed):,.0f}."
    )
