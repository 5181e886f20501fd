"""What a theorem of ``regret_bounds`` says of a finished run, from its folder alone.

``THEOREMS`` has what is promised, by the name that an algorithm registers. ``bound_of_run``
evaluates a theorem with the run's own settings, ``assumptions`` says which of its conditions hold
there, ``fitted_slope`` is what the run's regret does instead.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from omkl import registry
from omkl.core.kernels import FAMILIES
from omkl.runs.run_folder import Run, number_of
from omkl.theory.feature_errors import LARGEST_EPSILON, PROBABILITY, smallest_epsilon
from omkl.theory.regret_bounds import (
    coefficient_bound,
    gradient_bound,
    theorem2,
    theorem5,
    theorem6,
    theta_norm_bound,
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


class Constants(NamedTuple):
    """What goes into a theorem; eta and explore (P,) on the recorded rounds t (P,)."""

    t: np.ndarray
    T: int
    N: int
    eta: np.ndarray
    explore: np.ndarray
    L: float
    theta_norm: float
    C: float
    epsilon: float


class Evaluated(NamedTuple):
    """A right-hand side: ``value`` and ``full`` as in ``Bound``, and what it adds to them."""

    value: np.ndarray
    full: float
    constants: Mapping[str, float] = {}
    note: str | None = None


def _theorem2_of(run: Run, c: Constants) -> Evaluated:
    J = int(run.result["params"]["J"])
    fixed: dict[str, Any] = {"N": c.N, "J": J, "L": c.L, "theta_norm": c.theta_norm}
    value = theorem2(T=c.t, eta=c.eta, eta_e=c.explore, **fixed)
    last = {"eta": c.eta[-1], "eta_e": c.explore[-1], "epsilon": c.epsilon, "C": c.C}
    return Evaluated(value, theorem2(T=c.T, **last, **fixed), {"J": J})


def _theorem5_of(run: Run, c: Constants) -> Evaluated | None:
    size = _dominating_set_size(run)
    if size is None:
        return None
    fixed: dict[str, Any] = {"N": c.N, "n_out": int(run.result["params"]["M"]), "L": c.L}
    rates: dict[str, Any] = {"eta": c.eta, "xi": c.explore, "inverse_q": size / c.explore}
    last = {name: values[-1] for name, values in rates.items()}
    return Evaluated(
        theorem5(T=c.t, C=c.theta_norm, **rates, **fixed),
        theorem5(T=c.T, C=c.C, epsilon=c.epsilon, **last, **fixed),
        {"dominating_set": size},
        f"1/q and 1/q-bar at their worst, |dominating set| / xi with {size} nodes in the set",
    )


def _theorem6_of(run: Run, c: Constants) -> Evaluated:
    fixed: dict[str, Any] = {"N": c.N, "beta": 1 / c.N, "L": c.L}
    last = {"eta": c.eta[-1], "xi": c.explore[-1], "epsilon": c.epsilon}
    return Evaluated(
        theorem6(T=c.t, eta=c.eta, xi=c.explore, C=c.theta_norm, **fixed),
        theorem6(T=c.T, C=c.C, **last, **fixed),
        {"beta": 1 / c.N},
        "beta at 1/N, the largest and most favourable value that it allows",
    )


class Theorem(NamedTuple):
    """What is promised of the learner that registers it.

    rate      exponent of T, with the step sizes that it asks for
    unproved  what its proof lacks, if anything, for the learner's parameters: it is evaluated,
              and called unproved (``docs/errata.md``)
    evaluate  its right-hand side for a run; None: of it nothing but the rate is evaluated
    explore   the parameter that explores
    last      the parameter that names the last round of its algorithm, and what is after it
    """

    rate: float
    unproved: Callable[[Mapping[str, Any]], str | None] = lambda params: None
    evaluate: Callable[[Run, Constants], Evaluated | None] | None = None
    explore: str = ""
    last: tuple[str, str] = ("", "")


# By the name that an algorithm registers.
THEOREMS = {
    "Shen et al. 2019": Theorem(0.5),
    "theorem 2": Theorem(
        0.75,
        lambda params: (
            "its proof needs (88), which does not hold for M > 1" if int(params["M"]) > 1 else None
        ),
        _theorem2_of,
        "eta_e",
        ("freeze", "the graph is kept"),
    ),
    "theorem 5": Theorem(
        2 / 3,
        evaluate=_theorem5_of,
        explore="xi",
        last=("explore", "the node is no longer drawn"),
    ),
    "theorem 6": Theorem(
        0.5,
        evaluate=_theorem6_of,
        explore="xi",
        last=("explore", "the node is no longer drawn"),
    ),
    "arXiv v1, theorem 3": Theorem(0.75),
    "arXiv v1, theorem 4": Theorem(0.5),
}


@functools.cache
def theorem_about(algorithm: str) -> str | None:
    """The name of the theorem that an algorithm of this name registers, if one does."""
    # Not of a module outside: what a run folder names is not imported.
    if algorithm not in registry.names("omkl.algorithms"):
        return None
    # Loads the compiler, which those that only read run folders do without.
    from omkl import algorithms

    found = algorithms.load(algorithm)
    return found.theorem if found.task == "regression" else None


def theorem_meant(algorithm: str) -> str | None:
    """That of the learner that it is a version of: "as_released/gf" is "gf"."""
    return theorem_about(algorithm.rpartition("/")[2])


def promised(algorithm: str) -> tuple[float, str]:
    """The rate that ``theorem_meant`` promises, and its name; KeyError without one."""
    name = str(theorem_meant(algorithm))
    return THEOREMS[name].rate, name


def has_right_hand_side(algorithm: str) -> bool:
    """Whether more than the rate of ``theorem_about`` is evaluated."""
    name = theorem_about(algorithm)
    return name is not None and THEOREMS[name].evaluate is not None


def unproved(algorithm: str, params: Mapping[str, Any]) -> str | None:
    """What the proof of ``theorem_meant`` lacks for these parameters, if anything."""
    name = theorem_meant(algorithm)
    return None if name is None else THEOREMS[name].unproved(params)


def bound_of_run(run: Run) -> Bound | None:
    """The theorem of the run's algorithm with the run's constants; None where there is none.

    Made for losses in [0, 1], so for targets scaled to [0, 1]: see ``assumptions``. L is
    what (as2) implies, or follows from ``max_squared_error`` where it is above 1; ||theta*||
    and C are bounded from the comparators' errors. Of the released code no theorem speaks. None
    too where rows of the stream made the graph.
    """
    name = theorem_about(run.result["algorithm"])
    if name is None or not run.complete:
        return None
    theorem, result, params = THEOREMS[name], run.result, run.result["params"]
    if theorem.evaluate is None:
        return None
    given = _constants(run, theorem)
    found = theorem.evaluate(run, given)
    if found is None:
        return None
    gap = theorem.unproved(params)
    notes = [] if gap is None else [f"{name} is unproved: {gap}"]
    if np.ptp(given.eta) or np.ptp(given.explore):
        notes.append(
            "the theorem has constant rates; for those that decay their mean over rounds 1..t "
            "is put in their place, for which nothing is proved"
        )
    if given.epsilon == LARGEST_EPSILON:
        notes.append(
            f"with D={result['D']} no epsilon below 2 has probability {PROBABILITY:g}, and 2 "
            "holds always: the random features promise nothing"
        )
    notes += [] if found.note is None else [found.note]
    fixed = {"L": given.L, "theta_norm": given.theta_norm, "C": given.C, "lam": params["lam"]}
    constants = {key: float(value) for key, value in fixed.items()} | dict(found.constants)
    full, epsilon = float(found.full), given.epsilon
    return Bound(name, given.t, found.value, full, epsilon, constants, tuple(notes))


def _constants(run: Run, theorem: Theorem) -> Constants:
    result, params = run.result, run.result["params"]
    t, T = run.curves["t"], result["n_rounds"]
    eta, explore = (_mean_schedule(params[key], T)[t - 1] for key in ("eta", theorem.explore))
    L = gradient_bound(float(params["lam"]), max(1.0, result["max_squared_error"]))
    ridge = float(run.config["regret"]["lam"])  # of the comparators
    norms = [theta_norm_bound(ridge, mse) for mse in _comparator_mse(run, "ridge_features")]
    theta_norm = max(norms, default=theta_norm_bound(ridge, None))
    sums = [coefficient_bound(ridge, mse) for mse in _comparator_mse(run, "kernel_ridge")]
    C = max(sums, default=coefficient_bound(ridge, 1.0))
    epsilon = min(_epsilon(run), LARGEST_EPSILON)
    return Constants(t, T, result["n_kernels"], eta, explore, L, theta_norm, C, epsilon)


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
    largest = result["max_squared_error"]
    of_kernel = number_of(result["max_kernel_squared_error"])
    text = (
        f"the largest squared error of a prediction is {largest:.3g}, of a single kernel that "
        f"was evaluated {of_kernel:.3g}"
    )
    all_evaluated = result["kernels_per_round"] == result["n_kernels"]
    bounded = False if max(largest, of_kernel) > 1 else True if all_evaluated else None
    norm = number_of(result["max_norm"])
    return [
        Assumption("as1: convex loss", True, "squared error with a ridge"),
        Assumption("as2: losses in [0, 1]", bounded, text),
        Assumption("as3: ||x|| <= 1", norm <= 1 + 1e-12, f"the largest ||x|| is {norm:.4g}"),
        *_of_best_kernels(run),
        *_of_settings(run),
    ]


def _of_best_kernels(run: Run) -> list[Assumption]:
    names = best_kernels(run)
    if strange := sorted({name for name, _ in names} - FAMILIES.keys()):
        return [
            Assumption(
                "finite second moment of the frequencies",
                None,
                f"nothing is known here of {', '.join(strange)} kernels, which are not omkl's own",
            )
        ]
    best = [(FAMILIES[name], bandwidth) for name, bandwidth in names]
    if not best:
        return []
    wild = [family for family, b in best if math.isinf(family.second_moment(1, b))]
    text = "the best kernel in hindsight has one"
    if wild:
        named = " or ".join(dict.fromkeys(family.name.capitalize() for family in wild))
        spectra = " or ".join(dict.fromkeys(str(family.spectrum) for family in wild))
        text = (
            f"for {len(wild)} of {len(best)} comparators the best kernel is {named}: its "
            f"frequencies are {spectra} and have none"
        )
    return [Assumption("finite second moment of the frequencies", not wild, text)]


def _of_settings(run: Run) -> list[Assumption]:
    """Whether the run is one of the algorithm that the theorem is about."""
    name = theorem_meant(run.result["algorithm"])
    if name is None or THEOREMS[name].evaluate is None:
        return []
    theorem, params = THEOREMS[name], run.result["params"]
    keys = [key for key in ("eta", theorem.explore) if key in params]
    decaying = [key for key in keys if "t" in str(params[key]).replace("sqrt", "")]
    text = ", ".join(f"{key}={params[key]}" for key in keys)
    found = [Assumption("constant rates", not decaying, text)]
    key, after = theorem.last
    if (last := params.get(key)) is not None:
        text = f"after round {last} {after} (section 5)"
        same = last >= run.result["n_rounds"]
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
    best = best_kernels(run)
    if not {family for family, _ in best} <= FAMILIES.keys():
        return math.inf
    moments = [FAMILIES[f].second_moment(d, b) for f, b in best] or [math.inf]
    return max(smallest_epsilon(PROBABILITY, moment, D, d) for moment in moments)


def _dominating_set_size(run: Run) -> int | None:
    """Of the run's feedback graph.

    None where rows of the stream made the graph, or a kernel family is not known here.
    """
    # Here, since they import the compiler, which most reports do without.
    from omkl import algorithms
    from omkl.core import hyperparameters
    from omkl.core.graph_sampling import MEMBER
    from omkl.core.kernels import Kernel
    from omkl.core.learner import Learner

    curves, result = run.curves, run.result
    pairs = zip(curves["kernel_family"], curves["kernel_bandwidth"], strict=True)
    dictionary = tuple(Kernel(str(family), float(b)) for family, b in pairs)
    if not {kernel.family for kernel in dictionary} <= FAMILIES.keys():
        return None
    algorithm = algorithms.load(result["algorithm"])
    sizes = {"N": len(dictionary), "D": result["D"]}
    built = hyperparameters.build(algorithm.Params, result["params"], result["n_rounds"], sizes)
    if algorithm.rows_before and algorithm.rows_before(built):
        return None
    fresh = Learner(algorithm, built, dictionary, result["n_inputs"], D=1, seed=0)
    return int(fresh.state.cover[MEMBER].sum())
