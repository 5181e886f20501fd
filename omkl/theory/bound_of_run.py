"""What a theorem of ``regret_bounds`` says of a finished run, from its folder alone.

``bound_of_run`` evaluates the theorem with the run's own settings, ``assumptions`` says which
of its conditions hold there, ``fitted_slope`` is what the run's regret does instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from omkl.runs.folder import Run
from omkl.theory.feature_errors import (
    LARGEST_EPSILON,
    PROBABILITY,
    second_moment,
    smallest_epsilon,
)
from omkl.theory.regret_bounds import (
    THEOREMS,
    coefficient_bound,
    gradient_bound,
    theorem2,
    theorem5,
    theorem6,
    theta_norm_bound,
    unproved,
)


@dataclass(frozen=True)
class Bound:
    """A theorem evaluated for a run.

    ``value`` (P,) is the right-hand side against the best function of the random features
    after each recorded round ``t`` (P,); ``full`` the theorem's own, against the best
    function of the kernel's space, after the last round. ``constants`` are what went in,
    ``notes`` how they were chosen.
    """

    theorem: str
    t: np.ndarray
    value: np.ndarray
    full: float
    epsilon: float
    constants: Mapping[str, float]
    notes: tuple[str, ...]


class Evaluated(NamedTuple):
    """A right-hand side: ``value`` (P,) and ``full`` as in ``Bound``, and what it adds to them."""

    value: np.ndarray
    full: float
    constants: Mapping[str, float]
    notes: tuple[str, ...] = ()


class Constants(NamedTuple):
    """What goes into every right-hand side; eta and exploration (P,) are means over rounds 1..t."""

    eta: np.ndarray
    exploration: np.ndarray
    L: float
    theta_norm: float
    C: float
    epsilon: float


def bound_of_run(run: Run) -> Bound | None:
    """The theorem of the run's algorithm with the run's constants; None where there is none.

    Made for losses in [0, 1], so for targets scaled to [0, 1]: see ``assumptions``. L is
    what (as2) implies, or follows from the largest squared error where that is above 1;
    ||theta*|| and C are bounded from the comparators' errors. None too where rows of the stream
    made the graph.
    """
    name = run.result["algorithm"]
    if name not in RIGHT_HAND_SIDES or not run.complete:
        return None
    result, params = run.result, run.result["params"]
    T, lam = result["n_rounds"], float(params["lam"])
    gap = unproved(name, params)
    notes = [] if gap is None else [f"{THEOREMS[name].source} is unproved: {gap}"]
    rates = [_mean_schedule(params[key], T) for key in ("eta", exploration_of(params))]
    eta, exploration = (rate[run.curves["t"] - 1] for rate in rates)
    if np.ptp(eta) or np.ptp(exploration):
        notes.append(
            "the theorem has constant rates; for those that decay their mean over rounds 1..t "
            "is put in their place, for which nothing is proved"
        )
    L = gradient_bound(lam, max(1.0, result["max_squared_error"]))
    ridge = float(run.config["regret"]["lam"])  # of the comparators
    norms = [theta_norm_bound(ridge, mse) for mse in _comparator_mse(run, "ridge_features")]
    theta_norm = max(norms, default=theta_norm_bound(ridge, None))
    sums = [coefficient_bound(ridge, mse) for mse in _comparator_mse(run, "kernel_ridge")]
    C = max(sums, default=coefficient_bound(ridge, 1.0))
    epsilon = min(_epsilon(run), LARGEST_EPSILON)
    if epsilon == LARGEST_EPSILON:
        notes.append(
            f"with D={result['D']} no epsilon below 2 has probability {PROBABILITY:g}, and 2 "
            "holds always: the random features promise nothing"
        )
    found = RIGHT_HAND_SIDES[name](run, Constants(eta, exploration, L, theta_norm, C, epsilon))
    if found is None:
        return None
    constants = {"L": L, "theta_norm": theta_norm, "C": C, "lam": lam, **found.constants}
    notes += found.notes
    source, t = THEOREMS[name].source, run.curves["t"]
    return Bound(source, t, found.value, found.full, epsilon, constants, tuple(notes))


def _theorem2(run: Run, given: Constants) -> Evaluated:
    J = int(run.result["params"]["J"])
    fixed = {"N": run.result["n_kernels"], "J": J, "L": given.L, "theta_norm": given.theta_norm}
    value = theorem2(T=run.curves["t"], eta=given.eta, eta_e=given.exploration, **fixed)
    last = {"T": run.result["n_rounds"], "eta": given.eta[-1], "eta_e": given.exploration[-1]}
    full = theorem2(**last, epsilon=given.epsilon, C=given.C, **fixed)
    return Evaluated(value, float(full), {"J": J})


def _theorem5(run: Run, given: Constants) -> Evaluated | None:
    size = _dominating_set_size(run)
    if size is None:
        return None
    T, xi = run.result["n_rounds"], given.exploration
    fixed = {"N": run.result["n_kernels"], "n_out": int(run.result["params"]["M"]), "L": given.L}
    value = theorem5(
        T=run.curves["t"], eta=given.eta, xi=xi, C=given.theta_norm, inverse_q=size / xi, **fixed
    )
    last = {"eta": given.eta[-1], "xi": xi[-1], "inverse_q": size / xi[-1]}
    full = theorem5(T=T, C=given.C, epsilon=given.epsilon, **last, **fixed)
    note = f"1/q and 1/q-bar at their worst, |dominating set| / xi with {size} nodes in the set"
    return Evaluated(value, float(full), {"dominating_set": size}, (note,))


def _theorem6(run: Run, given: Constants) -> Evaluated:
    N = run.result["n_kernels"]
    fixed = {"N": N, "beta": 1 / N, "L": given.L}
    value = theorem6(
        T=run.curves["t"], eta=given.eta, xi=given.exploration, C=given.theta_norm, **fixed
    )
    last = {"T": run.result["n_rounds"], "eta": given.eta[-1], "xi": given.exploration[-1]}
    full = theorem6(**last, C=given.C, epsilon=given.epsilon, **fixed)
    note = "beta at 1/N, the largest and most favourable value that it allows"
    return Evaluated(value, float(full), {"beta": 1 / N}, (note,))


# Of the released code no theorem speaks, so names count as they are.
RIGHT_HAND_SIDES: Mapping[str, Callable[[Run, Constants], Evaluated | None]] = {
    "gf": _theorem2,
    "sfg": _theorem5,
    "sfg_r": _theorem6,
}


@dataclass(frozen=True)
class Assumption:
    """A condition of the theorems; ``holds`` is None where the run's folder cannot tell."""

    name: str
    holds: bool | None
    text: str


