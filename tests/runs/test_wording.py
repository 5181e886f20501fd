import pytest

from omkl.utils.wording import pluralize


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [
        (1, "seed", "1 seed"),
        (0, "run", "0 runs"),
        (1204, "row", "1,204 rows"),
        (1, "row without a label", "1 row without a label"),
        (2, "row without a label", "2 rows without a label"),
    ],
)
def test_one_has_no_plural(number, noun, said):
    assert pluralize(number, noun) == said
