"""Classification from the command line's configuration to the run folder; data and labels."""

import io
import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from omkl.config import settings
from omkl.datasets import catalogue, open_stream, open_streams
from omkl.experiment import metrics
from omkl.experiment import run as runner
from omkl.report import console
from omkl.runs.run_folder import Run
from tests.compositions import compose
from tests.conftest import catalogued

RAW = {"limit": None, "scaling": "none", "order": "file"}


def rows(stream):
    blocks = list(stream.blocks(1000))
    return np.concatenate([b[0] for b in blocks]), np.concatenate([b[1] for b in blocks])


def run(tmp_path, *overrides):
    quiet = ["tracking=none", "figures=false", f"outputs={tmp_path}"]
    return runner.run(compose(["task=classification", *overrides, *quiet]))


SHAPES = {  # rows, inputs, labels +1
    "spambase": (4601, 57, 1813), "german": (1000, 24, 300), "ionosphere": (351, 34, 225),
    "sonar": (208, 60, 111), "mushrooms": (8124, 117, 3916), "wdbc": (569, 30, 212),
    "svmguide3": (1243, 21, 296), "a9a": (32561, 123, 7841), "w8a": (49749, 300, 1479),
}  # fmt: skip


@pytest.mark.real_data
@pytest.mark.parametrize("name", SHAPES)
def test_real_data_have_the_size_and_labels_that_their_sources_state(name):
    X, y = rows(open_stream(catalogued(name), RAW | {"scaling": "whole"}))
    n, d, positive = SHAPES[name]
    assert X.shape == (n, d) and np.count_nonzero(y == 1.0) == positive
    assert np.count_nonzero(y == -1.0) == n - positive
    assert np.linalg.norm(X, axis=1).max() == pytest.approx(1.0)


@pytest.mark.real_data
def test_spambase_has_every_column_in_minus_one_to_one():
    cfg = catalogued("spambase")
    table = pd.read_csv(catalogue.locate(cfg["file"]), header=None).to_numpy()
    X, y = rows(open_stream(cfg, RAW))
    low, high = table[:, :57].min(axis=0), table[:, :57].max(axis=0)
    np.testing.assert_allclose(X, 2 * (table[:, :57] - low) / (high - low) - 1, atol=1e-12)
    np.testing.assert_array_equal(y, 2 * table[:, 57] - 1)


@pytest.mark.real_data
def test_mushrooms_are_a_column_a_letter():
    cfg = catalogued("mushrooms")
    table = pd.read_csv(catalogue.locate(cfg["file"]), header=None)
    X, y = rows(open_stream(cfg, RAW))
    assert set(np.unique(X)) == {0.0, 1.0} and np.all(X.sum(axis=1) == 22)
    np.testing.assert_array_equal(y == 1, table[0] == "p")
    np.testing.assert_array_equal(X[:, 0] == 1, table[1] == "b")


# --- what is said of a run ------------------------------------------------------------------------


def test_a_run_tells_which_class_was_taken_for_which_and_how_good_its_probabilities_were(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 2))
    label = np.where(x[:, 0] > 0.8, "high", np.where(x[:, 1] > 0.0, "mid", "low"))
    path = tmp_path / "my.csv"
    pd.DataFrame(x, columns=["a", "b"]).assign(label=label).to_csv(path, index=False)
    typed = ["dataset=file", f"dataset.path={path}", "dataset.target=label", "seeds=2"]
    one = Run(run(tmp_path, *typed).run.folder)
    result = one.result
    counts, classes = np.array(result["confusion"]), result["labels_of_classes"]
    np.testing.assert_array_equal(counts.sum(axis=1), [2 * (label == c).sum() for c in classes])
    assert counts.sum() - np.trace(counts) == sum(result["mistakes"]) and counts[:, -1].sum() == 0
    assert 0.0 < result["brier_score"] < result["log_loss"] < np.log(3)
    shown = io.StringIO()
    console.print_run(one, Console(file=shown, width=100))
    assert f"log loss {result['log_loss']:.4g}" in shown.getvalue()
    assert re.search(rf"low +{counts[1, 0]} +{counts[1, 1]} +{counts[1, 2]}\b", shown.getvalue())


