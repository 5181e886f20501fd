"""Every YAML of conf/ composes as the command line would, and every algorithm's runs."""

import functools
import re
from pathlib import Path
from typing import Any

import pytest

from omkl import algorithms, federated
from omkl.config import reference, schema, settings
from omkl.config.schema import Settings
from omkl.core import kernels
from omkl.datasets.schema import check_dataset
from omkl.experiment import run as runner
from omkl.runs import run_folder
from omkl.utils import conf, registry
from tests.compositions import mapping
from tests.learners import one_of_each_representation

GROUPS = ("algorithm", "dataset", "kernels", "federation")
OPTIONAL = ("debug", "experiment")  # what they set is not below a key of their own
CHOICES = [(group, name) for group in GROUPS for name in conf.names(group)]
ALGORITHMS = [name for group, name in CHOICES if group == "algorithm"]


@functools.cache
def configuration(*overrides: str) -> dict[str, Any]:
    return mapping(overrides)


def test_every_file_is_a_choice():
    files = [p for group in GROUPS for p in (conf.folder() / group).rglob("*.yaml")]
    assert len(files) == len(CHOICES)
    assert set(conf.groups()) == {*GROUPS, *OPTIONAL}


@pytest.mark.slow
@pytest.mark.parametrize(("group", "name"), CHOICES, ids=[f"{g}={n}" for g, n in CHOICES])
def test_composes(group: str, name: str):
    config = configuration(f"{group}={name}")
    assert config[group]["name"], "tables and run folders need a name"
    assert config[group] == conf.entry(group, name)
    if group == "algorithm":  # only what the YAML states can be set, and is shown by --help
        fields = params_of(config[group]["name"])._fields
        assert set(config[group]) - {"name"} == set(fields)
    if group == "dataset":
        assert config[group]["task"] in ("regression", "classification")
        assert config[group]["task"] == "regression" or len(config[group]["labels"]) == 2
        assert {"file", "path", "n_centres"} & set(config[group]), "nothing says where rows are"
        check_dataset(config[group])
    if group == "kernels":
        assert len(set(kernels.dictionary(config[group]))) == len(kernels.dictionary(config[group]))


def in_miniature(name: str, tmp_path: Path) -> Settings:
    """The settings of a job of 60 rounds."""
    rows, clients, federation = 60, "null", "none"
    if name in federated.names():
        rows, clients, federation = 120, "2", "iid"
    task = settings.task_of(configuration(f"algorithm={name}")["algorithm"]["name"])
    config = configuration(
        f"algorithm={name}", f"dataset.rows={rows}", f"clients={clients}", "D=4", "seeds=2",
        "tracking=none", "figures=false", f"outputs={tmp_path}", f"task={task}",
    )  # fmt: skip
    # What is typed for another group is its file: ``test_composes``.
    chosen = {"kernels": "gaussian17", "federation": federation}
    return schema.read(
        config | {group: conf.entry(group, choice) for group, choice in chosen.items()}
    )


@pytest.mark.slow
def test_every_algorithm_makes_a_job(tmp_path: Path):
    for name in ALGORITHMS:
        assert runner.prepare(in_miniature(name, tmp_path)).D >= 1, name


# What the learners of a representation have in common is in ``omkl.checks``.
RUN = (*one_of_each_representation(), "ewrls", "pof_mkl", "perfedavg")


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_runs_in_miniature(name: str, tmp_path: Path):
    outcome = runner.run(in_miniature(name, tmp_path))
    assert outcome.status == "complete", outcome.run.result
    assert outcome.run.result["n_rounds"] == 60
    assert 0 < outcome.run.result[f"{run_folder.measure(outcome.run.result).key}_mean"] < 1


def params_of(name: str) -> type:
    package = federated if name in federated.names() else algorithms
    return package.load(name).Params


def test_help_lists_every_choice_and_setting():
    texts = {topic: reference.help_page(topic, conf.groups()) for topic in reference.TOPICS}
    words = re.sub("[,:]", " ", " ".join(texts.values())).split()
    for _, name in CHOICES:
        folder, slash, last = name.rpartition("/")
        assert last in words and folder + slash in ["", *words], "a line a folder"
    for key, _ in conf.flattened(schema.DEFAULTS):
        assert f"\n  {key}=" in texts["settings"], key


def test_every_setting_is_on_the_page_with_what_it_may_be():
    page = reference.markdown()
    assert "| `seeds` | `20` | R, repetitions with fresh random features | a whole number" in page
    assert "| `dataset.target` | one column, by its name or its position" in page
    for name in ALGORITHMS:
        assert f"`{name}`" in page


def test_help_says_what_each_algorithm_is_and_when_to_take_it():
    text = " ".join(reference.help_page("algorithms", conf.groups()).split())
    for name in (name for group, name in CHOICES if group == "algorithm" and "/" not in name):
        what, when = registry.summary(name), conf.when("algorithm", name)
        assert len(what) > 10 and len(when) > 10, name
        assert f" {name} {what} when: {when} " in text
    assert "rf/ omkc_da_o, omkc_da_p1, omkc_da_p2, " in text
    assert "kernel classifiers on random features: the memory does not grow" in text
    assert "`" not in registry.summary("omkc_uniform"), "markup of a docstring"
    assert registry.summary("no_such_module") == ""


def test_one_override_makes_a_run_for_trying_things(tmp_path: Path):
    plain, quick = configuration(), configuration("debug=quick")
    assert plain.keys() == quick.keys(), "the choice itself leaves no trace in a run's key"
    assert (quick["stream"]["limit"], quick["seeds"]) == (200, 2)
    assert (quick["figures"], quick["tracking"]) == (False, "none")
    assert quick["outputs"] == "outputs/debug", "away from the runs that tables are filled from"
    assert configuration("debug=quick", "seeds=7")["seeds"] == 7
    typed = ["algorithm=omkc_da_p1", f"outputs={tmp_path}", "kernels=gaussian17", "D=4"]
    outcome = runner.run(schema.read(configuration("debug=quick", *typed)))
    assert outcome.status == "complete" and outcome.run.result["n_rounds"] == 200
    suffixes = {p.suffix for p in outcome.run.folder.iterdir()} - {".diff"}  # of a changed checkout
    assert suffixes == {".json", ".npz", ".sha256"}
    assert not (tmp_path / "mlflow.db").exists()
