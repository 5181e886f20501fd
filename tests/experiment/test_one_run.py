"""Settings that mean the same are one run: one key, found finished."""

import numpy as np
import pytest

from omkl.config import settings
from omkl.experiment import run as runner
from omkl.experiment.job import prepare_learner
from omkl.runs import writing
from tests.compositions import compose


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (["algorithm=raker", "algorithm.lam=0"], ["algorithm=raker", "algorithm.lam=0.0"], True),
        (["algorithm=raker", "algorithm.eta=1"], ["algorithm=raker", "algorithm.eta=1.0"], True),
        (["algorithm=raker", "algorithm.eta='1'"], ["algorithm=raker", "algorithm.eta=1.0"], True),
        (["algorithm=raker", "regret.lam=1"], ["algorithm=raker", "regret.lam=1.0"], True),
        (["algorithm=raker", "kernels.parts=[{family: gaussian, bandwidth: [1]}]"],
         ["algorithm=raker", "kernels.parts=[{family: gaussian, bandwidth: [1.0]}]"], True),
        (["algorithm=auto", "D=8"], ["algorithm=auto"], True),
        (["algorithm=auto_classifier", "D=8", "task=classification", "dataset.target=c"],
         ["algorithm=auto_classifier", "task=classification", "dataset.target=c"], True),
        (["algorithm=raker", "D=8"], ["algorithm=raker"], False),
        (["algorithm=raker", "stream.limit=30"], ["algorithm=raker"], True),
        (["algorithm=raker", "stream.limit=1000"], ["algorithm=raker"], True),
        (["algorithm=raker", "stream.limit=29"], ["algorithm=raker"], False),
        (["algorithm=raker", "dataset.path={folder}/copy.csv"], ["algorithm=raker"], True),
        (["algorithm=raker", "dataset.path={folder}/copy.txt"], ["algorithm=raker"], False),
    ],
)  # fmt: skip
def test_settings_that_say_the_same_have_one_key(tmp_path, first, second, same):
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{a + b:.3f},{'pq'[int(a > 0)]}" for a, b in rng.normal(size=(30, 2))]
    for name in ("t.csv", "copy.csv", "copy.txt"):
        (tmp_path / name).write_text("\n".join(["a,y,c", *rows]) + "\n")
    own = ["dataset=file", f"dataset.path={tmp_path}/t.csv", "dataset.target=y"]
    both = [[text.format(folder=tmp_path) if "{folder}" in text else text for text in given]
            for given in (first, second)]  # fmt: skip
    given = [compose([*own, "kernels=gaussian17", *more]) for more in both]
    jobs = [prepare_learner(settings.read(config)) for config in given]
    keys = {writing.folder_of(job.settings.config).name for job in jobs}
    assert (len(keys) == 1) == same


def test_a_copy_of_a_file_finds_the_run_of_the_file(tmp_path):
    for name in ("first.csv", "second.csv"):
        (tmp_path / name).write_text("a,y\n" + "".join(f"{k % 7},{k % 5}\n" for k in range(30)))
    outcomes = [
        runner.run(compose([
            "algorithm=mean", "dataset=file", f"dataset.path={tmp_path / name}.csv",
            "dataset.target=y", "tracking=none", "figures=false", f"outputs={tmp_path}",
        ]))
        for name in ("first", "second", "first")
    ]  # fmt: skip
    assert [outcome.status for outcome in outcomes] == ["complete", "reused", "reused"]
    assert len({outcome.run.folder for outcome in outcomes}) == 1
    assert outcomes[1].run.result["dataset"].startswith("first-")


def test_data_sets_of_the_catalogue_and_files_that_nobody_read_have_a_key_too():
    for dataset in (["dataset=naval"], ["dataset=file", "dataset.path=no.csv"]):
        name = writing.folder_of(compose([*dataset, "algorithm=gf"])).name
        assert name.startswith("gf-") and len(name) == 19
