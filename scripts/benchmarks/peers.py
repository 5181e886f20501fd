"""The same work in NumPy, measured in turns with omkl.

Same rows, same frequencies, same settings, one thread; a run starts before the first round.
"""

import os
from typing import Any

import numpy as np

from benchmarks import peers_numpy, setting
from benchmarks.setting import Case, Rows
from benchmarks.timing import Contestant, interleaved, ratios, spread
from omkl.utils.threads import one_thread_each

OURS, NUMPY = "omkl", "NumPy, vectorised over kernels"
GOAL = 40.0  # times omkl that NumPy takes
Row = dict[str, Any]


def selection_generator() -> np.random.Generator:
    """The generator from which a learner of ``setting.SEED`` draws its selection."""
    return np.random.default_rng(np.random.SeedSequence(setting.SEED).spawn(2)[1])


def frequencies(case: Case) -> np.ndarray:
    """(N, d, D), those of omkl for ``setting.SEED``."""
    return np.ascontiguousarray(case.features().omega)


def measure(rows: Rows, turns: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Microseconds a round of whole learners, selection included, and ratios to omkl.

    A turn of one of both takes so many seconds, or one run where that is longer.
    """
    first = Rows(rows.source, rows.X[:rounds], rows.y[:rounds])
    return {
        "turns": turns,
        "rounds": rounds,
        "N": len(setting.kernels()),
        "D": setting.D,
        "d": rows.X.shape[1],
        "processors": os.cpu_count(),
        "learners": [
            row for name in peers_numpy.SELECTIONS for row in _rows(name, first, turns, seconds)
        ],
    }


def _rows(name: str, rows: Rows, turns: int, seconds: float) -> list[Row]:
    case = setting.case(name, setting.kernels(), rows.X.shape[1], setting.D, len(rows.y))
    omega = frequencies(case)

    def ours() -> Any:
        learner = case.learner()
        return lambda: learner.partial_fit(rows.X, rows.y)

    def in_numpy() -> Any:
        selection = peers_numpy.SELECTIONS[name](case.params, case.dictionary, case.d)
        run = peers_numpy.vectorised(omega, selection, case.params, selection_generator())
        return lambda: run(rows.X, rows.y)

    both: dict[str, Contestant] = {OURS: ours, NUMPY: in_numpy}
    with one_thread_each():
        took = interleaved(both, turns, seconds)
    return [
        {
            "algorithm": name,
            "peer": peer,
            "round_us": spread([1e6 * t / len(rows.y) for t in of_peer]),
            "times": ratios(of_peer, took[OURS]),
            "goal": GOAL if peer == NUMPY else None,
        }
        for peer, of_peer in took.items()
    ]
