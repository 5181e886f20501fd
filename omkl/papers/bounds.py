"""The regret theorems of Ghari and Shen's JMLR paper, evaluated for a finished run.

The theorems bound the expected cumulative loss above that of the best function in
hindsight, for constant eta, xi and eta_e, under

(as1)  L(theta'z, y) = (theta'z - y)^2 + lam ||theta||^2 is convex in theta;
(as2)  every kernel's loss lies in [0, 1], and ||grad L|| <= L;
(as3)  kernels are shift-invariant with kappa(0) = 1, and ||x|| <= 1.

Symbols, the same in all functions: ``T`` rounds, ``N`` kernels, ``eta`` step size, ``xi`` and
``eta_e`` exploration in (0, 1), ``L`` the bound on the gradient, ``C`` the largest sum of
|alpha_t| of an optimal f = sum alpha_t kappa(., x_t), ``epsilon`` the largest error of the
random features.

Every right-hand side also holds against the best function *of the random features*:
there the step from f* to its approximation falls away, which is ``epsilon=0`` with
``C=||theta*||``: lemma 1 (22) for theorem 2, (134) for theorem 5. That is what a run's regret
against ridge regression on random features is to be compared with.

The proof of theorem 2 has a gap for M > 1, which ``unproved`` names: what is evaluated of it is its
right-hand side as stated.

How far random features are from their kernel, with a probability, is claim 1 of Rahimi and Recht
(2007), over all x and x' of a set of diameter diam. The papers have it without diam; ||x|| <= 1,
their (as3), is a ball of diameter 2 (``docs/errata.md``).

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

from omkl.core.kernels import FAMILIES
from omkl.experiment.bounds import gradient_bound
from omkl.runs.run_folder import Run, number_of
from omkl.utils import registry

PROBABILITY = 0.95  # at which the statements are evaluated
DIAMETER = 2.0  # of the ball ||x|| <= 1
LARGEST_EPSILON = 2.0  # |z'z - kappa| never exceeds it: both lie in [-1, 1]


# --- right-hand sides -----------------------------------------------------------------------------


def theorem2(
    *,
    T: Any,
    N: int,
    J: int,
    eta: Any,
    eta_e: Any,
    L: float,
    theta_norm: float,
    epsilon: float = 0.0,
    C: float = 0.0,
) -> Any:
    """OMKL-GF, the right-hand side of (23); of lemma 1 (22) with ``epsilon=0``.

    J >= 1 selective nodes, theta_norm = ||theta*|| of the best function of the random
    features. T, eta and eta_e may be arrays, as in all three theorems.
    """
    return (
        math.log(N) / eta
        + theta_norm**2 / (2 * eta)
        + eta_e * J * T
        + epsilon * L * T * C
        + eta * N * T / (2 * (1 - eta_e))
        + eta * L**2 * N * J * T / (2 * eta_e**2)
    )


def theorem5(
    *,
    T: Any,
    N: int,
    n_out: int,
    eta: Any,
    xi: Any,
    L: float,
    C: float,
    inverse_q: Any,
    inverse_q_bar: Any = None,
    epsilon: float = 0.0,
) -> Any:
    """OMKL-SFG, the right-hand side of (40).

    n_out = |N_i^out| (M in omkl) of an in-neighbour i of the best kernel j*. inverse_q is
    the mean over the rounds of 1 / q_{j*,t}, inverse_q_bar that of 1 / q-bar_{i,t}, a
    weighted mean of 1 / q over the out-neighbours; by default it is inverse_q, as in the
    worst case (q >= xi / |dominating set|, text below the theorem).
    """
    if inverse_q_bar is None:
        inverse_q_bar = inverse_q
    return (
        math.log(N * n_out) / eta
        + (1 + epsilon) * C**2 / (2 * eta)
        + epsilon * L * T * C
        + (xi + eta * N / 2 - eta * xi / 2) * T
        + eta / 2 * T * (inverse_q_bar + L**2 * inverse_q)
    )


def theorem6(
    *,
    T: Any,
    N: int,
    beta: float,
    eta: Any,
    xi: Any,
    L: float,
    C: float,
    epsilon: float = 0.0,
) -> Any:
    """OMKL-SFG-R, the right-hand side of (48). Raises ValueError for beta outside (0, 1/N]."""
    if not 0 < beta <= 1 / N:
        raise ValueError(f"beta={beta} lies outside (0, 1/N={1 / N:.4g}]")
    return (
        2 * math.log(N) / eta
        + (1 + epsilon) * C**2 / (2 * eta)
        + epsilon * L * T * C
        + (xi + eta / 2 * (L**2 + N * beta + 1) / beta - eta * xi / 2) * T
    )


# --- constants that follow from the loss ----------------------------------------------------------


def theta_norm_bound(lam: float, mse: float | None, mean_square: float = 1.0) -> float:
    """An upper bound on ||theta*|| of ridge regression on random features.

    mse is its mean squared error, None where it is not known; mean_square the mean of y^2
    (at most 1 for targets in [0, 1]). At the optimum mse + lam ||theta||^2 <= mean_square,
    and lam theta is the mean of e z, at most sqrt(mse) long.
    """
    if lam == 0:
        return math.inf
    if mse is None:
        return math.sqrt(mean_square / lam)
    return min(math.sqrt(max(mean_square - mse, 0.0) / lam), math.sqrt(mse) / lam)


def coefficient_bound(lam: float, mse: float) -> float:
    """An upper bound on C = sum |alpha_t| of kernel ridge regression with this mse.

    Its coefficients are its errors divided by lam T, so C = mean |e| / lam <= sqrt(mse) / lam.
    """
    return math.inf if lam == 0 else math.sqrt(mse) / lam


# --- errors of random features --------------------------------------------------------------------


def probability(epsilon: float, second_moment: float, D: int, d: int) -> float:
    """With at least this probability D features err by less than epsilon, for all ||x|| <= 1.

    1 - 2^8 (sigma diam / epsilon)^2 exp(-D epsilon^2 / (4 d + 8)), or 0 where that is negative:
    then nothing is promised.
    """
    if not math.isfinite(second_moment):
        return 0.0
    failure = _failure_factor(second_moment) / epsilon**2 * math.exp(-D * epsilon**2 / (4 * d + 8))
    return max(0.0, 1.0 - failure)


def smallest_epsilon(chance: float, second_moment: float, D: int, d: int) -> float:
    """The epsilon that ``probability`` puts at ``chance``, in [0, 1); inf where none does.

    With a = D / (4 d + 8), a eps^2 exp(a eps^2) = 2^8 a (sigma diam)^2 / (1 - chance): Lambert's W.
    """
    from scipy.special import lambertw

    if not math.isfinite(second_moment):
        return math.inf
    a = D / (4 * d + 8)
    return math.sqrt(float(lambertw(a * _failure_factor(second_moment) / (1 - chance)).real) / a)


def features_needed(epsilon: float, chance: float, second_moment: float, d: int) -> float:
    """The number of features from which ``probability`` of epsilon is at least ``chance``."""
    failure = _failure_factor(second_moment) / epsilon**2
    return max(0.0, (4 * d + 8) / epsilon**2 * math.log(failure / (1 - chance)))


def _failure_factor(second_moment: float) -> float:
    return 256 * second_moment * DIAMETER**2


# --- theorems of runs -----------------------------------------------------------------------------


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


class Bound(NamedTuple):
    """A theorem evaluated for a run.

    ``value`` (P,) is the right-hand side against the best function of the random features
    after each recorded round; ``full`` the theorem's own, against the best function of the
    kernel's space, after the last round. ``constants`` are what went in, ``notes`` how they
    were chosen.
    """

    theorem: str
    value: np.ndarray
    full: float
    constants: Constants
    notes: tuple[str, ...]


class Evaluated(NamedTuple):
    """A right-hand side: ``value`` and ``full`` as in ``Bound``, and a note, "" for none."""

    value: np.ndarray
    full: float
    note: str = ""


def _theorem2_of(run: Run, c: Constants) -> Evaluated:
    J = int(run.result["params"]["J"])
    fixed: dict[str, Any] = {"N": c.N, "J": J, "L": c.L, "theta_norm": c.theta_norm}
    value = theorem2(T=c.t, eta=c.eta, eta_e=c.explore, **fixed)
    last = {"eta": c.eta[-1], "eta_e": c.explore[-1], "epsilon": c.epsilon, "C": c.C}
    return Evaluated(value, theorem2(T=c.T, **last, **fixed))


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
        f"1/q and 1/q-bar at their worst, |dominating set| / xi with {size} nodes in the set",
    )


def _theorem6_of(run: Run, c: Constants) -> Evaluated:
    fixed: dict[str, Any] = {"N": c.N, "beta": 1 / c.N, "L": c.L}
    last = {"eta": c.eta[-1], "xi": c.explore[-1], "epsilon": c.epsilon}
    return Evaluated(
        theorem6(T=c.t, eta=c.eta, xi=c.explore, C=c.theta_norm, **fixed),
        theorem6(T=c.T, C=c.C, **last, **fixed),
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

    loaded = algorithms.load(algorithm)
    return loaded.theorem if loaded.task == "regression" else None


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
    theorem, params = THEOREMS[name], run.result["params"]
    if theorem.evaluate is None:
        return None
    constants = _constants(run, theorem)
    evaluated = theorem.evaluate(run, constants)
    if evaluated is None:
        return None
    gap = theorem.unproved(params)
    notes = [] if gap is None else [f"{name} is unproved: {gap}"]
    if np.ptp(constants.eta) or np.ptp(constants.explore):
        notes.append(
            "the theorem has constant rates; for those that decay their mean over rounds 1..t "
            "is put in their place, for which nothing is proved"
        )
    if constants.epsilon == LARGEST_EPSILON:
        notes.append(
            f"with D={run.result['D']} no epsilon below 2 has probability {PROBABILITY:g}, and 2 "
            "holds always: the random features promise nothing"
        )
    notes += filter(None, [evaluated.note])
    return Bound(name, evaluated.value, float(evaluated.full), constants, tuple(notes))


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
    conditions = [Assumption("constant rates", not decaying, text)]
    key, after = theorem.last
    if (last := params.get(key)) is not None:
        text = f"after round {last} {after} (section 5)"
        same = last >= run.result["n_rounds"]
        conditions.append(Assumption("the algorithm of the theorem", same, text))
    return conditions


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
    fresh = Learner(algorithm, built, dictionary, result["n_inputs"], D=1, seed=0)
    return int(fresh.state.cover[MEMBER].sum())