# --- own files and the runner -------------------------------------------------------------------


@pytest.fixture
def two_moons(tmp_path):
    rng = np.random.default_rng(0)
    angle, side = rng.uniform(0, np.pi, 400), rng.random(400) < 0.5
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1) + rng.normal(0, 0.1, (400, 2))
    X = np.where(side[:, None], X, [1, 0.4] - X)
    frame = pd.DataFrame({"a": X[:, 0], "kind": np.where(side, " ham", "spam"), "b": X[:, 1]})
    path = tmp_path / "moons.csv"
    frame.to_csv(path, index=False)
    return path


def test_an_own_file_with_words_for_labels(two_moons, tmp_path):
    outcome = run(
        tmp_path, "algorithm=omkc_da_p1", "kernels=gauss13", "dataset=file", "seeds=3",
        f"dataset.path={two_moons}", "dataset.target=kind", "dataset.labels=[ham,spam]",
    )  # fmt: skip
    result = outcome.run.result
    assert outcome.status == "complete", result
    assert result["seeds"] == [0] and result["error_rate_std"] is None  # nothing is drawn
    assert 5 < result["mistakes"][0] < 100 and result["labels_of_classes"] == ["ham", "spam"]
    assert result["error_rate_mean"] == result["mistakes"][0] / 400
    assert "mse" not in result and outcome.run.config["stream"]["order"] == "file"
    curves = outcome.run.curves
    assert curves["error_rate"][0, -1] == result["error_rate_mean"]
    assert curves["updates"].min() == result["best_kernel"] == curves["support"].min()


def test_three_classes_are_each_against_the_rest(tmp_path):
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 3, 300)
    X = np.stack([np.cos(2.1 * kind), np.sin(2.1 * kind)], axis=1) + rng.normal(0, 0.25, (300, 2))
    path = tmp_path / "three.csv"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": np.array(["x", "y", "z"])[kind]}).to_csv(
        path, index=False
    )
    overrides = [
        "kernels=gauss13", "dataset=file", f"dataset.path={path}", "dataset.target=kind",
        "dataset.labels=[x,y,z]", "seeds=2",
    ]  # fmt: skip
    for algorithm in ("omkc_da_p1", "rf/omkc_da_o"):
        result = run(tmp_path, f"algorithm={algorithm}", *overrides).run.result
        assert result["status"] == "complete", result
        assert 3 < np.mean(result["mistakes"]) < 60, algorithm
    job = runner.prepare(
        compose(["task=classification", "algorithm=omkc_da_p1", *overrides, f"outputs={tmp_path}"])
    )
    found = job.compute()
    X, y = rows(job.streams[0])
    wrong, updates = 0, np.zeros(len(job.dictionary), dtype=int)
    for k, ours in enumerate(job.learner(0).learners):
        y_hat = ours.partial_fit(X, np.where(y == k, 1.0, -1.0)).y_hat
        wrong += int(np.sum(y_hat * np.where(y == k, 1, -1) <= 0))
        updates += ours.state.updates
    np.testing.assert_array_equal(updates, found.curves["updates"][0])
    assert found.result["mistakes"][0] <= wrong  # each mistake is one of a binary learner


