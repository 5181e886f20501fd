"""Numbers drawn in compiled code are those of NumPy."""

import numpy as np
import pytest

from omkl.core.compiler import for_this_process
from omkl.core.rng import Uniform, uniform


def fill(rng, out):
    for i in range(out.shape[0]):
        out[i] = rng.random()


@pytest.mark.parametrize("seed", [0, 7, 2**63])
def test_draws_what_numpy_draws(seed):
    theirs = np.random.default_rng(seed).random(2000)
    plain, ours = np.empty(2000), np.empty(2000)
    fill(uniform(np.random.default_rng(seed)), plain)
    for_this_process(fill)(uniform(np.random.default_rng(seed)), ours)
    assert plain.tolist() == ours.tolist() == theirs.tolist()


def test_goes_on_where_the_generator_is():
    theirs = np.random.default_rng(3)
    theirs.random(5)
    ours = uniform(theirs)
    assert [ours.random() for _ in range(4)] == theirs.random(4).tolist()


@pytest.mark.parametrize("words", [0, 2**64 - 1])
def test_all_bits_equal_in_plain_python_and_compiled(words):
    """Carries from word to word, and a turn by 0 bits."""
    plain, ours = (Uniform(np.full(4, words, dtype=np.uint64)) for _ in range(2))
    said, compiled = np.empty(50), np.empty(50)
    fill(plain, said)
    for_this_process(fill)(ours, compiled)
    assert said.tolist() == compiled.tolist()
    assert plain.state.tolist() == ours.state.tolist()


def test_another_generator_is_refused():
    with pytest.raises(ValueError, match="PCG64 is needed; got Philox"):
        uniform(np.random.Generator(np.random.Philox(1)))
