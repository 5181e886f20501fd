"""One table: printed on a terminal, and as Markdown, LaTeX and HTML."""

import io

import pytest
from rich.console import Console

from omkl.report import page
from omkl.report.page import Code, Curves, Facts, Fold, Heading, Items, Links, Picture, Text
from omkl.report.tables import Cell, Table

# The papers' table: a row of two lines in a group, a star, a verdict, notes, an absent learner.
TABLE = Table(
    ["", "kernels\n/ round", Cell("x<y", marks=(1,))],
    [
        ["a_b", Cell("1.5 ± 0.2", bold=True, remark="2 %, close", kind="fair"), None],
        ["c", Cell("absent", span=2), ""],
        ["d", 3, Cell("2", marks=(1, 2))],
    ],
    groups={0},
    notes=["one & two", "three"],
    remarks=["below"],
    kinds={2: "baseline"},
)


def printed(table: Table, width: int = 80) -> list[str]:
    stream = io.StringIO()
    table.print(Console(file=stream, width=width))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_numbers_are_texts_and_what_is_not_there_is_blank():
    table = Table(["learner", "MSE"], [["Raker", 12.5], ["AMKL", float("nan")]])
    assert table.markdown().splitlines() == [
        "| learner |  MSE |",
        "| ------- | ---: |",
        "| Raker   | 12.5 |",
        "| AMKL    |      |",
    ]


def test_a_terminal_shows_lines_groups_and_stars():
    assert printed(TABLE) == [
        "         kernels",
        "         / round  x<y",
        "───  ───────────  ───",
        "a_b  1.5 ± 0.2 *",
        "",
        "c       absent",
        "d            3      2",
    ]


def test_markdown_escapes_texts_and_numbers_notes():
    lines = TABLE.markdown().splitlines()
    assert lines[0].split(" | ")[1:] == ["            kernels / round", "x\\<y <sup>1</sup> |"]
    assert "| a\\_b | **1.5 ± 0.2**<br>2 %, close |" in lines[2]
    assert lines[-4:] == ["below", "", "1. one & two", "2. three"]


def test_latex():
    assert TABLE.latex().split("\\\\\n") == [
        "\\begin{tabular}{lrr}\n\\toprule\n & kernels / round & x\\textless{}y$^{1}$ ",
        "\\midrule\na\\_b & \\textbf{1.5 $\\pm$ 0.2} &  ",
        " & \\emph{2 \\%, close} &  ",
        "\\addlinespace\nc & \\multicolumn{2}{c}{absent} ",
        "d & 3 & 2$^{1,2}$ ",
        "\\bottomrule\n\\end{tabular}",
    ]


def test_html_has_classes_and_links_to_notes():
    html = TABLE.html()
    assert '<td class="fair best">1.5 ± 0.2<span>2 %, close</span></td>' in html
    assert 'colspan="2">absent</td></tr>' in html and '<tr class="baseline last">' in html
    assert '<a href="#table-note2">2</a>' in html and '<li id="table-note2">three</li>' in html
    assert "x&lt;y" in html and "one &amp; two" in html


WIDE = Table(
    ["name", "MSE", "seconds", "seeds"],
    [["a_very_long_name_of_a_learner", "1.00 ± 0.25", 0.1, 5], ["short", "12.00", 0.2, 5]],
    worth={2: 2, 3: 1},
    shortest={0: 6},
)


@pytest.mark.parametrize(
    ("width", "left_out", "name"),
    [
        (80, [], "a_very_long_name_of_a_learner"),
        (55, [], "a_very_long_name_…_learner"),
        (50, ["seeds"], "a_very_long_name_o…a_learner"),
        (40, ["seeds", "seconds"], "a_very_long_name_o…_learner"),
        (20, ["seeds", "seconds"], "a_ve…er"),
    ],
)
def test_long_names_are_shortened_and_what_says_least_is_left_out(width, left_out, name):
    fitted, names = WIDE.fit(width)
    assert names == left_out and fitted.width <= width
    assert fitted.cells[0][0].text == name
    assert fitted.cells[0][1].text == "1.00 ± 0.25", "numbers stay whole"
    assert max(map(len, printed(WIDE, width))) <= width


def test_a_page_in_each_form(tmp_path):
    (tmp_path / "a.png").write_bytes(b"png")
    parts = [
        Heading("Results"),
        Text("**Bold** and `code` <i>", markup=True),
        Items(["one", "two"]),
        Facts([("seeds", "3")]),
        Links([("All papers", "README"), ("Errata", "../errata.md")]),
        TABLE,
        Picture(tmp_path / "a.png", "A picture"),
        Picture(tmp_path / "a.png", "Another", embedded=False),
        Fold("more", [Code("omkl-run")]),
        Curves("naval", {"changes": [], "views": ["</script>"]}),
    ]
    html = page.html_page("A & B", parts)
    for text in (
        "<title>A &amp; B</title>", "<p><b>Bold</b> and <code>code</code> &lt;i&gt;</p>",
        '<a href="index.html">All papers</a>', 'src="data:image/png;base64,cG5n"', 'src="a.png"',
        "<details><summary>more</summary>", "<pre>omkl-run</pre>", '<div data-set="naval">',
        "\\u003c/script>", "function draw(", "<dt>seeds</dt><dd>3</dd>",
    ):  # fmt: skip
        assert text in html
    markdown = page.markdown_page("A & B", parts)
    for text in ("# A & B\n\n## Results\n", "- one\n- two", "[All papers](README.md)",
                 "![A picture](a.png)", "```sh\nomkl-run\n```", TABLE.markdown()):  # fmt: skip
        assert text in markdown
    latex = page.latex_tables(parts)
    assert latex.startswith("% needs") and f"% Results\n{TABLE.latex()}" in latex
