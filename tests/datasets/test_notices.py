"""What is said of rows whose errors mislead: their order, copies, giveaways and new categories."""

import numpy as np
import pandas as pd
import pytest

from omkl.datasets import open_stream, read
from tests.datasets.helpers import COLUMNS, RAW, collect, own

N = 400
RNG = np.random.default_rng(0)
A, B, NOISE = RNG.normal(size=(3, N))
DAYS = pd.date_range("2024-01-01", periods=N).strftime("%Y-%m-%d")


def told(tmp_path, frame: pd.DataFrame, options=COLUMNS, **keys) -> list[str]:
    frame.to_csv(tmp_path / "t.csv", index=False)
    stream = open_stream(own(tmp_path / "t.csv", **keys), options)
    collect(stream)
    return stream.notices


def table(**columns) -> pd.DataFrame:
    return pd.DataFrame({"a": A, "b": B, "y": A + B + NOISE}).assign(**columns)


def test_nothing_is_said_of_rows_in_order(tmp_path):
    assert told(tmp_path, table(day=DAYS)) == []
    night = pd.date_range("2024-10-26", periods=N, freq="h", tz="Europe/Berlin").tz_localize(None)
    assert told(tmp_path, table(hour=night)) == [], "clocks go back by an hour"


def test_rows_that_run_backwards_in_time_are_named(tmp_path):
    (notice,) = told(tmp_path, table(day=DAYS[::-1]))
    assert notice.startswith("the rows run backwards in time by day, so that")
    (notice,) = told(tmp_path, table(day=[*DAYS[:300], *DAYS[:100]]))
    assert notice.startswith("day goes back in time 1 time, first at row 301.")
    assert "dataset.series=COLUMN" in notice
    (notice,) = told(tmp_path, table(day=RNG.permutation(DAYS)))
    assert notice.startswith("day goes back in time ")
    shuffled = RAW | {"order": "shuffled"}
    assert told(tmp_path, table(day=DAYS[::-1]), shuffled) == []


def test_dates_of_equally_many_rows_may_be_series(tmp_path):
    (notice,) = told(tmp_path, table(day=np.repeat(DAYS[: N // 4], 4)))
    assert notice.startswith("each day has 4 rows: if these are 4 series, name their column")
    assert told(tmp_path, table(day=np.sort(RNG.choice(DAYS[:99], N)))) == []


def test_copies_of_rows_are_counted(tmp_path):
    twice = pd.concat([table()[:200]] * 2)
    (notice,) = told(tmp_path, twice)
    assert notice.startswith("200 of the first 400 rows are copies of earlier ones")
    few = table(a=np.arange(N) % 3, b=np.arange(N) % 2, y=np.arange(N) % 4)
    assert told(tmp_path, few) == [], "few different values make equal rows"


def test_inputs_that_determine_the_target_are_named(tmp_path):
    (notice,) = told(tmp_path, table(y=A + 0.1 * NOISE))
    assert notice == (
        "a explains 99 % of the target: is it known before the target? If not, leave out: "
        "'exclude=[a]'."
    )
    (notice,) = told(tmp_path, table(y=3 * A + B))
    assert notice.startswith("a and b explain 100 % of the target: are they known before")
    assert told(tmp_path, table(y=3 * A + B), exclude=["a"]) == []
    walk = np.cumsum(A)
    yesterday = table(a=np.append(0, walk[:-1]), y=walk)
    assert told(tmp_path, yesterday) == [], "the target before is known"


def test_new_categories_are_counted_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "CHUNK_ROWS", 300)
    town = ["Ulm", "Bonn"] * 150 + ["Ulm", "Rom", "Oslo", "Rom"] * 25
    (notice,) = told(tmp_path, table(town=town))
    assert notice == (
        "town has new categories in 75 rows: Rom (50), Oslo (25). They are 0 in all inputs of the "
        "column; columns='town: text' gives them inputs."
    )


@pytest.mark.parametrize("order", ["file", "shuffled"])
def test_a_second_pass_says_the_same(tmp_path, monkeypatch, order):
    monkeypatch.setattr(read, "CHUNK_ROWS", 300)
    table(town=["Ulm"] * 300 + ["Rom"] * 100).to_csv(tmp_path / "t.csv", index=False)
    stream = open_stream(own(tmp_path / "t.csv"), RAW | {"order": order})
    first = collect(stream) and stream.notices
    assert collect(stream) and stream.notices == first and "in 100 rows: Rom (100)." in first[0]
