"""The variants, and a transcript of the authors' code (numbers only) for tests that replay it.

The transcript is looked for in ``OMKL_ORACLE_DIR``, then in ``shared/oracle`` beside the checkout.
"""

import os
from pathlib import Path

import numpy as np
import pytest
import variants

from omkl.core.kernels import dictionary
from omkl.core.representations.random_features import blank
from omkl.utils import conf, outside
from tests.conftest import rows_of


@pytest.fixture(autouse=True)
def declared(monkeypatch):
    """The variants are declared in these tests alone."""
    monkeypatch.setattr(outside, "_declared", {})
    variants.declare()


def transcript(name):
    """The arrays of a file of the transcript; the test is skipped without it."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "oracle"
    path = Path(os.environ.get("OMKL_ORACLE_DIR") or beside) / name
    if not path.is_file():
        pytest.skip(f"{path.name} is not found; OMKL_ORACLE_DIR names its folder")
    with np.load(path) as arrays:
        return dict(arrays)


@pytest.fixture(scope="session")
def oracle():
    """1,503 rounds of the release on airfoil, with a correction of ours."""
    return transcript("airfoil_released.npz")


@pytest.fixture(scope="session")
def untouched():
    """Mean squared errors of the release's 20 repetitions, as it was published."""
    return transcript("released_untouched.npz")


@pytest.fixture(scope="session")
def airfoil():
    return rows_of("airfoil")


@pytest.fixture(scope="session")
def kernels():
    """The 76 kernels of the transcript."""
    return dictionary(conf.entry("kernels", "rbf51_lap25"))


@pytest.fixture
def recorded(oracle):
    """A fresh model on the recorded frequencies."""
    omega = oracle["omega"].transpose(0, 2, 1)  # theirs: feature, input
    model = blank(*omega.shape)
    model.omega[:] = omega
    return model