@pytest.mark.parametrize("labels", ["[0x,1]", "[0x,1,2]"])
def test_predicted_classes_are_kept_beside_what_the_file_says(tmp_path, labels):
    rng = np.random.default_rng(1)
    names = labels.strip("[]").split(",")
    X, kind = rng.normal(size=(60, 2)), rng.integers(0, len(names), 60)
    X[:, 0] += 2.0 * kind
    file = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": np.array(names)[kind]})
    file.to_csv(tmp_path / "my.csv", index=False)
    outcome = run(
        tmp_path, "algorithm=rf/omkc_da_o", "kernels=gauss13", "D=5", "dataset=file",
        f"dataset.path={tmp_path / 'my.csv'}", "dataset.target=kind", f"dataset.labels={labels}",
        "seeds=2", "predictions=true",
    )  # fmt: skip
    folder, result = outcome.run.folder, outcome.run.result
    kept = pd.read_parquet(folder / "predictions.parquet")
    assert list(kept) == ["seed", "row", "y", "y_hat", "score"]
    for seed, mistakes in zip(result["seeds"], result["mistakes"], strict=True):
        own = kept[kept["seed"] == seed]
        assert own["row"].tolist() == list(range(1, 61))
        assert own["y"].tolist() == file["kind"].tolist()
        assert np.sum(own["y"] != own["y_hat"]) == mistakes
    silent = kept["y_hat"].isna()
    assert silent.sum() == (2 if len(names) == 2 else 0) and not kept["score"][silent].any()
    tables = {path.name for path in folder.glob("*.parquet")}
    assert tables == {"predictions.parquet"}


def test_a_tie_and_silence_are_mistakes():
    y_hat, y = np.array([0.0, 0.3, -0.1, 0.0]), np.array([1.0, 1.0, 1.0, -1.0])
    assert metrics.mistaken(y_hat, y).tolist() == [True, False, True, True]
    y_hat = np.array([[0.1, 0.4, 0.2], [0.3, 0.3, -1.0], [-0.5, -0.2, -0.1]])
    assert metrics.mistaken(y_hat, np.array([1, 1, 2])).tolist() == [False, True, False]


@pytest.mark.real_data
def test_every_seed_is_a_permutation_of_its_own():
    cfg = catalogued("sonar")
    streams = open_streams(cfg, RAW | {"order": "shuffled"}, [0, 1, 2])
    tables = [np.column_stack(rows(stream)) for stream in streams]
    alone = [open_stream(cfg, RAW | {"order": "shuffled"}, seed=s) for s in (0, 1, 2)]
    for table, stream in zip(tables, alone, strict=True):
        np.testing.assert_array_equal(table, np.column_stack(rows(stream)))
    assert not np.array_equal(tables[0], tables[1])
    np.testing.assert_array_equal(np.sort(tables[0], axis=0), np.sort(tables[2], axis=0))
    one = open_streams(cfg, RAW, [0, 1])
    assert one[0] is one[1]


@pytest.mark.real_data
def test_a_run_over_permutations(tmp_path):
    catalogued("sonar")
    outcome = run(tmp_path, "algorithm=omkc_da_p1", "dataset=sonar", "kernels=omkc16", "seeds=4")
    result = outcome.run.result
    assert result["seeds"] == [0, 1, 2, 3] and len(set(result["mistakes"])) > 1
    assert outcome.run.config["stream"]["order"] == "shuffled"
    assert outcome.run.config["dataset"]["task"] == "classification"
    assert outcome.run.config["task"] == "classification"
    again = run(tmp_path, "algorithm=omkc_da_p1", "dataset=sonar", "kernels=omkc16", "seeds=4")
    assert again.status == "reused"
    blocks = run(
        tmp_path / "2", "algorithm=omkc_da_p1", "dataset=sonar", "kernels=omkc16", "seeds=4",
        "block=7", "threads=1",
    )  # fmt: skip
    assert blocks.run.result["mistakes"] == result["mistakes"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["algorithm=omkc_da_p1", "dataset=airfoil"], "airfoil is a data set for regression, not"),
        (["algorithm=raker", "dataset=sonar"], "raker is an algorithm for regression.*omkc_da_p1"),
        (["algorithm=rf/omkc_da_p1", "kernels=omkc16"], "have no random features"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, overrides, message):
    outcome = run(tmp_path, *overrides)
    assert outcome.status == "failed"
    assert re.search(message, outcome.run.result["error"]["message"])


def test_what_may_be_either_is_what_the_algorithm_does():
    for algorithm, task in (("omkc_da_p1", "classification"), ("raker", "regression")):
        config = compose([f"algorithm={algorithm}", "dataset=synthetic"])
        assert settings.complete(config).task == task
