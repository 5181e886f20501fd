"""Tables on a terminal and in Markdown."""

import io

import pytest
from benchmarks.tables import markdown_table
from rich.console import Console

from omkl.report.tables import Column, print_columns

COLUMNS = [
    Column("MSE", ["1.00 ± 0.25", "12.00"]),
    Column("name", ["a very long name of a learner", "[red]short"], is_name=True),
    Column("seconds", ["0.1", "0.2"], worth=2),
    Column("seeds", ["5", "5"], worth=1),
]


def test_markdown_is_padded_and_escapes_markup():
    table = markdown_table(["learner", "MSE"], [["a_b", 12.5], ["x|y", float("nan")]])
    assert table.splitlines() == [
        "| learner |  MSE |",
        "| ------- | ---: |",
        r"| a\_b    | 12.5 |",
        r"| x\|y    |      |",
    ]


@pytest.mark.parametrize(
    ("width", "left_out"), [(80, []), (54, []), (50, ["seeds"]), (39, ["seeds", "seconds"])]
)
def test_names_are_wrapped_and_columns_worth_least_are_left_out(width, left_out):
    stream = io.StringIO()
    assert print_columns(COLUMNS, Console(file=stream, width=width), [True]) == left_out
    text = stream.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert all(word in text for word in ("1.00 ± 0.25", "12.00", "learner", "[red]short"))
    assert ("\na very" in text) is False and ("very long name of a learner" in text) is (
        width == 80
    )
