"""What made the numbers of a table: settings, machine, commits, sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from omkl.papers.filled import Filled
from omkl.papers.tables import Table
from omkl.runs.run_folder import Run
from omkl.runs.wording import pluralize

MOST_STAMPS = 4  # shown: each algorithm on each data set has one


def provenance(runs: Iterable[Run]) -> list[tuple[str, str]]:
    """What computed the numbers; several values where the runs do not agree."""
    results = [run.result for run in runs if run.complete]
    if not results:
        return []

    def among(key: str) -> str:
        texts = []
        for result in results:
            value = result[key]
            if isinstance(value, Mapping):
                value = ", ".join(f"{k} {v}" for k, v in value.items())
            texts.append(str(value))
        return "; ".join(dict.fromkeys(texts))

    counts = dict.fromkeys(_seeds_text(result["seeds"]) for result in results)
    total = sum(result["seconds"] for result in results)
    facts = [
        ("runs", str(len(results))),
        ("seeds", "; ".join(counts)),
        ("streaming", f"{total:.1f} s of wall time in all, all seeds"),
    ]
    facts += [(key, among(key)) for key in ("machine", "versions")]
    made = commits(result["commit"] for result in results)
    if len(made) == 1:
        facts.append(("commit", next(iter(made))))
    else:
        facts.append(("commits", _each(made)))
    stamps = {str(result["numbers"]) for result in results}
    first = sorted(stamps)[:MOST_STAMPS]
    shown = "; ".join(first) if len(stamps) <= MOST_STAMPS else f"{'; '.join(first)}; ..."
    told = f"{pluralize(len(stamps), 'stamp')} of code and data, numbers in result.json: {shown}"
    facts.append(("sources", told))
    return facts


def commits(found: Iterable[str | None]) -> dict[str, int]:
    """Commits as runs store them, in words, and how often each comes."""
    return dict(Counter(commit_text(commit) for commit in found))


def commit_text(commit: str | None) -> str:
    """ "1a2b3c (clean tree)"; a run marks a commit with changes on top of it by a + at its end."""
    if commit is None:
        return "no commit (outside a checkout)"
    if commit.endswith("+"):
        return f"{commit.removesuffix('+')} with uncommitted changes"
    return f"{commit} (clean tree)"


def origin_text(runs: Sequence[Run]) -> str:
    """One sentence: that all runs are of one commit with a clean tree, or what they are of."""
    made = commits(run.result["commit"] for run in runs)
    (first, n), *others = made.items()
    if not others and first.endswith("(clean tree)"):
        commit = first.removesuffix(" (clean tree)")
        return f"All {n} runs were made at commit {commit} with a clean tree."
    return (
        "These numbers are not those of one commit with a clean tree, so no checkout is sure to "
        f"give all of them again. {_each(made)}."
    )


def _each(made: Mapping[str, int]) -> str:
    return "; ".join(f"{text}: {pluralize(n, 'run')}" for text, n in made.items())


def _seeds_text(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"1 seed ({seeds[0]})"
    return f"{len(seeds)} seeds ({seeds[0]}..{seeds[-1]})"


def settings_text(table: Table) -> str:
    """Overrides that hold in most cells, and the seeds."""
    specs = [spec for line in table.specs for spec in line]
    every = dict.fromkeys(o for spec in specs for o in spec.overrides)
    common = [o for o in every if 2 * sum(o in spec.overrides for spec in specs) > len(specs)]
    seeds = max(spec.seeds for spec in specs)
    return f"{', '.join(common)}, {seeds} seeds, mean ± std over the seeds"


def facts_of(filled: Filled) -> list[tuple[str, str]]:
    return [("settings", settings_text(filled.table)), *provenance(filled.runs)]
