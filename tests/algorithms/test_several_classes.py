"""``auto_classifier`` against its formulas in plain NumPy: one learner for all classes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import softmax

import omkl
from omkl.algorithms import auto, auto_experts
from omkl.core.representations.experts import Experts
from omkl.online.learner import OnlineLearner, probabilities_of
from tests.algorithms.test_auto import Forecaster, Parts, features, many_inputs, sizes, standardised

K = 4


def learner(d: int, seed: int = 0, n_classes: int = K) -> OnlineLearner:
    return omkl.learner("auto", inputs=d, seed=seed, classes=range(n_classes), scaling="none")


def stream(T: int = 300, seed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, 3)) * [1.0, 5.0, 0.1]
    y = (X[:, 0] > 0.5).astype(int) + 2 * (np.hypot(X[:, 0], X[:, 1] / 5.0) > 1.2)
    return X, np.where(rng.random(T) < 0.1, rng.integers(0, K, T), y).astype(float)


def step(logits: np.ndarray, direction: np.ndarray, y: int, quadratic: float) -> tuple:
    """s and the variance of the direction there, of step 6."""

    def slope(s: float) -> float:
        p = softmax(logits + s * direction)
        return float(direction[y] - p @ direction - s * quadratic)

    s = brentq(slope, 0.0, 1.0, xtol=1e-15, rtol=1e-14) if slope(1.0) < 0.0 else 1.0
    p = softmax(logits + s * direction)
    return s, p @ (direction - p @ direction) ** 2


def regressions(model: Experts, K: int) -> list[Forecaster | Parts]:
    experts = []
    groups = auto_experts.CLASSIFIER_GROUPS
    for i, (group, length) in enumerate((g, length) for g in groups for length in g.lengths):
        F, rest = sizes(model, i), (1.0 if group.D else length**-2) * (1.0 - 1.0 / K)
        waves = np.full(2 * group.D, 30.0 * (1.0 - 1.0 / K))
        prior = np.concatenate([waves, np.full(F[0] - 2 * group.D, rest)])
        whole = Forecaster(F[0], prior, group.decay, prior.max())
        experts.append(Parts(F, rest, group.decay) if len(F) > 1 else whole)
    return experts


def plain(X: np.ndarray, y: np.ndarray, K: int, seed: int) -> np.ndarray:
    """Steps 1 to 7 of the box; probabilities (T, K)."""
    T, d = X.shape
    model = auto.fresh_classifiers(auto.Together.Params(K), (), d, 1, seed)
    experts = regressions(model.experts, K)
    thetas = [np.zeros((K, len(expert.theta))) for expert in experts]
    N = len(experts) + 3  # with trees, who say the mixture of the others for 500 rows
    w, u, theta, P = np.full(N, 1 / N), np.full(5, 0.2), np.zeros(N + 1), 0.3 * np.eye(N + 1)
    counts, followed, answers = np.zeros(K), np.zeros((K, K)), np.zeros((T, K))
    for t in range(T):
        lags = np.array([y[max(0, t - 1)], y[max(0, t - 2)]]) if t else np.zeros(2)
        labels = standardised(lags, np.repeat(y[:t, None], 2, axis=1))
        row = np.concatenate([standardised(X[t], X[: t + 1]), labels])
        Z = [features(model.experts, i, row) for i in range(len(experts))]
        outputs = [theta_i @ z for theta_i, z in zip(thetas, Z, strict=True)]
        v = [expert.variance(z) for expert, z in zip(experts, Z, strict=True)]
        after = followed[int(y[t - 1]) if t else 0]
        p = np.zeros((N, K))
        p[0] = (counts + 0.5) / (t + 0.5 * K)
        p[1] = (after + 0.5) / (after.sum() + 0.5 * K)
        for i, (m, v_i) in enumerate(zip(outputs, v, strict=True)):
            p[i + 2] = 0.9997 * softmax(m / np.sqrt(1.0 + np.pi * v_i / 4.0)) + 0.0003 / K
        p[-1] = w[:-1] @ p[:-1] / w[:-1].sum()
        mixture = np.log(w @ p)
        z = np.vstack([np.log(p) - mixture, mixture])
        margin = mixture + theta @ z
        g = np.vstack([0.99999 * softmax(margin) + 0.00001 / K, w @ p, p[:3]])
        answers[t] = u @ g
        c = int(y[t])
        for i, (expert, z_i) in enumerate(zip(experts, Z, strict=True)):
            off = (np.arange(K) == c) - softmax(outputs[i])
            q = v[i] * (off @ off)
            s, spread = step(outputs[i], v[i] * off, c, q)
            r = 1.0 / max(1e-13, max(0.4, 2.0 / K) * spread / (v[i] * q))
            expert.theta = np.zeros(len(z_i))
            expert.learn(z_i, v[i] + r, r)  # theta is now P z
            thetas[i] = thetas[i] + s * np.outer(off, expert.theta)
        off = z[:, c] - z @ softmax(margin)
        Pg = P @ off
        if off @ Pg > 1e-24:
            s, spread = step(margin, z.T @ Pg, c, off @ Pg)
            curvature = max(1e-13, spread / (off @ Pg) ** 2)
            theta = theta + s * Pg
            P = P - np.outer(Pg, Pg) / (off @ Pg + 1.0 / curvature)
        w, u = w * p[:, c], u * g[:, c]
        w, u = 0.999 * w / w.sum() + 0.001 / N, 0.999 * u / u.sum() + 0.001 / 5
        counts[c] += 1.0
        if t:
            after[c] += 1.0
    return answers


@pytest.mark.parametrize("n_classes", [2, K])
@pytest.mark.parametrize("d", [3, 257])
def test_it_is_what_the_docstring_says(n_classes, d):
    X, y = stream(80)
    y %= n_classes
    X = X if d == 3 else many_inputs(80, d)[0]
    X[30:40, 1] = np.nan
    labels = 2.0 * y - 1.0 if n_classes == 2 else y
    y_hat = learner(d, 3, n_classes).learn_rows(X, labels).y_hat
    np.testing.assert_allclose(
        probabilities_of(y_hat), plain(X, y, n_classes, 3), rtol=0, atol=1e-7
    )


def test_any_blocks_and_rows_one_by_one_give_the_same_bits_and_none_looks_ahead():
    X, y = stream()
    y[100:103] = np.nan  # rows without a label change nothing
    whole = learner(3).learn_rows(X, y).y_hat
    assert whole.shape == (300, K)
    split, one_by_one = learner(3), learner(3)
    parts = [split.learn_rows(X[rows], y[rows]) for rows in np.split(np.arange(300), [1, 99, 101])]
    np.testing.assert_array_equal(np.concatenate([part.y_hat for part in parts]), whole)
    probabilities = probabilities_of(whole)
    for t in range(99):
        one_by_one.predict_one(X[t])
        np.testing.assert_array_equal(one_by_one.probabilities, probabilities[t])
        one_by_one.learn_one(X[t], int(y[t]))
    np.testing.assert_array_equal(one_by_one.predict_proba(X[99:120])[0], probabilities[99])
    changed = np.where(np.arange(300) < 200, y, (y + 1) % K)
    np.testing.assert_array_equal(learner(3).learn_rows(X, changed).y_hat[:201], whole[:201])


def test_rows_of_many_inputs_are_the_same_one_by_one():
    X, y = many_inputs(400, 300)
    y = np.digitize(y, [-1.0, 0.0, 1.0]).astype(float)
    whole = learner(300).learn_rows(X, y).y_hat
    assert np.mean(whole.argmax(axis=1)[200:] == y[200:]) > 0.4
    one_by_one = learner(300)
    one_by_one.learn_rows(X[:350], y[:350])
    for t in range(350, 400):
        one_by_one.predict_one(X[t])
        np.testing.assert_array_equal(one_by_one.probabilities, probabilities_of(whole[[t]])[0])
        one_by_one.learn_one(X[t], int(y[t]))


def test_probabilities_sum_to_one_and_come_back_from_a_file(tmp_path):
    X, y = stream()
    names = np.array(["ash", "birch", "cedar", "date"])[y.astype(int)]
    given = {"task": "classification", "classes": ["ash", "birch", "cedar", "date"]}
    whole, half = (omkl.learner("auto", inputs=3, **given) for _ in range(2))
    whole.partial_fit(X[:200], names[:200])
    expected = whole.predict_proba(X[200:])
    np.testing.assert_allclose(expected.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    half.partial_fit(X[:150], names[:150])
    half.save(tmp_path / "model.npz")
    again = pickle.loads(pickle.dumps(omkl.load_learner(tmp_path / "model.npz")))
    again.partial_fit(X[150:200], names[150:200])
    np.testing.assert_array_equal(again.predict_proba(X[200:]), expected)
    assert again.predict_one(X[200]) in given["classes"]
    assert again.probabilities == pytest.approx(expected[0])
    np.testing.assert_array_equal(again.predict_proba(X[200:]), expected)


def test_one_learner_for_any_number_of_classes():
    """26 classes take one P for each expert, and are told apart."""
    rng = np.random.default_rng(5)
    centres, y = rng.standard_normal((26, 6)), rng.integers(0, 26, 1500)
    X = 3.0 * centres[y] + rng.standard_normal((1500, 6))
    many = learner(6, n_classes=26)
    y_hat = many.learn_rows(X, y.astype(float)).y_hat
    assert len(many.learners) == 1 and len(many.learners[0].state.model.experts.first.factor) == 10
    assert (y_hat.argmax(axis=1) != y)[500:].mean() < 0.05
    p = probabilities_of(y_hat)[np.arange(1500), y]
    assert -np.log(p[500:]).mean() < 0.2


def test_trees_learn_classes_that_are_cut_by_axes():
    """They sleep for 500 rows, and then know nearly all."""
    rng = np.random.default_rng(3)
    X = rng.random((6000, 5))
    y = 2.0 * (X[:, 0] > 0.5) + ((X[:, 1] > 0.3) ^ (X[:, 2] > 0.6))
    for classes in (y, np.where(y > 1.0, 1.0, 0.0) + np.where(X[:, 3] > 0.7, 1.0, 0.0)):
        K = int(classes.max()) + 1
        y_hat = learner(5, n_classes=K).learn_rows(X, classes).y_hat
        wrong = np.argmax(y_hat, axis=1) != classes
        assert wrong[4000:].mean() < 0.03 and wrong[:500].mean() > 0.1


def test_of_many_classes_there_are_no_trees():
    rng = np.random.default_rng(3)
    X, y = rng.random((700, 3)), rng.integers(0, 40, 700).astype(float)
    many = learner(3, n_classes=40)
    many.learn_rows(X, y)
    assert many.learners[0].state.model.trees.n[0] == 0
