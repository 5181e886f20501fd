"""Settings that mean the same are one run: one key, found finished."""

import shlex

import numpy as np
import pytest

from omkl.config import settings
from omkl.experiment.job import prepare_learner
from tests.compositions import compose

AUTO_CLASSIFIER = "algorithm=auto_classifier task=classification dataset.target=c"
PARTS = "kernels.parts=[{{family:gaussian,bandwidth:[{}]}}]"
SAME = [
    ("algorithm.lam=0", "algorithm.lam=0.0"),
    ("algorithm.eta=1", "algorithm.eta=1.0"),
    ("algorithm.eta=\"'1'\"", "algorithm.eta=1.0"),
    ("regret.lam=1", "regret.lam=1.0"),
    (PARTS.format(1), PARTS.format("1.0")),
    ("algorithm=auto D=8", "algorithm=auto"),
    (f"{AUTO_CLASSIFIER} D=8", AUTO_CLASSIFIER),
    # What is off, only describes, or is shorter than it may be leaves no trace.
    *((off, "") for off in ("stream.limit=30", "stream.limit=1000", "stream.lags=0")),
    *((off, "") for off in ("stream.delay=0", "stream.horizon=0", "interval=null", "features=rff")),
    *((off, "") for off in ("stream.scaling=columns", "block=7 threads=2")),
    ("dataset.title=Another dataset.notes=none", ""),
    ("dataset.path={folder}/copy.csv", ""),
]
OTHERS = (
    *("", "D=8", "seed=1", "algorithm.eta=0.3", "stream.limit=29", "stream.lags=1"),
    *("stream.scaling=whole", "stream.delay=1", "interval=0.9", "interval=0.9 interval_rate=0.1"),
    *("predictions=true", "features=orthogonal", "features=qmc", "dataset.path={folder}/copy.txt"),
)


@pytest.fixture
def key(tmp_path):
    """key(typed): of Raker on a file of 30 rows, unless another learner is typed."""
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{a + b:.3f},{'pq'[int(a > 0)]}" for a, b in rng.normal(size=(30, 2))]
    for name in ("t.csv", "copy.csv", "copy.txt"):
        (tmp_path / name).write_text("\n".join(["a,y,c", *rows]) + "\n")
    own = ["dataset=file", f"dataset.path={tmp_path}/t.csv", "dataset.target=y", "algorithm=raker"]

    def key(typed):
        more = shlex.split(typed.replace("{folder}", str(tmp_path)))
        job = prepare_learner(settings.complete(compose([*own, "kernels=gaussian17", *more])))
        return job.settings.name

    return key


@pytest.mark.parametrize(("first", "second"), SAME)
def test_settings_that_say_the_same_have_one_key(key, first, second):
    assert key(first) == key(second)


def test_settings_that_say_something_else_have_others(key):
    assert len({key(typed) for typed in OTHERS}) == len(OTHERS)


def test_data_sets_of_the_catalogue_and_files_that_nobody_read_have_a_key_too():
    for dataset in (["dataset=naval"], ["dataset=file", "dataset.path=no.csv"]):
        name = compose([*dataset, "algorithm=gf"]).name
        assert name.startswith("gf-") and len(name) == 15
