"""What does not fit into the machine is told before the first round."""

import pytest

from omkl import algorithms
from omkl.checks import learners
from omkl.core import hyperparameters, kernels
from omkl.experiment import memory
from omkl.experiment import run as runner
from omkl.utils import conf
from tests.compositions import compose
from tests.learners import one_of_each_representation

SMALL = ("dataset.rows=60", "kernels=gaussian17", "tracking=none", "figures=false")


@pytest.mark.parametrize("name", one_of_each_representation())
def test_bytes_of_a_model_are_foretold_from_small_ones(name):
    dictionary = kernels.dictionary(conf.entry("kernels", "gauss13"))
    algorithm, sizes = algorithms.load(name), {"N": len(dictionary), "D": 40}
    params = hyperparameters.build(algorithm.Params, learners.default_settings(name), 100, sizes)
    used = algorithm.kernels(params, dictionary, 7)
    made = algorithm.representation.fresh(params, used, 7, 40, 0)
    told = memory.model_bytes(algorithm.representation, params, used, 7, 40)
    assert told == memory.bytes_of(made) > 0


@pytest.mark.parametrize(
    "overrides",
    [
        ["D=1000000", "seeds=10000"],
        ["D=1000000", "algorithm=ie_gp"],
        ["seeds=10000", "block=1000000", "dataset.rows=1000000", "stream.scaling=none"],
        ["algorithm=budget/omkc_da_o", "task=classification", "algorithm.budget=100000"],
        ["algorithm=pof_mkl", "federation=iid", "clients=3", "max_upload=null", "D=1000000"],
    ],
)
def test_more_than_the_machine_has_is_refused_by_its_keys(monkeypatch, overrides):
    monkeypatch.setattr(memory, "usable_bytes", lambda: 10**8)
    config = compose([*SMALL, *overrides])
    with pytest.raises(
        ValueError, match=r"D=\d+ .*seeds=\d+ and block=\d+ takes at least [\d,.]+ GB, and"
    ):
        runner.prepare(config)


def test_the_machine_says_how_much_it_has():
    assert 10**8 < memory.usable_bytes() < 10**16
