"""Format the sections of a bench as Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omkl.report.naming import markdown_text
from omkl.report.tables import absent, padded_markdown
from omkl.utils.registry import title
from omkl.utils.wording import plain

Bench = Mapping[str, Any]


def number(x: float) -> str:
    """Write a number with three digits, or with all digits before the point."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def between(s: Sequence[float]) -> str:
    median, low, high = s
    return f"{number(median)} ({number(low)} to {number(high)})"


def machine(bench: Bench) -> str:
    about = bench["machine"]
    caches = ", ".join(f"level {k}: {size >> 10:,} KiB" for k, size in bench["caches"].items())
    versions = ", ".join(f"{name} {v}" for name, v in bench["versions"].items())
    return "\n".join(
        [
            f"- Processor: {about['processor']}, {about['cores']} cores; {about['system']}.",
            f"- Caches: {caches}.",
            f"- Versions: {versions}.",
            f"- Commit {bench['commit'] or 'unknown'}, {bench['started']}, "
            f"{bench['seconds'] / 60:.1f} minutes.",
        ]
    )


def limit_table(bench: Bench) -> str:
    found = bench["limits"]
    body = [
        ["s", "sine and cosine, polynomial alone", f"{found['sincos_ns']:.3f} ns"],
        ["e", "exponential and multiply-add", f"{found['exp_add_ns']:.3f} ns"],
        ["p", "multiply-add in registers", f"{found['peak_add_ns']:.4f} ns"],
        ["", "multiply-add of NumPy's matrix product", f"{found['product_add_ns']:.4f} ns"],
        ["c", "multiply-add on cached data, y += a x", f"{found['cached_add_ns']:.4f} ns"],
    ]
    for level in found["read_add"]:
        what = f"multiply-add reading one operand from {level['from']}"
        body.append(["r", what, f"{level['ns']:.4f} ns"])
    body += [
        ["", "memory, copy", f"{found['copy_gb_s']:.1f} GB/s"],
        ["", "memory, a = b + c x", f"{found['triad_gb_s']:.1f} GB/s"],
    ]
    return markdown_table(["", "one thread", "measured"], body, left=2)


def learner_table(bench: Bench) -> str:
    rows = bench["learners"]
    headings = ["algorithm", "kernels per row", "µs per row", "least", "measured / least"]
    body = []
    for row in rows:
        name = title(row["algorithm"])
        if "missing" in row:
            body.append([name, row["missing"], *[""] * (len(headings) - 2)])
            continue
        body.append(
            [
                name,
                f"{row['work']['evaluated']:.3g} ({row['kind'].split()[0]})",
                number(row["round_us"][0]),
                number(row["least_us"]) + (" (memory)" if row["set_by"] == "memory" else ""),
                between(row["ratio"]),
            ]
        )
    return markdown_table(headings, body, left=1)


def federated_table(bench: Bench) -> str:
    headings = ["algorithm", "D", "rows sent", "µs a client's round", "least", "measured / least"]
    body = [
        [
            title(row["algorithm"]),
            str(row["work"].get("D", "")),
            str(row["work"].get("learned", "")),
            number(row["round_us"][0]),
            number(row["least_us"]),
            between(row["ratio"]),
        ]
        for row in bench["federated"]
    ]
    return markdown_table(headings, body, left=1)


def run_table(bench: Bench) -> str:
    headings = ["run", "rows", "µs per row", "its learner alone", "run / learner", "run / pyarrow"]
    body = []
    for row in bench["runs"]:
        run, learner, pyarrow = row["run_us"], row["learner_us"], row["pyarrow_us"]
        ratios = [number(run / learner), number(run / pyarrow) if pyarrow else ""]
        body.append([row["kind"], f"{row['rows']:,}", number(run), number(learner), *ratios])
    return markdown_table(headings, body, left=1)


def markdown_table(headings: Sequence[Any], body: Iterable[Sequence[Any]], left: int = 1) -> str:
    """Return a Markdown table.

    Parameters
    ----------
    headings
        Texts of the first row.
    body
        Rows of cells; an absent cell is blank.
    left
        Number of first columns that are left-aligned.
    """
    lines = [["" if absent(cell) else markdown_text(plain(str(cell))) for cell in line]
             for line in (headings, *body)]  # fmt: skip
    return padded_markdown(lines[0], lines[1:], [i < left for i in range(len(headings))])
