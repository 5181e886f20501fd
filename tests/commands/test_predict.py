"""``omkl-predict``: predictions of a kept learner as CSV."""

import io

import numpy as np
import pandas as pd
import pytest

import omkl
from omkl.commands import predict
from tests.conftest import read_csv

SMALL = {"kernels": "gaussian17", "D": 4, "seeds": 1, "dataset": "file", "dataset.target": "y",
         "model": True}  # fmt: skip


@pytest.fixture
def table(tmp_path):
    """A file of which the last 20 rows have no target; words and blanks are among the inputs."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=120), "town": rng.choice(["Ulm", "Kiel"], 120)})
    frame["y"] = 50.0 + frame["a"] + (frame["town"] == "Ulm")
    frame.loc[110, ["a", "town"]] = np.nan
    frame.loc[100:, "y"] = np.nan
    frame.to_csv(tmp_path / "all.csv", index=False)
    frame[:100].to_csv(tmp_path / "first.csv", index=False)
    frame[100:].drop(columns="y").iloc[:, ::-1].to_csv(tmp_path / "rest.csv", index=False)
    return tmp_path


def said(capsys, *argv):
    assert predict.main(list(map(str, argv))) == 0
    return read_csv(io.StringIO(capsys.readouterr().out))


def test_a_file_is_predicted_and_nothing_is_learned(table, capsys):
    given = {**SMALL, "dataset.path": table / "first.csv", "outputs": table / "out"}
    given["interval"] = 0.9
    run = omkl.run(algorithm="auto", **given)
    found = said(capsys, run.folder, table / "rest.csv")
    assert found["row"].tolist() == list(range(1, 21)) and list(found)[1:3] == ["y_hat", "spread"]
    learner = omkl.load_learner(run.model)
    rest = read_csv(table / "rest.csv")
    X = np.column_stack([rest["a"], *(rest["town"].map({town: 1.0, other: 0.0})
        for town, other in (("Ulm", "Kiel"), ("Kiel", "Ulm")))])  # fmt: skip
    if learner.inputs[1] == "town=Kiel":
        X = X[:, [0, 2, 1]]
    y_hat, spread = learner.predict(X, return_std=True)
    np.testing.assert_array_equal(found["y_hat"], y_hat)
    np.testing.assert_array_equal(found["spread"], spread)
    np.testing.assert_array_equal(found[["low", "high"]], learner.predict_interval(X))
    assert list(found)[-1] == "far_out" and found["far_out"].isna().all()
    # The first of them is what a run over all rows says of it.
    whole = omkl.run(algorithm="auto", **{**given, "dataset.path": table / "all.csv"})
    names = ["y_hat", "spread", "low", "high"]
    assert whole.predictions.loc[100, names].tolist() == found.loc[0, names].tolist()
    assert predict.main([str(run.model), str(table / "rest.csv"), "-o", str(table / "o.csv")]) == 0
    assert not capsys.readouterr().out
    pd.testing.assert_frame_equal(read_csv(table / "o.csv"), found)


def test_classes_are_predicted_with_their_probabilities(table, capsys):
    frame = read_csv(table / "first.csv")
    frame["y"] = np.where(frame["y"] > 50.5, "high", "low")
    frame.to_csv(table / "first.csv", index=False)
    run = omkl.run(**SMALL, **{"dataset.path": table / "first.csv", "outputs": table / "out",
                               "task": "classification"})  # fmt: skip
    found = said(capsys, run.model, table / "rest.csv")
    assert list(found) == ["row", "class", "p(high)", "p(low)", "far_out"]
    np.testing.assert_allclose(found["p(high)"] + found["p(low)"], 1.0)
    np.testing.assert_array_equal(found["class"] == "low", found["p(low)"] > 0.5)


def test_categories_that_the_model_has_not_are_told(table, capsys):
    run = omkl.run(algorithm="raker", **SMALL,
                   **{"dataset.path": table / "first.csv", "outputs": table / "out"})  # fmt: skip
    towns = ["Ulm", "Bonn", None, "Bonn", "Trier"]
    pd.DataFrame({"a": range(5), "town": towns}).to_csv(table / "new.csv", index=False)
    assert predict.main([str(run.folder), str(table / "new.csv")]) == 0
    told = capsys.readouterr()
    assert told.err.startswith("omkl-predict: town has new categories in 3 rows: Bonn (2), Trier")
    assert len(told.out.splitlines()) == 6


def test_rows_beyond_what_the_model_has_seen_are_marked(table, capsys):
    """The only rain of the model is a little, and Ulm is rare: both are no news, other rain is."""
    frame = pd.concat([read_csv(table / "first.csv")] * 5, ignore_index=True)
    frame["rain"] = np.where(np.arange(500) % 20 == 0, 1.0 + np.arange(500) / 500, 0.0)
    frame["town"] = np.where(np.arange(500) % 25 == 7, "Ulm", "Kiel")
    frame.to_csv(table / "first.csv", index=False)
    new = pd.DataFrame({"a": [0.0, 99.0, np.nan, -99.0], "rain": [1.5, 0.0, 50.0, 50.0]})
    new.assign(town="Ulm").to_csv(table / "new.csv", index=False)
    given = {**SMALL, "dataset.path": table / "first.csv", "outputs": table / "out"}
    run = omkl.run(algorithm="raker", **given)
    found = said(capsys, run.folder, table / "new.csv")["far_out"]
    assert found.fillna("").tolist() == ["", "a", "rain", "a;rain"]
    new.dropna().assign(town="Ulm").to_csv(table / "new.csv", index=False)
    run = omkl.run(algorithm="raker", **given, **{"stream.scaling": "none"})
    assert list(said(capsys, run.folder, table / "new.csv")) == ["row", "y_hat"]
    with pytest.raises(ValueError, match="not known with scaling=none"):
        omkl.load_learner(run.model).far_out(np.zeros((1, 4)))


def test_libsvm_rows_are_predicted_with_and_without_their_labels(tmp_path, capsys):
    """A row without a label begins with its first pair, which is an input."""
    pairs = [f"1:{n % 7} 24:{n % 5 / 10}" for n in range(60)]
    labelled = [f"{n % 7 + 3 * (n % 5)} {text}" for n, text in enumerate(pairs)]
    (tmp_path / "first.svm").write_text("\n".join(labelled))
    given = {**SMALL, "dataset.target": None, "dataset.path": tmp_path / "first.svm"}
    run = omkl.run(algorithm="ridge", **given, outputs=tmp_path / "out")
    new, path = [1, 2, 4], tmp_path / "new.svm"
    path.write_text("\n".join(labelled[n] for n in new))
    expected = said(capsys, run.folder, path)
    path.write_text("# no labels\n" + "\n".join(pairs[n] for n in new) + "\n\n")
    found = said(capsys, run.folder, path)
    pd.testing.assert_frame_equal(found, expected)
    for rows, words in [
        ((pairs[1], "", pairs[2]), "an empty line is before row 2, and rows have no label"),
        (("1:2 2",), "row 1 has '2' where index:value should be"),
    ]:
        path.write_text("\n".join(rows))
        assert predict.main([str(run.folder), str(path)]) == 1
        assert f"new.svm: {words}" in capsys.readouterr().err


def test_what_cannot_be_predicted_is_told(table, capsys):
    run = omkl.run(algorithm="raker", **SMALL,
                   **{"dataset.path": table / "first.csv", "outputs": table / "out"})  # fmt: skip
    pd.DataFrame({"a": [1.0], "city": ["Ulm"]}).to_csv(table / "other.csv", index=False)
    pd.DataFrame({"a": [1.0, np.inf], "town": "Ulm"}).to_csv(table / "far.csv", index=False)
    cases = {
        "the model has the columns a, town; the file has a, city, and not town": "other.csv",
        "far.csv: row 2, column 'a' is infinite": "far.csv",
        "no data file": "gone.csv",
    }
    for words, name in cases.items():
        assert predict.main([str(run.folder), str(table / name)]) == 1
        told = capsys.readouterr()
        assert words in told.err and not told.out, "no header of a table that does not come"
    (table / "empty.csv").write_text("a,town\n")
    assert list(said(capsys, run.folder, table / "empty.csv")) == ["row", "y_hat", "far_out"]
    far = str(table / "nowhere" / "out.csv")
    assert predict.main([str(run.folder), str(table / "rest.csv"), "-o", far]) == 1
    assert f"cannot use {far}: No such file or directory" in capsys.readouterr().err
    assert predict.main([str(table), str(table / "rest.csv")]) == 1
    assert "has no model.npz: a run keeps its learner with model=true" in capsys.readouterr().err
    assert predict.main([str(table / "first.csv"), str(table / "rest.csv")]) == 1
    assert "first.csv: no model, or a damaged one" in capsys.readouterr().err
