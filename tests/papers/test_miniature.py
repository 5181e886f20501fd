"""``omkl-report run NAME`` for every table, cut to seconds.

Of a table there is one cell: of those with the most variants the first whose data are found, and
where none are, synthetic rows stand in, with no published number. Of its sweeps there is one run
each.
"""

import contextlib
import functools
import io
from collections.abc import Iterable
from dataclasses import replace

import pytest

from omkl import papers
from omkl.commands import report
from omkl.datasets import catalogue
from omkl.papers import matching, page, tables
from omkl.runs.run_folder import find

pytestmark = pytest.mark.slow
ROWS = 30
SMALL = [f"stream.limit={ROWS}", "D=4"]
FEDERATION = ["federation=iid", "clients=2", "federation.rounds=10"]


@functools.cache
def found(dataset: str) -> bool:
    entry = catalogue.entry(dataset)
    here = "file" not in entry or catalogue.locate(entry["file"]) is not None
    if not here:
        print(f"{entry['file']} of {dataset} is in no data folder")
    return here


def small(overrides: Iterable[str], dataset: str) -> tuple[str, ...]:
    """Overrides of few rows; those that only the real data or a whole federation can have go."""
    gone = {"federation", "clients", "dataset" if dataset == "synthetic" else "federation"}
    by_key = {text.lstrip("+").partition("=")[0]: text for text in overrides}
    kept = {key: text for key, text in by_key.items() if key.partition(".")[0] not in gone}
    more = [*SMALL, *(FEDERATION if "federation" in by_key else [])]
    return tuple((kept | {text.partition("=")[0]: text for text in more}).values())


def small_spec(spec: tables.Spec) -> tables.Spec:
    there = found(spec.dataset)
    dataset = spec.dataset if there else "synthetic"
    variants = {
        key: replace(variant, overrides=small(variant.overrides, dataset))
        for key, variant in spec.variants.items()
    }
    more = {"dataset": dataset, "seeds": 1, "variants": variants}
    return replace(spec, **more) if there else replace(spec, published=None, **more)


def small_table(table: tables.Table) -> tables.Table:
    cells = [(i, j) for i in range(len(table.rows)) for j in range(len(table.columns))]

    def worth(cell: tuple[int, int]) -> tuple[int, bool]:
        spec = table.specs[cell[0]][cell[1]]
        return len([v for v in spec.variants.values() if v.algorithm]), found(spec.dataset)

    i, j = max(cells, key=worth)
    sweeps = []
    for sweep in table.sweeps:
        dataset = sweep.dataset if found(sweep.dataset) else "synthetic"
        variant = sweep.variants[0]
        variant = replace(variant, overrides=small(variant.overrides, dataset))
        sweeps.append(tables.Sweep(dataset, 1, (variant,)))
    return replace(
        table,
        rows=table.rows[i : i + 1],
        columns=table.columns[j : j + 1],
        specs=((small_spec(table.specs[i][j]),),),
        footnotes=(),
        sweeps=tuple(sweeps),
    )


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """All tables in one call, as its arguments name them; the call's exit code and text."""
    outputs, whole, text = tmp_path_factory.mktemp("outputs"), tables.load_table, io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(text):
        patch.setattr(tables, "load_table", functools.cache(lambda n: small_table(whole(n))))
        patch.setattr(page, "build", lambda *_: [outputs])  # test_page.py
        patch.setenv("OMKL_THREADS", "1")  # tests/experiment/test_queue.py has the processes
        code = report.main(["run", *papers.names("table"), "--outputs", str(outputs)])
    return outputs, code, text.getvalue()


@pytest.mark.parametrize("name", papers.names("table"))
def test_table(name, outputs):
    folder, _, told = outputs
    table = small_table(tables.load_table(name))
    filled = matching.fill(table, find(folder))
    ((cell,),) = filled.cells
    assert cell.entries.keys() == table.specs[0][0].variants.keys()
    for entry in cell.entries.values():
        assert entry.run is not None and entry.run.complete, (entry, told)
        assert entry.run.result["seeds"] == [0] and entry.run.result["n_rounds"] <= ROWS
    assert len(filled.swept) == len(table.sweeps), told
    assert table.title in (folder / "tables" / f"{name}.md").read_text()


def test_all_went_well(outputs):
    folder, code, told = outputs
    assert code == 0 and "failed" not in told, told
    assert all(run.complete for run in find(folder))
