"""Measure a client's round of every federated learner on one thread, and its least time.

The dictionary has 51 kernels, and D follows from 1000 numbers per round.
"""

from typing import Any, NamedTuple

import numpy as np

from benchmarks.setting import SEED, Rows
from benchmarks.timing import Spread, deciles, undisturbed
from omkl import federated
from omkl.checks import learners
from omkl.config.compose import Composer
from omkl.core import hyperparameters, kernels
from omkl.core.kernels import Kernel
from omkl.federated.protocol import MOST_FEATURES, FederatedAlgorithm, features_for
from omkl.federated.simulation import Federation

CLIENTS, ROUNDS = 23, 100
BUDGET = 1000  # numbers a round
Row = dict[str, Any]


class Case(NamedTuple):
    """A federated learner with the settings of its YAML."""

    algorithm: FederatedAlgorithm
    params: Any
    dictionary: tuple[Kernel, ...]
    d: int
    D: int

    def federation(self) -> Federation:
        return Federation(
            self.algorithm, self.params, self.dictionary, self.d, self.D, SEED, CLIENTS
        )


def case(name: str, dictionary: tuple[Kernel, ...], d: int) -> Case:
    algorithm = federated.load(name)
    sizes = {"N": len(dictionary), "D": MOST_FEATURES}
    built = hyperparameters.build(algorithm.Params, learners.default_settings(name), 500, sizes)
    used = algorithm.kernels(built, dictionary, d)
    D = features_for(algorithm, built, len(used), BUDGET) if used else 1
    return Case(algorithm, built, dictionary, d, D)


def measure(rows: Rows, seconds: float) -> list[Row]:
    """Measure every federated learner, and return a row for each.

    round_us   Spread of the microseconds of one client's round
    work       operations of a client's round, for ``limits.least``
    """
    chosen = Composer().compose(["kernels=rbf51"]).kernels
    dictionary = kernels.dictionary(chosen)
    n = min(ROUNDS, len(rows.y) // CLIENTS)
    X = np.ascontiguousarray(rows.X[: n * CLIENTS].reshape(n, CLIENTS, -1))
    y = np.ascontiguousarray(rows.y[: n * CLIENTS].reshape(n, CLIENTS))
    cases = [case(name, dictionary, X.shape[2]) for name in federated.names()]
    return [_row(given, X, y, seconds) for given in cases]


def _row(given: Case, X: np.ndarray, y: np.ndarray, seconds: float) -> Row:
    federation = given.federation()
    took = undisturbed(lambda: federation.partial_fit(X, y), seconds)
    N, W = federation.server.model.theta.shape
    if given.algorithm.kernels(given.params, given.dictionary, given.d):
        learned = len(federation.message.rows)
        learned = N if given.algorithm.name == "em_kofl" else learned
        work: dict[str, Any] = {"N": N, "D": given.D, "d": given.d, "learned": learned}
    else:
        work = {"parameters": W}
    return {
        "algorithm": given.algorithm.name,
        "clients": CLIENTS,
        "rounds": len(y),
        "round_us": Spread(*(1e6 * t / y.size for t in deciles(took))),
        "work": work,
    }
