"""The same work elsewhere: NumPy, scikit-learn and river, measured in turns with omkl.

Same rows, same frequencies, same settings; a run starts before the first round. omkl runs
one seed on one thread, and separately many seeds on all cores, a thread each. What is not
installed is reported as that.
"""

import importlib.util
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

import numpy as np

from benchmarks import peers_numpy, setting
from benchmarks.setting import Case, Rows
from benchmarks.timing import Contestant, interleaved, ratios, spread
from omkl.utils.threads import default_threads, one_thread_each

VECTORISED, LOOP = "NumPy, vectorised over kernels", "NumPy, a loop over kernels"
SCIKIT_LEARN = "scikit-learn, RBFSampler + SGDRegressor"
RIVER, RIVER_SAMPLER = "river, LinearRegression", "river, RBFSampler | LinearRegression"
GOALS = {VECTORISED: 40.0, LOOP: 250.0, SCIKIT_LEARN: 1000.0, RIVER: 1000.0, RIVER_SAMPLER: 1000.0}
SEEDS_A_CORE = 8  # of omkl, where all cores are used
Row = dict[str, Any]


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def versions() -> dict[str, str]:
    """Of the peers; "not installed" where they are not."""
    names = {"numpy": "numpy", "scikit-learn": "sklearn", "river": "river"}
    return {
        name: version(name) if installed(module) else "not installed"
        for name, module in names.items()
    }


def selection_generator() -> np.random.Generator:
    """The generator from which a learner of ``setting.SEED`` draws its selection."""
    return np.random.default_rng(np.random.SeedSequence(setting.SEED).spawn(2)[1])


def frequencies(case: Case) -> np.ndarray:
    """(N, d, D), those of omkl for ``setting.SEED``."""
    return np.ascontiguousarray(case.features().omega)


def of_learners(rows: Rows, turns: int, seconds: float) -> list[Row]:
    """Microseconds a round of whole learners, selection included, and ratios to omkl."""
    found = []
    for name in peers_numpy.SELECTIONS:
        case = setting.case(name, setting.kernels(), rows.X.shape[1], setting.D, len(rows.y))
        contestants, seeds = _contestants(name, case, rows)
        with one_thread_each():
            took = interleaved(contestants, turns, seconds)
        found += _rows(name, took, len(rows.y), seeds)
    return found


OURS = "omkl, one thread"


def _contestants(name: str, case: Case, rows: Rows) -> tuple[dict[str, Contestant], dict[str, int]]:
    """Whom to measure, and how many seeds each runs (one where nothing is said)."""
    omega = frequencies(case)
    cores = default_threads()
    everyone: dict[str, Contestant] = {OURS: lambda: _ours(case, rows, 1)}
    seeds = {}
    if cores > 1:
        together = f"omkl, {SEEDS_A_CORE * cores} seeds on {cores} cores"
        everyone[together] = lambda: _ours(case, rows, SEEDS_A_CORE * cores)
        seeds[together] = SEEDS_A_CORE * cores

    def numpy_form(form: Callable[..., Any]) -> Contestant:
        def prepare() -> Callable[[], Any]:
            selection = peers_numpy.SELECTIONS[name](case.params, case.dictionary, case.d)
            run = form(omega, selection, case.params, selection_generator())
            return lambda: run(rows.X, rows.y)

        return prepare

    everyone[VECTORISED] = numpy_form(peers_numpy.vectorised)
    everyone[LOOP] = numpy_form(peers_numpy.looped)
    return everyone, seeds


def _ours(case: Case, rows: Rows, seeds: int) -> Callable[[], Any]:
    learners = [case.learner(seed) for seed in range(seeds)]
    if seeds == 1:
        return lambda: learners[0].partial_fit(rows.X, rows.y)

    def run() -> None:
        with ThreadPoolExecutor(default_threads()) as pool:
            list(pool.map(lambda learner: learner.partial_fit(rows.X, rows.y), learners))

    return run


def _rows(
    name: str, seconds: dict[str, list[float]], rounds: int, seeds: dict[str, int]
) -> list[Row]:
    found = []
    each = {peer: [t / seeds.get(peer, 1) for t in took] for peer, took in seconds.items()}
    for peer, took in each.items():
        row: Row = {
            "algorithm": name,
            "peer": peer,
            "round_us": spread([1e6 * t / rounds for t in took]),
            "times": ratios(took, each[OURS]),
            "goal": GOALS.get(peer),
        }
        found.append(row)
    return found


def of_kernels(rows: Rows, turns: int, seconds: float) -> list[Row]:
    """Microseconds a kernel and round, and ratios to Raker's round over its N kernels."""
    dictionary = setting.kernels()
    N = len(dictionary)
    case = setting.case("raker", dictionary, rows.X.shape[1], setting.D, len(rows.y))
    one = np.ascontiguousarray(frequencies(case)[N // 2])
    contestants: dict[str, Contestant] = {OURS: lambda: _ours(case, rows, 1)}
    missing = []

    def add(peer: str, package: str, stream: str) -> None:
        if not installed(package):
            missing.append({"peer": peer, "missing": "not installed", "goal": GOALS[peer]})
            return
        from benchmarks import peers_libraries

        run = getattr(peers_libraries, stream)(one, case.params)
        contestants[peer] = lambda: lambda: run(rows.X, rows.y)

    add(SCIKIT_LEARN, "sklearn", "scikit_learn")
    add(RIVER, "river", "river")
    add(RIVER_SAMPLER, "river", "river_sampler")
    with one_thread_each():
        took = interleaved(contestants, turns, seconds)
    took[OURS] = [t / N for t in took[OURS]]
    found = _rows("raker", took, len(rows.y), {})
    return found + missing


def measure(
    rows: Rows, turns: int, rounds: int, rounds_of_libraries: int, seconds: float
) -> dict[str, Any]:
    """Both tables; a turn of one peer takes so many seconds, or one run where that is longer.

    scikit-learn and river are slow and get fewer rounds.
    """
    first = Rows(rows.source, rows.X[:rounds], rows.y[:rounds])
    fewer = Rows(rows.source, rows.X[:rounds_of_libraries], rows.y[:rounds_of_libraries])
    return {
        "versions": versions(),
        "turns": turns,
        "rounds": rounds,
        "rounds_of_libraries": rounds_of_libraries,
        "N": len(setting.kernels()),
        "D": setting.D,
        "d": rows.X.shape[1],
        "processors": os.cpu_count(),
        "learners": of_learners(first, turns, seconds),
        "kernels": of_kernels(fewer, turns, seconds),
    }
