"""Words, categories, dates and blanks in rows: the same numbers as a file of them gives."""

from __future__ import annotations

import datetime
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import TimeSeriesSplit, cross_val_score

import omkl
from omkl.online import model_file
from omkl.river import OnlineMKLRegressor as RiverRegressor
from omkl.sklearn import OnlineMKLClassifier, OnlineMKLRegressor

SMALL = {"kernels": "gaussian17", "D": 4}


def houses(n=150):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "row": np.arange(n),
            "area": rng.normal(100.0, 20.0, n),
            "town": rng.choice(["Oslo", "Bergen", None], n),
            "sold": pd.date_range("2024-01-01 06:30", periods=n, freq="7h"),
            "floor": pd.Series(rng.choice([1, 2, None], n)),
            "kind": pd.Categorical(rng.choice(["flat", "house"], n)),
            "rooms": pd.array(rng.choice([1, 2, None], n), dtype="Int64"),
            "lift": rng.choice([True, False], n),
        }
    )
    return frame, 3.0 * frame["area"] + 20.0 * (frame["town"] == "Oslo")


def test_the_numbers_are_those_of_a_run_of_the_frame(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = houses()
    run = omkl.run("raker", X.assign(y=y), target="y", seeds=1, **SMALL)
    learner = omkl.learner("raker", **SMALL)
    np.testing.assert_array_equal(learner.partial_fit(X, y).y_hat, run.predictions["y_hat"])
    assert learner.inputs == tuple(run["stream"]["inputs"])
    shown = omkl.columns(X)
    assert [c["as"] for c in run["stream"]["columns"]] == shown["as"].tolist()
    assert shown.loc["row", "why"] == "an id: it counts the rows"
    assert shown.loc["town", "inputs"] == ["town=Oslo", "town=Bergen"] or shown.loc[
        "town", "inputs"
    ] == ["town=Bergen", "town=Oslo"]


def test_a_row_by_name_is_a_row_of_the_frame(tmp_path):
    X, y = houses()
    learner, rows = omkl.learner("auto"), X.to_dict("records")
    learner.partial_fit(X[:100], y[:100])
    for k in range(100, 150):
        expected = learner.predict(X[k : k + 1])[0]
        assert learner.predict([rows[k]])[0] == learner.predict_one(rows[k]) == expected
        learner.learn_one(rows[k], y[k])
    text = {**rows[0], "sold": str(rows[0]["sold"])}
    assert learner.predict([text])[0] == learner.predict([rows[0]])[0]
    learner.save(tmp_path / "model.npz")
    again = omkl.load_learner(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict(X), learner.predict(X))
    assert "row" in X and again.columns == learner.columns


def test_inputs_are_learned_from_the_first_rows():
    X, y = houses()
    named = omkl.learner("auto", inputs=["area", "lift"]).partial_fit(X[["lift", "area"]], y)
    assert not np.isnan(named.y_hat).any()
    of_array = omkl.learner("auto")
    assert repr(of_array) == "OnlineLearner('auto', inputs of the first row, regression, 0 rows)"
    of_array.partial_fit(np.zeros((2, 3)), [1.0, 2.0])
    assert of_array.inputs == ("x1", "x2", "x3")
    of_row = omkl.learner("auto")
    of_row.predict_one({"area": 1.0, "town": "Oslo"})
    assert of_row.inputs == (
        "area",
        *(f"town#{k}" for k in range(1, 17)),
        "town#mean",
        "town#count",
    )
    for call in (lambda one: one.save("x"), lambda one: one.weights):
        with pytest.raises(RuntimeError, match="has seen no row"):
            call(omkl.learner("auto"))
    with pytest.raises(ValueError, match="no column is left as an input"):
        omkl.learner("auto").partial_fit(X[["row"]], y)


def test_what_is_unknown_is_said_once_and_what_is_missing_is_missing():
    X, y = houses()
    learner = omkl.learner("auto")
    learner.partial_fit(X, y)
    row = X.iloc[0].to_dict()
    without = {name: value for name, value in row.items() if name != "area"}
    blank = learner.predict([{**row, "area": None}])[0]
    assert learner.predict([without])[0] == blank == learner.predict([{**row, "area": math.nan}])[0]
    new = {**row, "town": "Paris"}
    with pytest.warns(UserWarning, match=r"town has new categories in 1 row: Paris \(1\)"):
        learner.predict([new])
    assert not learner.new_categories, "only learned rows are counted"
    learner.learn_one(new, 1.0)
    learner.partial_fit([new, row, {**new, "town": "Rome"}], [1.0, 2.0, 3.0])
    assert learner.new_categories == {"town": {"Paris": 2, "Rome": 1}}
    with pytest.warns(UserWarning, match="garden: the learner was made for area, town"):
        learner.predict_one({**row, "garden": 1.0})
    with pytest.warns(UserWarning, match=r"the data frame has no area: each counts as its mean"):
        learner.predict(X.drop(columns="area"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.predict([{**new, "cellar": 1.0}, new])
        learner.predict(X.drop(columns="area"))
    with pytest.raises(ValueError, match=r"row 2, column 'area' has 'large' where a number should"):
        learner.predict([row, {**row, "area": "large"}])
    with pytest.raises(ValueError, match=r"^row 155: column 'sold' has 'soon' where a date should"):
        learner.learn_one({**row, "sold": "soon"}, 1.0)


def test_weights_and_what_each_kernel_says():
    X, y = houses()
    for name in ("raker", "gf", "auto"):
        learner = omkl.learner(name, inputs=["area"], **SMALL)
        learner.partial_fit(X[["area"]], y)
        before = learner.predict(X[["area"]])
        table = learner.experts({"area": 100.0})
        assert list(table) == ["prediction", "weight"]
        used = learner.weights > 0.001
        assert table.index.tolist() == used.index[used].tolist()
        assert name != "auto" or used.sum() < len(used)
        assert learner.weights.sum() == pytest.approx(1.0)
        np.testing.assert_array_equal(learner.predict(X[["area"]]), before)
        if name == "raker":  # the prediction is their weighted mean
            total = (table["prediction"] * table["weight"]).sum()
            assert total == pytest.approx(learner.predict([{"area": 100.0}])[0], rel=0.02)
    classes = omkl.learner("auto", inputs=["area"], classes=["a", "b", "c"])
    classes.partial_fit(X[["area"]], np.array(["a", "b", "c"])[np.arange(150) % 3])
    sure = classes.experts({"area": 100.0})["prediction"]  # of its likeliest class
    assert classes.weights.sum() == pytest.approx(1.0) and sure.between(1 / 3, 1).all()
    rest = omkl.learner("rf/omkc_da_p1", inputs=["area"], classes=["a", "b", "c"], **SMALL)
    rest.partial_fit(X[["area"]], np.array(["a", "b", "c"])[np.arange(150) % 3])
    assert list(rest.weights) == ["a", "b", "c"], "each against the rest"
    assert ("a", "prediction") in rest.experts({"area": 100.0})


def test_contributions_of_inputs_sum_to_the_prediction():
    X, _ = houses()
    area = X["area"].to_numpy()
    y = np.stack([3.0 * area + 20.0 * (X["town"] == "Oslo"), -area], axis=1)
    learner = omkl.learner("auto", outputs=["price", "loss"])
    learner.partial_fit(X, y)
    row = X.iloc[-1].to_dict()
    said, before = learner.predict([row])[0], learner.file()
    table = learner.explain(row)
    assert learner.file() == before
    assert table.index.tolist() == [*(c.name for c in learner.columns), "base"]
    np.testing.assert_allclose(table.sum(), said)
    two = omkl.learner("auto", inputs=["area", "floor"])
    two.partial_fit(X[["area", "floor"]], y[:, 0])
    mean, first, second, both = two.predict([[a, f] for a in (None, 70.0) for f in (None, 3.0)])
    table = two.explain([70.0, 3.0])  # Shapley values of two inputs
    exact = [(second - mean + both - first) / 2, (first - mean + both - second) / 2, mean]
    np.testing.assert_allclose(table, exact)
    one = omkl.learner("auto", inputs=["area"], classes=["a", "b", "c"])
    one.partial_fit(X[["area"]], np.array(["a", "b", "c"])[np.digitize(area, [80, 120])])
    table = one.explain({"area": 100.0})
    np.testing.assert_allclose(table.sum(), one.predict_proba([{"area": 100.0}])[0])
    with pytest.raises(ValueError, match="n_orders=0"):
        one.explain({"area": 100.0}, n_orders=0)
    with pytest.raises(ValueError, match="it needs scaling='columns'"):
        omkl.learner("gf", inputs=1, scaling="none").explain([1.0])


@pytest.mark.parametrize("classes", [None, ["low", "high"], ["low", "mid", "high"]])
def test_the_importance_of_inputs_is_named_and_goes_with_the_model(tmp_path, classes):
    """One of three inputs says all."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((600, 3)), columns=["a", "b", "c"])
    step = np.digitize(X["b"], [0.0, 1.0][: len(classes or "12") - 1])
    y = np.array(classes)[step] if classes else step + 0.1 * rng.standard_normal(600)
    learner = omkl.learner("auto", inputs=list(X), classes=classes)
    learner.partial_fit(X[:400], y[:400])
    assert learner.importance.isna().all(), "before trees are grown"
    learner.partial_fit(X[400:], y[400:])
    found = learner.importance
    assert found.index.tolist() == ["a", "b", "c", "past targets"] and found.idxmax() == "b"
    assert found.sum() == pytest.approx(1.0) and found["b"] > 0.5
    learner.save(tmp_path / "model.npz")
    pd.testing.assert_series_equal(omkl.load_learner(tmp_path / "model.npz").importance, found)


def test_the_importance_of_past_targets_and_of_a_learner_without():
    X, walk = np.ones((600, 1)), np.cumsum(np.random.default_rng(0).standard_normal((600, 2)), 0)
    learner = omkl.learner("auto", inputs=1, outputs=["north", "south"])
    learner.partial_fit(X, walk)
    assert learner.importance.loc["past targets"].tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="ewrls does not measure the importance of inputs: auto"):
        omkl.learner("ewrls", inputs=1).importance  # noqa: B018


def test_kernels_are_lists_too():
    def n(kernels):
        return len(omkl.learner("raker", inputs=1, kernels=kernels).expert_names)

    assert n([0.1, 1]) == 2 and n(["gaussian"]) == 25 and n(np.array([0.1, 1.0])) == 2
    assert n([{"family": "gaussian", "bandwidth": [0.1, 1, 10]}, 3.0]) == 4
    for kernels, words in (
        ("gaussian", r"kernels=\['gaussian'\] has 25 of it"),
        (["gausian"], "there are: gaussian, laplacian"),
        (3, "the name of a dictionary of conf/kernels, a mapping .* or a list"),
        ([-1.0], "bandwidth -1.0 is not a positive number"),
    ):
        with pytest.raises(ValueError, match=words):
            n(kernels)


def test_algorithms_are_listed_with_when_to_take_each():
    table = omkl.algorithms.table()
    assert set(table.index) == set(omkl.algorithms.names())
    assert table.loc["auto", "title"] == "Auto" and table.loc["raker", "when"]
    assert "Graph-Aided" in table.paper["gf"]


def test_a_forged_column_is_no_column(tmp_path):
    X, y = houses()
    learner = omkl.learner("auto")
    learner.partial_fit(X, y)
    head = {"reading": {}, "target": None, "columns": [{"name": "area", "inputs": 3}]}
    (tmp_path / "model.npz").write_bytes(learner.file(head))
    with pytest.raises(model_file.ModelError, match="its columns are invalid"):
        omkl.load_learner(tmp_path / "model.npz")


def test_estimators_of_scikit_learn_take_such_frames():
    X, y = houses()
    model = OnlineMKLRegressor().fit(X[:100], y[:100])
    assert model.n_features_in_ == 8 and model.feature_names_in_.tolist() == list(X)
    assert model.score(X[100:], y[100:]) > 0.5
    with pytest.warns(UserWarning, match=r"town has new categories in 50 rows: Paris \(50\)"):
        model.partial_fit(X[100:].assign(town="Paris"), y[100:])
    assert model.new_categories_ == {"town": {"Paris": 50}}
    with pytest.raises(ValueError, match=r"row 1, column 'area' has '1,5' .* decimal mark '\.'"):
        OnlineMKLRegressor().fit(X[["area"]], y).predict(pd.DataFrame({"area": ["1,5"]}))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X[["area", "town"]])
    with pytest.raises(ValueError, match="give X as a data frame"):
        model.predict(X.to_numpy())
    dear = OnlineMKLClassifier().fit(X, y > 300.0)
    assert dear.score(X, y > 300.0) > 0.9


def test_fit_leans_on_no_past_target_and_partial_fit_does():
    X, y = omkl.datasets.load("airfoil")
    split = TimeSeriesSplit(5)

    def error(model):
        scoring = "neg_root_mean_squared_error"
        return -cross_val_score(model, X, y, cv=split, scoring=scoring).mean()

    fitted, ridge = error(OnlineMKLRegressor()), error(Ridge())
    assert fitted < ridge < error(OnlineMKLRegressor(past_targets=True))
    by_row = OnlineMKLRegressor().partial_fit(X, y)
    in_order = OnlineMKLRegressor(past_targets=True).fit(X, y)
    np.testing.assert_array_equal(by_row.predict(X[:5]), in_order.predict(X[:5]))
    assert np.any(OnlineMKLRegressor().fit(X, y).predict(X[:5]) != in_order.predict(X[:5]))
    with pytest.raises(ValueError, match=r"past_targets='no' is none of True, False, 'auto'"):
        OnlineMKLRegressor(past_targets="no").fit(X, y)


def test_river_takes_words_and_dates():
    model, errors = RiverRegressor(), []
    rng = np.random.default_rng(0)
    for k in range(300):
        town = str(rng.choice(["a", "b", "c"]))
        x = {"z": rng.random(), "when": datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=k)}
        x |= {"town": town} if k % 7 else {}
        y = 10.0 * "abc".index(x.get("town", "b")) + x["z"]
        errors.append(abs(model.predict_one(x) - y))
        model.learn_one(x, y)
    assert np.mean(errors[200:]) < 0.5


def test_a_series_with_names_is_a_row_by_name():
    learner = omkl.learner("ridge", inputs=["a", "b"])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    learner.partial_fit(X, X @ [10.0, -1.0])
    frame = pd.DataFrame({"b": [0.0], "a": [1.0]})
    (expected,) = learner.predict([[1.0, 0.0]])
    assert learner.predict([frame.iloc[0]]) == learner.predict(frame) == [expected]
    assert learner.predict_one(frame.iloc[0]) == expected


@pytest.mark.parametrize("bad", [[["u", 1]], [[1.0, 2.0], [1.0]]])
def test_rows_that_are_refused_fix_no_inputs(bad):
    learner = omkl.learner("ridge")
    with pytest.raises(ValueError):
        learner.partial_fit(bad, [1.0] * len(bad))
    with pytest.raises(ValueError, match="1 rows X and 2 labels y"):
        learner.partial_fit([[1, 2]], [1, 2])
    assert learner.inputs == ()
    assert learner.predict_one({"a": 1.0, "b": "u"}) == 0.0


def test_a_prediction_before_the_first_row_fixes_no_inputs():
    learner = omkl.learner("auto", interval=0.9)
    few = pd.DataFrame({"a": [1.0, 2.0]})
    assert learner.predict(few).tolist() == [0.0, 0.0]
    assert learner.predict_interval(few).shape == (2, 2) and len(learner.experts({"a": 1.0}))
    assert learner.inputs == ()
    more = pd.DataFrame({"a": [1.0, 2.0], "town": ["x", "y"]})
    learner.partial_fit(more, [1.0, 2.0])
    assert len(learner.inputs) > 2, "the town as well"


def test_an_input_without_a_value_in_the_first_rows_is_used_once_it_has_values():
    learner = omkl.learner("ridge")
    for blank in (None, "n/a", ""):
        learner.partial_fit([{"a": blank, "b": 1.0}], [1.0])
    assert learner.inputs == ("a", "b")


DECLARED = {"shop": "category 007 012 103", "mass": "number kg", "day": "date dayfirst",
            "note": "skip"}  # fmt: skip
SHOPS = {"007": -5.0, "012": 5.0, "103": 20.0}


def deliveries(n=120):
    shop = np.random.default_rng(0).choice(list(SHOPS), n)
    frame = pd.DataFrame({"shop": shop, "mass": "5 kg", "day": "01/02/2024", "note": "x"})
    return frame, [SHOPS[code] for code in shop]


def test_declared_columns_are_those_of_a_run_and_go_with_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = deliveries()
    names = ["shop=007", "shop=012", "shop=103", "mass", *(f"day.{part}" for part in
             ("weekday", "day_of_year", "days_elapsed"))]  # fmt: skip
    run = omkl.run("ridge", X.assign(y=y), target="y", columns=DECLARED, seeds=1)
    assert run["stream"]["inputs"] == names
    assert omkl.columns(X, columns=DECLARED)["inputs"].sum() == names
    by_row, learner = (omkl.learner("ridge", columns=DECLARED) for _ in range(2))
    learner.partial_fit(X, y)
    assert learner.inputs == tuple(names) and learner.left_out == ("note",)
    learner.save("model.npz")
    again, new = omkl.load_learner("model.npz"), X.to_dict("records")[:3]
    np.testing.assert_array_equal(again.predict(new), learner.predict(X[:3]))
    sklearn = OnlineMKLRegressor("ridge", columns=DECLARED).fit(X, y)
    assert sklearn.learner_.n_rows == 120 and sklearn.predict(X[:3]) == pytest.approx(y[:3], abs=1)
    river, panel = RiverRegressor("ridge", columns=DECLARED), omkl.panel(columns=DECLARED)
    for x, label in zip(X.to_dict("records"), y, strict=True):
        for model in (by_row, river):
            model.learn_one(x, label)
        panel.learn_one(x, label, series="a")
    assert by_row.inputs == tuple(names) and not by_row.new_categories
    assert by_row.predict_one(new[0]) == pytest.approx(y[0], abs=1)
    assert river.predict_one(new[0]) == pytest.approx(y[0], abs=1)
    with pytest.warns(UserWarning, match=r"shop has new categories in 1 row: 104 \(1\)"):
        river.learn_one({**new[0], "shop": "104"}, 1.0)
    assert river.new_categories == {"shop": {"104": 1}}
    assert panel.settings.inputs == tuple(names)


@pytest.mark.parametrize(
    ("columns", "inputs", "message"),
    [
        ({"shop": "colour"}, None, r"'shop' is declared as 'colour', and a column is one of"),
        ({"shop": 3}, None, r"'shop' is declared as 3, and a column is one of"),
        ({"shap": "text"}, None, r"there is no column 'shap'. Did you mean 'shop'"),
        ({"shop": "text"}, 4, r"columns= declares columns by name: name the inputs"),
    ],
)
def test_wrong_declarations_are_named(columns, inputs, message):
    with pytest.raises(ValueError, match=message):
        omkl.learner("ridge", columns=columns, inputs=inputs).partial_fit(*deliveries())
    with pytest.raises(ValueError, match="and the first row has no names"):
        omkl.learner("ridge", columns={"shop": "text"}).predict_one([1.0])


@pytest.mark.parametrize("as_frames", [False, True])
def test_words_of_single_rows_that_share_an_input_are_told(as_frames):
    learner = omkl.learner("ridge")
    with pytest.warns(UserWarning, match=r"shop: '012' and '103' have the same input.*'category 0"):
        for code in ("007", "012", "103"):
            row = {"shop": code}
            learner.partial_fit(pd.DataFrame([row]) if as_frames else [row], [SHOPS[code]])
