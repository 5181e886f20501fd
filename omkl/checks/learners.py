"""Check that algorithms without a federation conform to the rules of omkl.

>>> from omkl.checks import learners
>>> learners.run("raker")

``cases(name)`` yields these checks and those of ``shared`` for an algorithm, so that a test runner
can list them.
"""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from omkl import algorithms
from omkl.checks import shared
from omkl.checks.shared import DICTIONARY, FEATURES, INPUTS, Check, Skip
from omkl.core import graph_sampling, hyperparameters, protocol, snapshot
from omkl.core.compiler import compiled_for, specialise_on_first_call
from omkl.core.hyperparameters import EVALUATED_WITH, LEARNS_WITH, MAY_LEARN, NODE_WEIGHTS, TREES
from omkl.core.kernels import Kernel
from omkl.core.learner import Learner, empty_trace
from omkl.core.protocol import Algorithm
from omkl.core.representations import Representation
from omkl.core.representations.random_features import features_of
from omkl.utils.conf import default_settings

WIDE = tuple(
    Kernel(family, 10.0**b)
    for family in ("gaussian", "laplacian")
    for b in (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
)
ROUNDS = 400
# Learners with parameters may change in a late round: a graph can be frozen after round 300. A
# learner without parameters computes the same in all rounds, once its memory of targets is full.
ROUNDS_WITHOUT_PARAMETERS = 150
# With these settings every kernel is evaluated and predicts, and every target is requested.
FULL: dict[str, Any] = {"M": len(DICTIONARY), "delta": 0.0, "eta_c": 0.0, "rate": 1.0}


class Played(NamedTuple):
    """Result of T rounds in plain Python.

    y_hat       (T,) predictions
    evaluated   indices of the evaluated kernels of each round
    combined    indices of the kernels that each prediction combines
    """

    y_hat: np.ndarray
    evaluated: list[list[int]]
    combined: list[list[int]]


class Case(shared.Case):
    """Algorithm with the settings of its YAML file and a small dictionary."""

    n_rounds = ROUNDS

    def __init__(self, name: str, settings: dict[str, Any] | None = None) -> None:
        self.name = name
        self.settings = default_settings(name) if settings is None else settings
        self.algorithm: Algorithm = algorithms.load(name)
        self.loop = compiled_for(self.algorithm.Params, protocol.run_block)

    def params(self, N: int = len(DICTIONARY), T: int | None = None, **changes: Any) -> Any:
        """Return the parameters for N kernels, with ``M`` and ``rank`` at most N / 2."""
        cut = {key: min(self.settings.get(key, 1), max(1, N // 2)) for key in ("M", "rank")}
        return super().params(N, T, **cut | changes)

    @property
    def classifies(self) -> bool:
        return self.algorithm.task == "classification"

    @property
    def representation(self) -> Representation:
        return self.algorithm.representation

    def fields(self, annotation: Any) -> list[str]:
        """Return the names of the state's fields that have the given annotation.

        ``omkl.core.hyperparameters`` defines the annotations, such as ``EVALUATED_WITH``.
        """
        return hyperparameters.fields_with(self.algorithm.State, annotation)

    def stream(self, T: int = ROUNDS) -> tuple[np.ndarray, np.ndarray]:
        """Return the result of ``stream`` for T rows. Classifiers get the classes y > 0.5."""
        X, y = stream(T)
        return X, self.labels(y > 0.5) if self.classifies else y

    @property
    def many_rounds(self) -> int:
        return 100_000 if self.representation.bounded else 5_000  # a growing support takes T^2 time

    def labels(self, bits: np.ndarray) -> np.ndarray:
        return np.where(bits, 1.0, -1.0) if self.classifies else bits

    def opposite(self, y: np.ndarray) -> np.ndarray:
        return -y if self.classifies else 1.0 - y

    def learner(
        self,
        seed: int = 0,
        dictionary: tuple[Kernel, ...] = DICTIONARY,
        d: int = INPUTS,
        model: Any = None,
        T: int | None = None,
        **changes: Any,
    ) -> Learner:
        built = self.params(len(dictionary), T, **changes)
        return Learner(self.algorithm, built, dictionary, d, FEATURES, seed, model)

    def learned(self, learner: Learner) -> Any:
        return learner.state

    def weights(self, learner: Learner) -> list[np.ndarray]:
        return [learner.state.log_w]

    @property
    def rounds_to_play(self) -> int:
        has_any = any(value is not None for value in self.settings.values())
        return ROUNDS if has_any else ROUNDS_WITHOUT_PARAMETERS

    @functools.cached_property
    def played(self) -> Played:
        evaluated, combined = [], []

        def note(selection: protocol.Selection) -> Callable[[], None]:
            evaluated.append(selection.evaluate[: selection.n_evaluated[0]].tolist())
            combined.append(selection.combine[: selection.n_combined[0]].tolist())
            return lambda: None

        X, y = self.stream(self.rounds_to_play)
        return Played(play(self.learner(), X, y, note), evaluated, combined)

    def errors(self, y_hat: np.ndarray, y: np.ndarray) -> tuple[float, float]:
        if self.classifies:
            return float(np.mean(y_hat * y <= 0.0)), float(min(np.mean(y > 0.0), np.mean(y < 0.0)))
        return super().errors(y_hat, y)


def stream(T: int = ROUNDS, d: int = INPUTS, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return rows X (T, d) in the unit ball and targets y (T,) in [0, 1], a smooth function of x.

    Parameters
    ----------
    T, d
        Number of rows and of inputs.
    seed
        Seed of the rows.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(T, d)) / np.sqrt(d)
    y = 0.5 + 0.4 * np.sin(3.0 * X[:, 0]) * np.cos(2.0 * X[:, -1])
    return X, y


# --- Checks -------------------------------------------------------------------------------------


def check_state(case: Case) -> None:
    """Check that the state is a NamedTuple with the fields ``model`` and ``log_w``."""
    State = type(case.learner().state)
    assert issubclass(State, tuple) and {"model", "log_w"} <= set(get_type_hints(State))


def check_predict_is_pure(case: Case) -> None:
    """Check that ``predict`` changes neither state nor selection. A second call must agree."""
    learner = case.learner()
    X, y = case.stream()
    learner.partial_fit(X[:50], y[:50])
    params, state, selection, t = learner.params, learner.state, learner.selection, learner.t + 1
    protocol.select(params, state, t, learner.rng, selection)
    protocol.evaluate(state.model, X[50], selection)
    before = pickle.dumps((state, selection))
    first, second = (protocol.predict(params, state, t, selection) for _ in range(2))
    assert first == second
    assert pickle.dumps((state, selection)) == before


def check_predict_changes_nothing(case: Case) -> None:
    """Check that ``predict`` and ``predict_one`` agree on each row, and change nothing."""
    X, y = case.stream()
    learner = case.learner()
    for n in (0, 57, 190):
        learner.partial_fit(X[:n], y[:n])
        before = pickle.dumps(snapshot.snapshot(learner))
        y_hat = learner.predict(X[100:170])
        for s in range(0, 70, 3):
            assert np.array_equal(learner.predict_one(X[100 + s])[0], y_hat[s])
        assert pickle.dumps(snapshot.snapshot(learner)) == before


def check_predict_and_learn_apart(case: Case) -> None:
    """Check that ``predict_one`` and ``learn_one`` give the same results as ``partial_fit``.

    Some rows are learned without a prediction, further rows are predicted, and the learner is
    pickled. None of this may change a result.
    """
    X, y = case.stream()
    whole, apart = case.learner(), case.learner()
    trace = whole.partial_fit(X, y)
    for s in range(len(y)):
        if s % 7 == 0:
            apart.predict_one(X[-s])
        if s % 5 > 0:  # every fifth row is learned without a prediction
            assert apart.predict_one(X[s]) == (trace.y_hat[s], trace.asked[s])
            np.testing.assert_equal(apart.spread, trace.spread[s])
        if s % 11 == 0:
            apart.predict(X[:3])
        if s in (0, 63, 200):
            apart = pickle.loads(pickle.dumps(apart))
        assert apart.learn_one(X[s], y[s]) == trace.asked[s]
    np.testing.assert_array_equal(apart.state.log_w, whole.state.log_w)
    np.testing.assert_array_equal(apart.used, whole.used)
    assert (apart.t, apart.worst[0]) == (whole.t, whole.worst[0])


def check_snapshot(case: Case) -> None:
    """Check that a new learner continues from saved arrays with the same results."""
    X, y = case.stream()
    learner, expected = case.learner(), case.learner().partial_fit(X, y)
    traces = [learner.partial_fit(X[:277], y[:277])]
    file = io.BytesIO()
    np.savez(file, **snapshot.snapshot(learner))  # type: ignore[arg-type]
    file.seek(0)
    other = case.learner(seed=1)  # the arrays must replace all random numbers of this seed
    snapshot.restore(other, dict(np.load(file, allow_pickle=False)))
    shared.require_equal([*traces, other.partial_fit(X[277:], y[277:])], expected)
    for name, array in snapshot.snapshot(case.learner()).items():
        assert array.flags.c_contiguous, name


def check_widths(case: Case) -> None:
    """Check that blocks and single rows give the same results, for any number of features.

    Compiled code computes features in groups of equal size. Of the three tested numbers of
    features, one is a multiple of the size of a group, and two leave a remainder.
    """
    if not case.representation.draws_features:
        raise Skip("has no random features")
    X, y = case.stream(150)
    for D in (8, 11, 21):
        params = case.params(len(WIDE), len(y))
        blocks, rows = (Learner(case.algorithm, params, WIDE, INPUTS, D, seed=3) for _ in range(2))
        predictions = [
            blocks.partial_fit(X[part], y[part]).y_hat for part in (slice(77), slice(77, None))
        ]
        for s, y_hat in enumerate(np.concatenate(predictions)):
            assert np.array_equal(rows.predict_one(X[s])[0], y_hat), (D, s)
            rows.learn_one(X[s], y[s])
        assert pickle.dumps(rows.state) == pickle.dumps(blocks.state), D
        assert (rows.t, rows.worst[0]) == (blocks.t, blocks.worst[0])
        model = getattr(blocks.state.model, "rows", blocks.state.model)
        if hasattr(model, "norm2"):
            norm2 = (model.theta**2).sum(axis=1)
            np.testing.assert_allclose(model.norm2, norm2, rtol=1e-13, atol=1e-13)


def check_spread(case: Case) -> None:
    """Check that standard deviations exist from the third row on, and have the right size.

    The noise of the targets is normal with the variance that the parameters assume. So 90 % of the
    targets must lie within 1.645 standard deviations.
    """
    X, y = case.stream(4000)
    if not case.algorithm.has_spread:
        assert np.isnan(case.learner().partial_fit(X, y).spread).all()
        raise Skip("has no spread")
    noise = case.settings.get("noise", 0.01)
    y = y + np.sqrt(noise) * np.random.default_rng(4).standard_normal(len(y))
    learner = case.learner(T=len(y))
    y_hat, _, spread = learner.partial_fit(X, y)
    assert np.all(spread[2:] > 0.0) and np.all(np.isfinite(spread[2:]))
    assert np.all(np.isnan(spread[:2]) | (spread[:2] > 0.0))
    equal = case.learner().partial_fit(X[:20], np.zeros(20)).spread  # all errors are 0
    assert np.all(np.isnan(equal) | (equal > 0.0))
    covered = np.mean(np.abs(y_hat - y)[2000:] <= 1.645 * spread[2000:])
    assert 0.86 < covered < 0.94, covered
    np.testing.assert_array_equal(learner.predict_with_spread(X[:7])[0], learner.predict(X[:7]))


def check_honesty(case: Case) -> None:
    """Check that a learner uses only the kernels that it selects.

    In every round the frequencies of the kernels that are not selected are set to NaN. This must
    change neither the predictions nor the parameters theta of these kernels.
    """
    if not case.representation.draws_features:
        raise Skip("evaluates all kernels: there are no others")
    X, y = case.stream(case.rounds_to_play)
    learner = case.learner()

    def poison(selection: protocol.Selection) -> Callable[[], None]:
        model = learner.state.model
        others = np.ones(len(selection.f), dtype=bool)
        others[selection.evaluate[: selection.n_evaluated[0]]] = False
        omega, theta = model.omega[others].copy(), model.theta[others].copy()
        model.omega[others] = np.nan

        def restore() -> None:
            assert np.all(np.isnan(selection.f[others]))
            np.testing.assert_array_equal(model.theta[others], theta)
            model.omega[others] = omega

        return restore

    np.testing.assert_array_equal(play(learner, X, y, poison), case.played.y_hat)


def check_labels_not_asked_for(case: Case) -> None:
    """Check that the value of a target that was not requested does not matter."""
    X, y = case.stream()
    first = case.learner().partial_fit(X, y)
    if first.asked.all():
        raise Skip("asks for every label")
    other = np.where(first.asked, y, np.nan)
    second = case.learner().partial_fit(X, other)
    np.testing.assert_array_equal(second.y_hat, first.y_hat)
    np.testing.assert_array_equal(second.asked, first.asked)


def check_selection(case: Case) -> None:
    """Check that evaluated kernels are distinct, and that combined kernels are among them."""
    N = case.learner().state.model.n_kernels
    for chosen, combined in zip(case.played.evaluated, case.played.combined, strict=True):
        assert 1 <= len(combined) <= len(chosen) <= N
        assert len(set(chosen)) == len(chosen)
        assert set(combined) <= set(chosen) <= set(range(N))


def check_importance_weights(case: Case) -> None:
    """Check that kernel i is evaluated with the probability q_i in the state.

    A variable that is 1 / q_i in rounds that evaluate kernel i, and 0 in other rounds, must have
    the mean 1.
    """
    learner = case.learner()
    state, n, N = learner.state, 20_000, len(DICTIONARY)
    if not case.fields(EVALUATED_WITH):
        raise Skip("evaluates all kernels: there are no importance weights")
    (q,) = case.fields(EVALUATED_WITH)
    for field in ("log_w", *case.fields(NODE_WEIGHTS)):  # equal weights would hide wrong q
        getattr(state, field)[:] = -0.3 * np.arange(N)
    for field in case.fields(TREES):
        graph_sampling.stale(getattr(state, field))
    opened = opener(learner, state)
    weight = np.zeros((n, N))
    for k in range(n):
        opened(41)
        chosen = learner.selection.evaluate[: learner.selection.n_evaluated[0]]
        weight[k, chosen] = 1.0 / getattr(state, q)[chosen]
    error = np.abs(weight.mean(axis=0) - 1.0)
    assert np.all(error < 5.0 * weight.std(axis=0) / np.sqrt(n) + 1e-9), error


def opener(learner: Learner, state: Any) -> Callable[[int], None]:
    """Return a function that selects the kernels of round t, for a row of zeros.

    The function does not learn. Tens of thousands of selections therefore take a tenth of the time
    that as many learned rounds would take.
    """
    X, y, trace = np.zeros((1, INPUTS)), np.zeros(1), empty_trace(1)
    run_block = specialise_on_first_call(compiled_for(type(learner.params), protocol.run_block))

    def opened(t: int) -> None:
        # Features are computed for several rows ahead. Each round uses one of these rows.
        learner.state, _ = learner.prepared(learner.state, X, None)
        run_block(
            learner.params, state, t - 1, X, y, learner.rng, learner.selection, *trace,
            learner.used, learner.worst, protocol.OPEN,
        )  # fmt: skip

    return opened


def check_permutation(case: Case) -> None:
    """Check that the order of the dictionary does not matter."""
    X, y = case.stream()
    order = np.array([3, 0, 5, 1, 4, 2])
    if case.fields(MAY_LEARN):
        raise Skip("draws who learns: another order is another draw")
    reference = case.learner(**FULL)
    if tuple(case.algorithm.kernels(reference.params, DICTIONARY, INPUTS)) != DICTIONARY:
        raise Skip("its kernels are its own")
    y_hat = reference.partial_fit(X, y).y_hat
    if reference.used.min() < len(y):
        raise Skip("draws single kernels: another order is another draw")
    other = case.learner(dictionary=tuple(DICTIONARY[i] for i in order), **FULL)
    if case.representation.draws_features:  # the same features, in the other order
        other.state.model.omega[:] = reference.state.model.omega[order]
    np.testing.assert_allclose(other.partial_fit(X, y).y_hat, y_hat, rtol=0, atol=1e-10)


def check_permuted_graph(case: Case) -> None:
    """Check that the order of the dictionary does not matter with a feedback graph.

    Each kernel is a node of the graph and has a weight u. The settings avoid random numbers and
    ties. From the first round on, the node with the largest u is chosen, and no two nodes have
    equal u. With 8 inputs the overlaps of the kernels, which define the graph, differ by 30 orders
    of magnitude. The exploration xi is so small that ties in the dominating set do not matter.
    """
    if "explore" not in case.settings:
        raise Skip("there is no graph, or it never stops drawing")
    d, N = 8, len(WIDE)
    X, y = stream(200, d)
    order = np.random.default_rng(2).permutation(N)
    settings: dict[str, Any] = {"explore": 0, "xi": 1e-13, "M": 4, "rank": 3}

    def predictions(dictionary: tuple[Kernel, ...], model: Any, log_u: np.ndarray) -> np.ndarray:
        learner = case.learner(dictionary=dictionary, d=d, model=model, **settings)
        for field in case.fields(NODE_WEIGHTS):
            getattr(learner.state, field)[:] = log_u
        return learner.partial_fit(X, y).y_hat

    fresh = case.learner(dictionary=WIDE, d=d, **settings).state.model
    rows = {name: getattr(fresh, name)[order] for name in ("padded", "theta", "norm2")}
    permuted = fresh._replace(**rows)
    log_u = -1e-3 * np.arange(N)
    first = predictions(WIDE, pickle.loads(pickle.dumps(fresh)), log_u)
    second = predictions(tuple(WIDE[i] for i in order), permuted, log_u[order])
    np.testing.assert_allclose(second, first, rtol=0, atol=1e-9)


def check_one_kernel(case: Case) -> None:
    """Check that a learner with one kernel equals a simple algorithm.

    A classifier must equal a Perceptron. A regressor with a step size must equal online gradient
    descent, and a regressor without a step size must equal ridge regression.
    """
    X, y = case.stream()
    one = (Kernel("gaussian", 0.5),)
    if len(case.algorithm.kernels(case.params(1), one, INPUTS)) > 1:
        raise Skip("its kernels are its own")
    if case.classifies:
        return _is_a_perceptron(case, X, y)
    learner = case.learner(dictionary=one, **(FULL | {"M": 1}))
    if "eta" not in case.settings and case.representation.draws_features:
        return _is_a_ridge_regression(case, X, y)
    if not {"eta", "lam"} <= case.settings.keys():
        raise Skip("has no step eta and penalty lam by name: its descent is not known here")
    if not case.representation.draws_features:
        if tuple(case.algorithm.kernels(learner.params, one, INPUTS)) != one:
            raise Skip("its only kernel is its own")
        rbf = Case("rbf", {"eta": case.settings["eta"], "bandwidth": 2.0 * one[0].bandwidth})
        expected = rbf.learner().partial_fit(X, y).y_hat
        np.testing.assert_allclose(learner.partial_fit(X, y).y_hat, expected, rtol=0, atol=1e-12)
        return
    omega = learner.state.model.omega[0].copy()
    z = features_of(omega, X)
    theta = np.zeros(z.shape[1])
    expected = np.empty(len(y))
    for s in range(len(y)):
        eta = learner.params.eta
        eta = eta if isinstance(eta, float) else hyperparameters.rate(eta, s + 1)
        expected[s] = z[s] @ theta
        gradient = 2.0 * (expected[s] - y[s]) * z[s] + 2.0 * learner.params.lam * theta
        theta -= eta * gradient
    np.testing.assert_allclose(learner.partial_fit(X, y).y_hat, expected, rtol=0, atol=1e-11)


def _is_a_ridge_regression(case: Case, X: np.ndarray, y: np.ndarray) -> None:
    """Compare predictions after the last row with those of a batch ridge regression.

    The learner neither forgets (``decay=1``) nor assumes that theta changes (``walk`` near 0).
    """
    learner = case.learner(dictionary=(Kernel("gaussian", 0.5),), decay=1.0, walk=1e-15)
    z = features_of(learner.state.model.omega[0].copy(), X)
    settings = case.settings
    if "lam" not in settings and not {"noise", "prior"} <= settings.keys():
        raise Skip("has no lam, and no noise and prior: its penalty is not known here")
    lam = settings["lam"] if "lam" in settings else settings["noise"] / settings["prior"]
    expected = np.linalg.solve(lam * np.eye(z.shape[1]) + z.T @ z, z.T @ y)
    learner.partial_fit(X, y)
    theta = learner.state.model.theta[0, : z.shape[1]]
    np.testing.assert_allclose(z @ theta, z @ expected, rtol=0, atol=1e-8)


def _is_a_perceptron(case: Case, X: np.ndarray, y: np.ndarray) -> None:
    """Compare predictions with a Perceptron that is computed from the Gram matrix of the kernel.

    The limit R of the classifier's norm is so large that it has no effect.
    """
    one = (Kernel("gaussian", 0.5),)
    learner = case.learner(dictionary=one, R=1e9)
    K = one[0].gram(X, X)
    if case.representation.draws_features:
        z = features_of(learner.state.model.omega[0].copy(), X)
        K = z @ z.T
    alpha, expected = np.zeros(len(y)), np.empty(len(y))
    for s in range(len(y)):
        expected[s] = np.sign(K[s] @ alpha)
        alpha[s] = y[s] if y[s] * expected[s] <= 0.0 else 0.0
    y_hat = learner.partial_fit(X, y).y_hat
    np.testing.assert_array_equal(np.sign(y_hat), expected)
    assert learner.state.updates[0] == np.count_nonzero(alpha)


def check_draws(case: Case) -> None:
    """Check that kernels are drawn for learning with the probabilities in the state."""
    learner = case.learner()
    if not case.fields(MAY_LEARN):
        raise Skip("draws nobody")
    state, n, N = learner.state, 20_000, len(DICTIONARY)
    drawn, p = (getattr(state, case.fields(kind)[0]) for kind in (MAY_LEARN, LEARNS_WITH))
    state.log_w[:] = -0.3 * np.arange(N)  # equal weights would hide wrong probabilities
    counts, opened = np.zeros(N), opener(learner, state)
    for _ in range(n):
        opened(41)
        if len(drawn) == 1:
            counts[drawn[0]] += 1
        else:
            counts += drawn
    error = np.abs(counts / n - p)
    assert np.all(error < 5.0 * np.sqrt(p * (1.0 - p) / n) + 1e-12), error
    q = np.exp(state.log_w) / np.exp(state.log_w).sum()
    delta, floor = learner.params.delta, 1.0 / N if len(drawn) == 1 else 1.0
    np.testing.assert_allclose(p, (1.0 - delta) * q + delta * floor, rtol=1e-12)


def check_complete_graph(case: Case) -> None:
    """Check that a learner equals Raker if it evaluates all kernels and requests all targets."""
    steps_by_gradient = {"eta", "lam"} <= case.settings.keys()
    if not case.representation.draws_features or case.classifies or not steps_by_gradient:
        raise Skip("there is no graph")
    X, y = case.stream()
    learner = case.learner(**FULL)
    y_hat = learner.partial_fit(X, y).y_hat
    if learner.used.min() < len(y):
        raise Skip("draws with replacement: no setting makes it evaluate every kernel")
    raker = Case("raker", default_settings("raker") | {"lam": case.settings["lam"]})
    np.testing.assert_allclose(
        y_hat, raker.learner(eta=case.settings["eta"]).partial_fit(X, y).y_hat, atol=1e-10
    )


def play(
    learner: Learner,
    X: np.ndarray,
    y: np.ndarray,
    spy: Callable[[protocol.Selection], Callable[[], None]] | None = None,
) -> np.ndarray:
    """Run the loop of a learner in plain Python, and return its predictions (T,).

    Parameters
    ----------
    learner
        Learner, which is updated.
    X, y
        Rows (T, d) and targets (T,).
    spy
        Function that is called with the selection of each round. It returns a function, which is
        called at the end of the round.
    """
    y_hat = np.empty(len(y))
    for s in range(len(y)):
        learner.t += 1
        selection = learner.selection
        learner.state, _ = learner.prepared(learner.state, X[s : s + 1], None)
        parameters, state, t = learner.params, learner.state, learner.t
        protocol.select(parameters, state, t, learner.rng, selection)
        after = spy(selection) if spy else None
        protocol.evaluate(state.model, X[s], selection)
        y_hat[s], asked = protocol.predict(parameters, state, t, selection)
        protocol.update(parameters, state, t, y[s] if asked else np.nan, selection)
        if after:
            after()
    return y_hat


CHECKS = shared.with_shared(globals())


def names() -> list[str]:
    """Return the names of the algorithms that this suite checks."""
    return algorithms.names()


def cases(name: str) -> Iterator[Check]:
    """Yield all checks for an algorithm."""
    return shared.declared(algorithms.load(name), CHECKS)


def run(name: str, settings: dict[str, Any] | None = None) -> None:
    """Run all checks for one algorithm. AssertionError names the first failure."""
    shared.run(Case(name, settings), cases(name))
