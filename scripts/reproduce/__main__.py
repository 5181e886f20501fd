"""Run published tables, and evaluate theorems; ``make reproduce-tables`` and ``make table``.

python -m reproduce run [TABLE ...]    run what tables need, print them; all: write the pages
python -m reproduce theorems           the theorems of the papers about finished runs
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from omkl.report import naming
from omkl.runs.run_folder import find
from omkl.utils.disk import write_atomically
from reproduce import omkc, pages, results, tables, theorems


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        "python -m reproduce", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("command", choices=["run", "theorems"])
    parser.add_argument(
        "tables", nargs="*", help=f"of run: {', '.join(tables.names())}; default: all"
    )
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="default: outputs")
    parser.add_argument("--page", type=Path, help="folder of the pages; default: OUTPUTS/page")
    given = parser.parse_args(arguments)
    try:
        if given.command == "theorems":
            return _theorems(given.outputs)
        return _run(given.tables, given.outputs, given.page or given.outputs / "page")
    except ValueError as error:
        print(f"reproduce: {error}", file=sys.stderr)
        return 2


def _run(names: list[str], outputs: Path, page: Path) -> int:
    chosen = [tables.load(name) for name in names or tables.names()]
    runs = results.run_jobs(chosen, outputs)
    failed = [run for run in runs.values() if not run.complete]
    if names:
        (outputs / "tables").mkdir(parents=True, exist_ok=True)
        titles = {paper["paper"]: paper["name"] for paper in pages.papers()}
        for table in chosen:
            cells = results.fill(table, runs)
            heading = f"# {pages.name_of(titles.get(table.paper, table.paper), table)}"
            parts = [
                part for judged in (True, False) for part in pages.table_parts(table, cells, judged)
            ]
            text, rules = "\n\n".join([heading, *parts]), f"\n\n{pages.VERDICTS}"
            if table.name == omkc.TABLE:
                text, rules = omkc.page(table, runs, parts), ""
            write_atomically(outputs / "tables" / f"{table.name}.md", f"{text}{rules}\n")
            write_atomically(outputs / "tables" / f"{table.name}.csv", pages.csv(cells))
            Console().print(Markdown(text.replace("<br>", ", ")))
            print(outputs / "tables" / f"{table.name}.md")
    else:
        print(pages.write(chosen, runs, page)[-1].parent / "README.md")
    return int(any(results.verdict_of_failure(run) == "failed" for run in failed))


def _theorems(outputs: Path) -> int:
    runs = [run for run in find(outputs) if run.complete]
    if not runs:
        raise ValueError(f"there are no finished runs in {outputs / 'runs'}")
    for run in runs:
        title = f"{naming.name_of(run)} on {run.result['dataset']}"
        try:
            found = theorems.of_run(run)
        except ValueError as error:
            print(f"{title}: not evaluated: {error}")
            continue
        for one in found:
            note = f" ({one.note})" if one.note else ""
            print(
                f"{title}: {one.name}: {one.of} {one.measured:,.1f}, at most {one.bound:,.1f}{note}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
