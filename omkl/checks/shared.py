"""Define the checks that every algorithm must pass, with or without a federation.

A check is a function of a ``Case``, which contains an algorithm and makes streams and learners for
it. ``partial_fit`` of a learner returns a trace: a NamedTuple of arrays with one entry per round,
such as ``y_hat``.

An algorithm may declare, with a reason, that it fails a check. If the check passes nevertheless,
this is a failure too.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np

from omkl.core import compiler
from omkl.core.hyperparameters import build
from omkl.core.kernels import Kernel
from omkl.utils import registry

SECTIONS = ("Paper", "Task", "Round", "Symbols", "Cost", "Bound", "Differs")
DICTIONARY = tuple(
    [Kernel("gaussian", b) for b in (0.05, 0.3, 1.0, 5.0)]
    + [Kernel("laplacian", b) for b in (0.5, 3.0)]
)
INPUTS, FEATURES = 3, 8


class Case(Protocol):
    """Algorithm to check, with its streams and learners. Each suite defines a subclass.

    name            name in ``algorithm=``
    settings        settings of its YAML file, without the name
    algorithm       the registered algorithm
    loop            compiled loop that its learners run
    n_rounds        default number of rounds of a stream
    many_rounds     number of rounds of random targets after which all numbers must be finite
    rounds_to_play  number of rounds that are run in plain Python
    """

    name: str
    settings: dict[str, Any]
    algorithm: Any
    loop: Any
    n_rounds: int

    @property
    def many_rounds(self) -> int: ...

    @property
    def rounds_to_play(self) -> int: ...

    @property
    def played(self) -> Any:
        """Trace of a new learner that runs ``stream(rounds_to_play)`` in plain Python; cached."""

    def stream(self, T: int = ...) -> tuple[np.ndarray, np.ndarray]:
        """Return rows X in the unit ball and targets y for T rounds. A row has INPUTS numbers."""

    def learner(self, seed: int = ..., **changes: Any) -> Any:
        """Return a new learner.

        ``changes`` are ``dictionary``, the number of inputs ``d``, the number of rounds ``T``, and
        parameters of the algorithm.
        """

    def learned(self, learner: Any) -> Any:
        """Return all learned arrays of a learner."""

    def weights(self, learner: Any) -> list[np.ndarray]:
        """Return the arrays of a learner that must stay finite."""

    def params(self, N: int = len(DICTIONARY), T: int | None = None, **changes: Any) -> Any:
        """Return the parameters for N kernels and T rounds.

        A change of a parameter that the algorithm does not have is ignored.
        """
        applicable = {key: value for key, value in changes.items() if key in self.settings}
        sizes = {"N": N, "D": FEATURES}
        return build(self.algorithm.Params, self.settings | applicable, T or self.n_rounds, sizes)

    def labels(self, bits: np.ndarray) -> np.ndarray:
        """Convert an array of 0 and 1 to targets."""
        return bits

    def opposite(self, y: np.ndarray) -> np.ndarray:
        """Return targets that differ from y in every row."""
        return 1.0 - y

    def errors(self, y_hat: np.ndarray, y: np.ndarray) -> tuple[float, float]:
        """Return the mean error of the predictions, and that of the best constant prediction."""
        return float(np.mean((y_hat - y) ** 2)), float(np.var(y))


class Check(NamedTuple):
    name: str
    function: Callable[[Any], None]
    expected_failure: str | None


class Skip(Exception):
    """Raised by a check that does not apply. The message states the reason."""


class Outcome(NamedTuple):
    """Outcome of a check.

    status   "passed", "skipped", "declared" (it failed as declared) or "failed"
    reason   explanation; "" if the check passed
    error    exception of a failed check, if there is one
    """

    status: str
    reason: str = ""
    error: Exception | None = None


# --- Checks -------------------------------------------------------------------------------------


def check_interface(case: Case) -> None:
    """Check that docstring and YAML file are complete: sections, symbols and parameters."""
    text = registry.docstring(case.name)
    missing = [s for s in SECTIONS if not any(x.startswith(s) for x in text.splitlines())]
    assert not missing, f"the docstring lacks {missing}"
    symbols = text[text.index("\nSymbols") : text.index("\nCost")]
    fields = case.algorithm.Params._fields
    folder = case.name.rpartition("/")[0]
    missing = unexplained(fields, f"{symbols} {registry.FOLDERS.get(f'{folder}/', '')}")
    assert not missing, f"Symbols does not explain {missing}"
    assert set(case.settings) == set(fields), "the YAML's keys are not the fields of Params"


def unexplained(fields: Iterable[str], symbols: str) -> list[str]:
    """Return the fields that do not occur as words in a text ("M" does not occur in "OMKL")."""
    words = set(re.findall(r"\w+", symbols))
    return [field for field in fields if field not in words]


def check_bounded_memory(case: Case) -> None:
    """Check that a learner takes as much memory after 1,000 rounds as after 10 rounds."""
    X, y = case.stream(1000)
    learner = case.learner(T=1000)
    learner.partial_fit(X[:10], y[:10])
    early = len(pickle.dumps(case.learned(learner)))
    learner.partial_fit(X[10:], y[10:])
    assert len(pickle.dumps(case.learned(learner))) == early


def check_no_second_compilation(case: Case) -> None:
    """Check that no code is compiled again for other dictionaries, inputs, seeds and settings."""
    X, y = case.stream()
    case.learner().partial_fit(X, y)
    before = compiler.n_specialisations(case.loop)
    case.learner(seed=3, lam=0.1).partial_fit(X[:7], y[:7])
    case.learner(dictionary=DICTIONARY[:2], d=1).partial_fit(X[..., :1], y)
    assert compiler.n_specialisations(case.loop) == before


def check_pickle_and_resume(case: Case) -> None:
    """Check that a learner that was pickled within a stream continues with the same results."""
    X, y = case.stream()
    n = len(y) - 67
    learner, expected = case.learner(), case.learner().partial_fit(X, y)
    head = learner.partial_fit(X[:n], y[:n])
    require_equal([head, pickle.loads(pickle.dumps(learner)).partial_fit(X[n:], y[n:])], expected)


def check_blocks(case: Case) -> None:
    """Check that results are the same, to the last bit, for blocks of 1, 7 and T rounds."""
    X, y = case.stream()
    expected = case.learner().partial_fit(X, y)
    for size in (1, 7):
        require_equal(in_blocks(case.learner(), X, y, size), expected)


def check_threads(case: Case) -> None:
    """Check that eight seeds give the same results, to the last bit, on 8 threads and on one."""
    X, y = case.stream()

    def one(seed: int) -> Any:
        return case.learner(seed).partial_fit(X, y)

    alone = [one(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for trace, expected in zip(pool.map(one, range(8)), alone, strict=True):
            require_equal([trace], expected)


def check_python_equals_compiled(case: Case) -> None:
    """Check that plain Python and compiled code give the same predictions, up to 1e-12."""
    X, y = case.stream(case.rounds_to_play)
    compiled = case.learner().partial_fit(X, y).y_hat
    np.testing.assert_allclose(case.played.y_hat, compiled, rtol=0, atol=1e-12)


def check_causality(case: Case) -> None:
    """Check that a prediction does not depend on its own target or on later targets."""
    X, y = case.stream()
    first = case.learner().partial_fit(X, y).y_hat
    for s in (0, 1, 57, len(y) - 1):
        other = y.copy()
        other[s:] = case.opposite(y[s:])
        np.testing.assert_array_equal(
            case.learner().partial_fit(X, other).y_hat[: s + 1], first[: s + 1]
        )


def check_extreme_losses(case: Case) -> None:
    """Check that numbers stay finite in many rounds with random targets of 0 and 1."""
    rng = np.random.default_rng(5)
    X, y = case.stream(case.many_rounds)
    X = rng.uniform(-1.0, 1.0, size=X.shape) / np.sqrt(INPUTS)
    y = case.labels(rng.integers(0, 2, size=y.shape).astype(float))
    learner = case.learner(T=case.many_rounds)
    assert np.all(np.isfinite(learner.partial_fit(X, y).y_hat))
    assert all(np.all(np.isfinite(array)) for array in case.weights(learner))


def check_degenerate(case: Case) -> None:
    """Check that results are finite for one input, one kernel, one round, constant x, and x = 0."""
    X, y = case.stream()
    for learner, inputs, labels in (
        (case.learner(d=1), X[..., :1], y),
        (case.learner(dictionary=(Kernel("gaussian", 1.0),)), X, y),
        (case.learner(), np.ones_like(X) / 2.0, y),
        (case.learner(), np.zeros_like(X), y),
        (case.learner(), X[:1], y[:1]),
    ):
        trace = learner.partial_fit(inputs, labels)
        for name, array in trace._asdict().items():
            if name == "spread":  # NaN before the first error, or in all rounds
                array = array[2:][: 0 if np.isnan(array[2:]).all() else None]
            assert np.isfinite(array).all(), name
        assert trace.y_hat.shape == labels.shape


def check_first_prediction(case: Case) -> None:
    """Check that the prediction before the first target is 0."""
    X, y = case.stream()
    assert np.all(case.learner().partial_fit(X[:1], y[:1]).y_hat == 0.0)


def check_learns(case: Case) -> None:
    """Check that the learner learns a smooth function.

    In the last third of the stream its error must be less than half the error of the best constant.
    """
    X, y = case.stream(6000)
    y_hat = case.learner(T=6000).partial_fit(X, y).y_hat
    error, of_a_constant = case.errors(y_hat[4000:], y[4000:])
    assert error < 0.5 * of_a_constant


# --- Helpers of checks --------------------------------------------------------------------------


def in_blocks(learner: Any, X: np.ndarray, y: np.ndarray, size: int) -> list[Any]:
    """Learn rows in blocks, and return the trace of each block.

    Parameters
    ----------
    learner
        Learner, which is updated.
    X, y
        Rows and targets.
    size
        Number of rounds of a block, >= 1.
    """
    return [learner.partial_fit(X[s : s + size], y[s : s + size]) for s in range(0, len(y), size)]


def require_equal(traces: list[Any], expected: Any) -> None:
    """Require that the joined traces of blocks equal the expected trace, to the last bit."""
    for name, array in expected._asdict().items():
        ours = np.concatenate([getattr(trace, name) for trace in traces])
        np.testing.assert_array_equal(ours, array)


def require_refusal(message: str, make: Callable[[], Any]) -> None:
    """Require that ``make`` raises a ValueError that contains the message."""
    try:
        make()
    except ValueError as error:
        assert message in str(error), f"it is refused with {str(error)!r}"
    else:
        raise AssertionError(f"{message}: it is accepted")


def checks_in(scope: Mapping[str, Any]) -> dict[str, Callable[[Any], None]]:
    """Return the functions ``check_NAME`` of the module with the globals ``scope``, by NAME."""
    return {
        name.removeprefix("check_"): function
        for name, function in scope.items()
        if name.startswith("check_")
    }


CHECKS = checks_in(globals())


def with_shared(scope: Mapping[str, Any]) -> dict[str, Callable[[Any], None]]:
    """Return the checks of this module and of the module with the globals ``scope``.

    Their names must differ.
    """
    checks = checks_in(scope)
    assert not set(checks) & set(CHECKS)
    return CHECKS | checks


def declared(algorithm: Any, checks: Mapping[str, Callable[[Any], None]]) -> Iterator[Check]:
    """Yield each check, with the reason if the algorithm declares that it fails the check."""
    failures: Mapping[str, str] = algorithm.expected_failures
    if unknown := set(failures) - set(checks):
        raise ValueError(
            f"{algorithm.module} declares failures of checks that do not exist: {unknown}"
        )
    for name, function in checks.items():
        yield Check(name, function, failures.get(name))


def outcome(case: Case, check: Check) -> Outcome:
    """Run one check."""
    try:
        check.function(case)
    except Skip as why:
        return Outcome("skipped", str(why))
    except Exception as error:
        if check.expected_failure is not None and isinstance(error, AssertionError):
            return Outcome("declared", check.expected_failure, error)
        return Outcome("failed", str(error) or type(error).__name__, error)
    if check.expected_failure is not None:
        return Outcome("failed", "it passes, and is declared to fail")
    return Outcome("passed")


def run(case: Case, checks: Iterable[Check]) -> None:
    """Run all checks of one algorithm. AssertionError names the first failure."""
    for check in checks:
        result = outcome(case, check)
        if result.status == "failed":
            raise AssertionError(f"{case.name}, {check.name}: {result.reason}") from result.error
