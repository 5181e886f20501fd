"""Run folders that strangers made: whatever they hold, the others are shown."""

from __future__ import annotations

import copy
import itertools

import pytest

from omkl.commands import report
from omkl.experiment import run as runner
from omkl.runs import folder as run_folder
from tests.compositions import compose
from tests.conftest import make_run_folder

WRONG = {"text": "x\x1b[31mred", "huge": 10**400, "list": [1, "a"], "null": None, "map": {"a": 1}}


def places(value, at=()):
    """Where each value of a result is, and one of each list."""
    if at:
        yield at
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*at, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*at, 0))


def changed(value, at, new):
    value = copy.deepcopy(value)
    inner = value
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = new
    return value


KINDS = {
    "intervals": ["algorithm=ie_gp", "interval=0.9"],
    "classes": ["algorithm=omkc_da_p1", "task=classification", "kernels=gaussian17"],
    "federation": ["algorithm=pof_mkl", "federation=iid", "clients=3"],
}


@pytest.mark.slow(3)
@pytest.mark.parametrize("kind", KINDS)
def test_no_value_of_a_strangers_result_ends_a_table_or_hides_the_others(tmp_path, capsys, kind):
    """Sealed anew after each change, as a stranger can."""
    quick = ["seeds=2", "D=2", "figures=false", "tracking=none", "dataset.rows=60"]
    given = [*KINDS[kind], *quick, f"outputs={tmp_path}"]
    run = runner.run(compose(given)).run
    beside = make_run_folder(tmp_path, "gf", "synthetic")
    result = {key: value for key, value in run.result.items() if key != "seal"}
    ways = itertools.cycle(WRONG.values())
    for at in [*places(result), *places(result)]:  # two of the five ways each, in turn
        run_folder.write_result(run.folder, changed(result, at, next(ways)))
        assert report.main(["show", "--outputs", str(tmp_path)]) == 0, at
        out, err = capsys.readouterr()
        assert "OMKL-GF" in out and "\x1b" not in out + err, at
    assert beside.exists()