def assumptions(run: Run) -> list[Assumption]:
    """The conditions of the theorem for this run's algorithm, and whether they hold.

    From the run's folder alone. (as2) speaks of every kernel in every round: one evaluated
    kernel above 1 refutes it; it is known to hold only where all were evaluated.
    """
    result = run.result
    largest, of_kernel = result["max_squared_error"], result["max_kernel_squared_error"]
    text = (
        f"the largest squared error of a prediction is {largest:.3g}, of a single kernel that "
        f"was evaluated {of_kernel:.3g}"
    )
    all_evaluated = result["kernels_per_round"] == result["n_kernels"]
    bounded = False if max(largest, of_kernel) > 1 else True if all_evaluated else None
    norm = result["max_norm"]
    return [
        Assumption("as1: convex loss", True, "squared error with a ridge"),
        Assumption("as2: losses in [0, 1]", bounded, text),
        Assumption("as3: ||x|| <= 1", norm <= 1 + 1e-12, f"the largest ||x|| is {norm:.4g}"),
        *_of_best_kernels(run),
        *_of_settings(run),
    ]


def _of_best_kernels(run: Run) -> list[Assumption]:
    best = best_kernels(run)
    if not best:
        return []
    n_laplacian = sum(family == "laplacian" for family, _ in best)
    text = "the best kernel in hindsight has one"
    if n_laplacian:
        text = (
            f"for {n_laplacian} of {len(best)} comparators the best kernel is Laplacian: its "
            "frequencies are Cauchy and have none"
        )
    return [Assumption("finite second moment of the frequencies", not n_laplacian, text)]


