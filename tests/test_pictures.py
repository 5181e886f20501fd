"""README's pictures show what README says: they are drawn from its numbers by a script."""

import json
from pathlib import Path

import pytest
from PIL import Image

from scripts.pages import pictures

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
TABLE = """
## How good is it?
| | geometric mean | worst stream | µs per row |
|---|---|---|---|
| `auto` | 0.30 | 1.01 | 94 |
| best of River: a forest | 1.00 | 3.8 | 1,029 |
| the papers' learners | 1.25 to 2.5 | 62 to 556 | 2.4 to 23 |
## Next
"""


def test_the_table_is_drawn():
    rows = pictures.table_of(TABLE)
    names, means, worst = zip(*rows, strict=True)
    assert names == ("auto", "River: a forest", "the papers' learners")
    assert means == ((0.3,), (1.0,), (1.25, 2.5)) and worst[2] == (62.0, 556.0)
    (axes,) = pictures.draw_ranking(rows).axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == list(names)
    marked = [line for line in axes.get_lines() if line.get_marker() == "o"]
    drawn = [tuple(line.get_xdata()) for line in marked]
    assert drawn == [values for row in rows for values in (row.worst, row.mean)]
    assert [line.get_ydata()[0] for line in marked] == [0, 0, 1, 1, 2, 2]
    with pytest.raises(ValueError, match="no table"):
        pictures.table_of("## How good is it?\nVery.\n")


def test_the_picture_that_readme_shows_is_of_its_table():
    """A number that is changed there needs ``python scripts/pages/pictures.py``."""
    rows = pictures.table_of(README)
    assert "docs/images/ranking.png" in README and 5 <= len(rows) <= 8
    with Image.open(pictures.RANKING) as image:
        shown = json.loads(image.info["Description"])
    assert shown == json.loads(json.dumps(rows))
