"""The pages of the gallery are run in miniature, and the site has a place for every page."""

import ast
import re
from pathlib import Path

import pytest
from pages import capabilities, cards, gallery

from omkl import algorithms, federated

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ROWS = 150


@pytest.mark.parametrize("name", [n for n in gallery.SCRIPTS if n != "write_an_algorithm"])
def test_a_page_in_miniature(name):
    if name == "serve_a_model":
        pytest.importorskip("uvicorn", reason="the extra docs is not installed")
    ran = gallery.run(name, ROWS)
    page, figures = gallery.page(name, ran)
    assert sum(bool(one.printed.strip()) for one in ran) >= 1 and len(figures) >= 1
    assert all(f"({file})" in page and data[:4] == b"\x89PNG" for file, data in figures.items())


def test_the_page_of_an_own_algorithm_in_miniature():
    """In plain Python: what is compiled of modules outside the package is not kept."""
    ran = gallery.run_alone("write_an_algorithm", 30, NUMBA_DISABLE_JIT="1")
    assert "Fixed share" in ran[-2].printed and "def update(params, state" in ran[1].printed
    assert len(ran[-2].figures) == 1


def test_a_card_has_the_box_and_the_parameters():
    curve = cards.curve("gf")
    card = cards.card("gf", curve)
    assert curve.values[-1] == pytest.approx(0.0547888, rel=1e-5), "the golden number"
    assert b"<svg" in cards.picture(curve)
    assert curve.comparator == "linear ridge" and curve.compared[-1] != curve.values[-1]
    assert "**When to take it:** the dictionary is large" in card
    for heading in cards.box("gf"):
        assert f"\n## {heading}\n" in card
    assert "u_j is the sum of w over the kernels of node j, and U the sum of the u_j. Draw" in card
    assert "| `algorithm.freeze` | `300` |" in card
    assert "[OMKC DA-P(1)](../omkc_da_p1.md)" in cards.card("rf/omkc_da_p1", curve)


def test_every_script_is_a_page_and_says_how_much_it_computes():
    assert {path.stem for path in gallery.FOLDER.glob("*.py")} == set(gallery.SCRIPTS)
    listed = re.findall(r"\]\((\w+)\.py\)", (DOCS / "gallery" / "README.md").read_text("utf-8"))
    assert tuple(listed) == gallery.SCRIPTS
    for name in gallery.SCRIPTS:
        text = (gallery.FOLDER / f"{name}.py").read_text(encoding="utf-8")
        numbers = [
            ast.literal_eval(node.value)
            for node in ast.parse(text).body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROWS"
        ]
        assert len(numbers) == 1 and numbers[0] > ROWS, name


def test_the_table_of_capabilities_has_what_the_boxes_and_the_program_say():
    rows = re.findall(r"^\| \[.*?`(\S+)` \| (.*) \|$", capabilities.page(), re.MULTILINE)
    own = [name for name in algorithms.names() if "/" not in name]
    assert [name for name, _ in rows] == [*own, *federated.names(), *own]
    needs, supports = dict(rows[: len(own)]), dict(rows[-len(own) :])
    assert needs["gf"].startswith("partial (at most M per row) | O(M D d + J M) | O(N D d + J N) |")
    assert needs["gf"].endswith("| theorem 2: O(sqrt(N ln N) T^(3/4)), unproved for M &gt; 1")
    assert needs["sfg_mkl_r"].split(" | ")[1:3] == needs["sfg_r"].split(" | ")[1:3]  # "as ..."
    assert needs["amkl"].startswith("on request | ") and needs["amkl"].endswith("| none")
    assert all(cell for line in dict(rows[: -len(own)]).values() for cell in line.split(" | "))
    of_panels = {name for name, line in supports.items() if line.split(" | ")[3] == "✓"}
    assert {"raker", "vaw2", "mean"} <= of_panels and not {"auto", "gf", "amkl"} & of_panels
    assert supports["auto_classifier"].startswith("K together")