def _of_settings(run: Run) -> list[Assumption]:
    """Rates that the theorem has constant, and rounds after which the algorithm is another."""
    result, params = run.result, run.result["params"]
    keys = [key for key in ("eta", exploration_of(params)) if key in params]
    decaying = [key for key in keys if "t" in str(params[key]).replace("sqrt", "")]
    text = ", ".join(f"{key}={params[key]}" for key in keys)
    found = [Assumption("constant rates", not decaying, text)]
    changes = {"freeze": "the graph is kept", "explore": "the node is no longer drawn"}
    for key, what in changes.items():
        if (last := params.get(key)) is not None:
            text = f"after round {last} {what} (section 5)"
            same = last >= result["n_rounds"]
            found.append(Assumption("the algorithm of the theorem", same, text))
    return found


def best_kernels(run: Run) -> list[tuple[str, float]]:
    """(family, bandwidth) of the best kernel in hindsight on random features, a seed each."""
    names = run.result["regret"].get("ridge_features", {}).get("kernels", [])
    return [(n.split()[0], float(n.split()[1])) for n in names]


def fitted_slope(t: np.ndarray, regret: np.ndarray) -> float | None:
    """The slope of log regret over log t on the second half, t >= T / 2, by least squares.

    None where there are fewer than three rounds, or the regret is not positive throughout.
    """
    late = t >= t[-1] / 2
    if late.sum() < 3 or not (regret[late] > 0).all():
        return None
    return float(np.polyfit(np.log(t[late]), np.log(regret[late]), 1)[0])


def exploration_of(params: Mapping[str, Any]) -> str:
    """The parameter that mixes exploration into the probabilities."""
    return "eta_e" if "eta_e" in params else "xi"


def _mean_schedule(text: Any, T: int) -> np.ndarray:
    """Means over rounds 1..t of a schedule, for t = 1..T."""
    from omkl.core.hyperparameters import parse_schedule

    schedule = parse_schedule(text, T)
    rounds = np.arange(1, T + 1)
    if schedule.power == 0:
        return np.full(T, schedule.scale)
    return np.cumsum(schedule.scale * rounds**schedule.power) / rounds


def _comparator_mse(run: Run, name: str) -> list[float]:
    """Mean squared errors of a comparator, a seed each; none where it was not computed."""
    if f"regret_{name}" not in run.curves:
        return []
    T = run.result["n_rounds"]
    sums = run.curves["mse"][:, -1] * T - run.curves[f"regret_{name}"][:, -1]
    return [max(0.0, float(total) / T) for total in sums]


def _epsilon(run: Run) -> float:
    """At the worst of the best kernels; inf where one has no second moment, or none is known."""
    D, d = run.result["D"], run.result["n_inputs"]
    moments = [second_moment(family, b, d) for family, b in best_kernels(run)] or [math.inf]
    return max(smallest_epsilon(PROBABILITY, moment, D, d) for moment in moments)


def _dominating_set_size(run: Run) -> int | None:
    """Of the run's feedback graph; None where rows of the stream made the graph."""
    # Here, since they import the compiler, which most reports do without.
    from omkl import algorithms
    from omkl.core import hyperparameters
    from omkl.core.kernels import Kernel
    from omkl.core.learner import Learner
    from omkl.core.node_sampler import MEMBER

    curves, result = run.curves, run.result
    pairs = zip(curves["kernel_family"], curves["kernel_bandwidth"], strict=True)
    dictionary = tuple(Kernel(str(family), float(b)) for family, b in pairs)
    algorithm = algorithms.load(result["algorithm"])
    sizes = {"N": len(dictionary), "D": result["D"]}
    built = hyperparameters.build(algorithm.Params, result["params"], result["n_rounds"], sizes)
    if algorithm.rows_before and algorithm.rows_before(built):
        return None
    fresh = Learner(algorithm, built, dictionary, result["n_inputs"], D=1, seed=0)
    return int(fresh.state.cover[MEMBER].sum())
