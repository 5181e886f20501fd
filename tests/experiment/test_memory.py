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


def test_rows_that_exact_kernels_keep_count(monkeypatch):
    """60 rows with 17 kernels and 5 inputs are 10 kB, a million rows 176 MB, beside 3 MB."""
    monkeypatch.setattr(memory, "usable_bytes", lambda: 10**8)
    runner.prepare(compose([*SMALL, "algorithm=omkr"]))
    with pytest.raises(ValueError, match=r"exact kernels keep all of 1,000,000 rows .*17 kernels"):
        runner.prepare(compose([*SMALL, "algorithm=omkr", "dataset.rows=1000000"]))


@pytest.mark.parametrize(
    ("membership", "limits", "least"),
    [
        ("0::/jobs/mine", {"memory.max": "900", "jobs/mine/memory.max": "max"}, 900),
        ("0::/jobs/mine", {"jobs/memory.max": "500", "jobs/mine/memory.max": "700"}, 500),
        ("0::/of/the/host", {"memory.max": "300"}, 300),
        ("0::/jobs", {}, None),
    ],
)
def test_the_least_limit_of_the_own_cgroup_and_those_above_it_counts(
    tmp_path, membership, limits, least
):
    (tmp_path / "cgroup").write_text(f"{membership}\n")
    for name, limit in limits.items():
        path = tmp_path / "mounted" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{limit}\n")
    found = memory._cgroup_limits(tmp_path / "cgroup", tmp_path / "mounted")
    assert min(found, default=None) == least
