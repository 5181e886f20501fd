"""The variants of the papers' learners: conformance, golden numbers, and what sets them apart."""

from pathlib import Path

import numpy as np
import pytest
import variants

from omkl.checks import federations, learners
from omkl.utils import conf, registry
from tests.algorithms import test_second_order as second_order
from tests.algorithms.test_paper_steps import LAM, require_rfomkr
from tests.test_conformance import require_conformance
from tests.test_golden import require_golden

GOLDEN = Path(__file__).parent / "golden"
NAMES = variants.names()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_conformance(name):
    suite = federations if registry.is_federated(name) else learners
    require_conformance(suite, name, suite.CHECKS)


@pytest.mark.parametrize("name", NAMES)
def test_golden(name):
    require_golden(name, GOLDEN / f"{name}.json")


def test_every_golden_file_belongs_to_a_variant():
    files = [path.relative_to(GOLDEN).with_suffix("").as_posix() for path in GOLDEN.rglob("*.json")]
    assert sorted(files) == sorted(NAMES)


def test_every_variant_has_a_yaml_and_a_title_of_its_own():
    assert set(NAMES) <= set(conf.names("algorithm"))
    titles = {registry.title(name) for name in NAMES}
    assert len(titles) == len(NAMES) and "OMKL-GF (as released)" in titles


@pytest.mark.parametrize("lam", [0.0, LAM])
def test_weights_of_the_released_rfomkr_are_not_normalised(lam):
    require_rfomkr("as_released/rfomkr", normalised=False, lam=lam)


def test_the_notebook_of_vaw2_predicts_before_it_takes_the_row_in():
    lam, lam2, Y = 0.3, 0.7, second_order.Y
    ours = second_order.learner("as_released/vaw2", lam=lam, lam2=lam2)
    features = second_order.all_features(ours)
    F = np.column_stack(
        [[Z[t] @ second_order.ridge(Z, Y, lam, t) for t in range(len(Y))] for Z in features]
    )
    expected = [F[t] @ second_order.ridge(F, Y, lam2, t) for t in range(len(Y))]
    second_order.require_equal(ours, expected)
