"""The regret bounds of Ghari and Shen's JMLR paper, and their values for a finished run.

The theorems bound the expected cumulative loss above that of the best function in
hindsight, for constant eta, xi and eta_e, under

(as1)  L(theta'z, y) = (theta'z - y)^2 + lam ||theta||^2 is convex in theta;
(as2)  every kernel's loss lies in [0, 1], and ||grad L|| <= L;
(as3)  kernels are shift-invariant with kappa(0) = 1, and ||x|| <= 1.

Symbols, the same in all functions: ``T`` rounds, ``N`` kernels, ``D`` random features,
``d`` inputs, ``eta`` step size, ``xi`` and ``eta_e`` exploration in (0, 1), ``L`` the bound
on the gradient, ``C`` the largest sum of |alpha_t| of an optimal f = sum alpha_t kappa(., x_t),
``epsilon`` the largest error |z(x)'z(x') - kappa(x, x')| of the random features.

Every right-hand side also holds against the best function *of the random features*:
there the step from f* to its approximation falls away, which is ``epsilon=0`` with
``C=||theta*||``: lemma 1 (22) for theorem 2, (134) for theorem 5. That is what a run's regret
against ridge regression on random features is to be compared with.

The proofs of theorem 2 (for M > 1) and theorem 6 have a gap: ``unproved`` names it, and what is
evaluated of them is their right-hand side as stated.

``for_run`` evaluates a theorem for a run from its folder alone, ``assumptions`` says which
of the conditions hold there, ``fitted_slope`` is what the run's regret does instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from omkl.core.kernels import FAMILIES
from omkl.runs.folder import Run

PROBABILITY = 0.95  # at which the statements on random features are evaluated
LARGEST_EPSILON = 2.0  # |z'z - kappa| never exceeds it: both lie in [-1, 1]

# Exponent of T in the rate that a theorem promises with the step sizes it asks for.
RATES = {
    "raker": (0.5, "Shen et al. 2019"),
    "gf": (0.75, "theorem 2"),
    "sfg": (2 / 3, "theorem 5"),
    "sfg_r": (0.5, "theorem 6"),
    "sfg_mkl": (0.75, "arXiv v1, theorem 3"),
    "sfg_mkl_r": (0.5, "arXiv v1, theorem 4"),
}

# Theorems whose proof has a gap (``docs/errata.md``): they are evaluated, and called unproved.
UNPROVED = {
    "gf": "its proof needs (88), which does not hold for M > 1",
    "sfg_r": "its proof takes over lemma 11, which needs a graph that stays the same",
    "sfg_mkl_r": "its proof takes over lemma 7, which needs a graph that stays the same",
}


def base_name(algorithm: str) -> str:
    """The learner that a theorem speaks of: "as_released/gf" is "gf"."""
    return algorithm.rpartition("/")[2]


def unproved(algorithm: str, params: Mapping[str, Any]) -> str | None:
    """What the proof of the algorithm's theorem lacks for these parameters, if anything."""
    name = base_name(algorithm)
    if name == "gf" and int(params.get("M", 2)) == 1:
        return None
    return UNPROVED.get(name)


# --- right-hand sides --------------------------------------------------------------------


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


# --- random features ---------------------------------------------------------------------


def probability(epsilon: float, second_moment: float, D: int, d: int) -> float:
    """With at least this probability D features err by less than epsilon, everywhere.

    1 - 2^8 (sigma / epsilon)^2 exp(-D epsilon^2 / (4 d + 8)), or 0 where that is negative:
    then nothing is promised. second_moment = sigma^2 = E ||psi||^2.
    """
    if not math.isfinite(second_moment):
        return 0.0
    failure = 256 * second_moment / epsilon**2 * math.exp(-D * epsilon**2 / (4 * d + 8))
    return max(0.0, 1.0 - failure)


def smallest_epsilon(chance: float, second_moment: float, D: int, d: int) -> float:
    """The epsilon that ``probability`` puts at ``chance``, in [0, 1); inf where none does.

    With a = D / (4 d + 8), a eps^2 exp(a eps^2) = 256 a sigma^2 / (1 - chance): Lambert's W.
    """
    from scipy.special import lambertw

    if not math.isfinite(second_moment):
        return math.inf
    a = D / (4 * d + 8)
    return math.sqrt(float(lambertw(256 * a * second_moment / (1 - chance)).real) / a)


def features_needed(epsilon: float, chance: float, second_moment: float, d: int) -> float:
    """The number of features from which ``probability`` of epsilon is at least ``chance``."""
    failure = 256 * second_moment / epsilon**2
    return max(0.0, (4 * d + 8) / epsilon**2 * math.log(failure / (1 - chance)))


# --- constants that follow from the loss ---------------------------------------------------


def gradient_bound(lam: float, largest_loss: float = 1.0) -> float:
    """L: the largest ||grad L|| where the loss is at most ``largest_loss``.

    ||z|| = 1, so the gradient is at most 2 |e| + 2 lam ||theta|| with
    e^2 + lam ||theta||^2 <= largest_loss; the maximum is 2 sqrt(largest_loss (1 + lam)).
    """
    return 2 * math.sqrt(largest_loss * (1 + lam))


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


# --- a run -------------------------------------------------------------------------------


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

    @property
    def vacuous(self) -> bool:
        """Whether it says no more than that T losses in [0, 1] sum to at most T."""
        return bool(self.value[-1] >= self.t[-1])


def for_run(run: Run) -> Bound | None:
    """The theorem of the run's algorithm with the run's constants; None where there is none.

    Made for losses in [0, 1], so for targets scaled to [0, 1]: see ``assumptions``. L is
    what (as2) implies, or follows from ``max_squared_error`` where the run recorded one
    above 1; ||theta*|| and C are bounded from the comparators' errors, or taken from
    ``comparator_norm`` and ``comparator_coefficients``.
    """
    name = run.result["algorithm"]  # of the released code no theorem speaks
    if name not in ("gf", "sfg", "sfg_r") or not run.complete:
        return None
    result, given = run.result, run.result["params"]
    t, T = run.curves["t"], result["n_rounds"]
    N, lam = result["n_kernels"], float(given["lam"])
    gap = unproved(name, given)
    notes = [] if gap is None else [f"{RATES[name][1]} is unproved: {gap}"]
    eta, explore = (_mean_schedule(given[key], T)[t - 1] for key in ("eta", _explore(name)))
    if np.ptp(eta) or np.ptp(explore):
        notes.append(
            "the theorem has constant rates; for those that decay their mean over rounds 1..t "
            "is put in their place, for which nothing is proved"
        )
    L = gradient_bound(lam, max(1.0, result.get("max_squared_error") or 1.0))
    lam_c = float(run.config.get("regret", {}).get("lam", lam))
    theta = result.get("comparator_norm")
    if theta is None:
        norms = [theta_norm_bound(lam_c, mse) for mse in _comparator_mse(run, "ridge_features")]
        theta = max(norms, default=theta_norm_bound(lam_c, None))
    C = result.get("comparator_coefficients")
    if C is None:
        sums = [coefficient_bound(lam_c, mse) for mse in _comparator_mse(run, "kernel_ridge")]
        C = max(sums, default=coefficient_bound(lam_c, 1.0))
    epsilon = min(_epsilon(run), LARGEST_EPSILON)
    if epsilon == LARGEST_EPSILON:
        notes.append(
            f"with D={result['D']} no epsilon below 2 has probability {PROBABILITY:g}, and 2 "
            "holds always: the random features promise nothing"
        )
    constants = {"L": L, "theta_norm": float(theta), "C": float(C), "lam": lam}
    if name == "gf":
        J = int(given["J"])
        fixed: dict[str, Any] = {"N": N, "J": J, "L": L, "theta_norm": theta}
        value = theorem2(T=t, eta=eta, eta_e=explore, **fixed)
        full = theorem2(T=T, eta=eta[-1], eta_e=explore[-1], epsilon=epsilon, C=C, **fixed)
        constants["J"] = J
    elif name == "sfg":
        size = _dominating(run)
        if size is None:
            return None
        notes.append(
            f"1/q and 1/q-bar at their worst, |dominating set| / xi with {size} nodes in the set"
        )
        fixed = {"N": N, "n_out": int(given["M"]), "L": L}
        value = theorem5(T=t, eta=eta, xi=explore, C=theta, inverse_q=size / explore, **fixed)
        last = {"eta": eta[-1], "xi": explore[-1], "inverse_q": size / explore[-1]}
        full = theorem5(T=T, C=C, epsilon=epsilon, **last, **fixed)
        constants["dominating_set"] = size
    else:
        notes.append("beta at 1/N, the largest and most favourable value that it allows")
        fixed = {"N": N, "beta": 1 / N, "L": L}
        value = theorem6(T=t, eta=eta, xi=explore, C=theta, **fixed)
        full = theorem6(T=T, eta=eta[-1], xi=explore[-1], C=C, epsilon=epsilon, **fixed)
        constants["beta"] = 1 / N
    return Bound(RATES[name][1], t, value, float(full), epsilon, constants, tuple(notes))


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
    result, given = run.result, run.result["params"]
    name = base_name(result["algorithm"])
    found = [Assumption("as1: convex loss", True, "squared error with a ridge")]

    largest, exact = largest_squared_error(run)
    at_least = "" if exact else "at least "
    text = f"the largest squared error of a prediction is {at_least}{largest:.3g}"
    of_kernel = result.get("max_kernel_squared_error")
    if of_kernel is None:
        text += "; of single kernels it is not recorded"
    else:
        text += f", of a single kernel that was evaluated {of_kernel:.3g}"
    fails = max(largest, of_kernel or 0.0) > 1
    everything = of_kernel is not None and result["kernels_per_round"] == result["n_kernels"]
    holds = False if fails else True if everything else None
    found.append(Assumption("as2: losses in [0, 1]", holds, text))

    norm = _largest_norm(run)
    if norm is None:
        text = f"not known for stream.scaling={_scaling(run)}"
    else:
        text = f"the largest ||x|| is {norm:.4g}"
    holds = None if norm is None else norm <= 1 + 1e-12
    found.append(Assumption("as3: ||x|| <= 1", holds, text))

    best = best_kernels(run)
    if best:
        families = [(FAMILIES[name], b) for name, b in best]
        wild = [family for family, b in families if math.isinf(family.second_moment(1, b))]
        text = "the best kernel in hindsight has one"
        if wild:
            named = " or ".join(dict.fromkeys(f.name.capitalize() for f in wild))
            spectra = " or ".join(dict.fromkeys(str(f.spectrum) for f in wild))
            text = (
                f"for {len(wild)} of {len(best)} comparators the best kernel is {named}: its "
                f"frequencies are {spectra} and have none"
            )
        found.append(Assumption("finite second moment of the frequencies", not wild, text))

    if name in ("gf", "sfg", "sfg_r"):
        keys = ("eta", _explore(name))
        decaying = [key for key in keys if "t" in str(given.get(key, "")).replace("sqrt", "")]
        text = ", ".join(f"{key}={given[key]}" for key in keys if key in given)
        found.append(Assumption("constant rates", not decaying, text))
        key = "freeze" if name == "gf" else "explore"
        last = given.get(key)
        if last is not None:
            what = "the graph is kept" if name == "gf" else "the node is no longer drawn"
            text = f"after round {last} {what} (section 5)"
            found.append(
                Assumption("the algorithm of the theorem", last >= result["n_rounds"], text)
            )
    return found


def largest_squared_error(run: Run) -> tuple[float, bool]:
    """The largest squared error of a prediction in the run, and whether that is exact.

    Where the run did not record it, it comes from the differences of the cumulative
    curve: exact while every round is recorded, a mean of a few rounds, hence a lower
    bound, after that.
    """
    if run.result.get("max_squared_error") is not None:
        return float(run.result["max_squared_error"]), True
    t = run.curves["t"]
    sums = run.curves["mse"] * t
    steps = np.diff(np.concatenate([np.zeros((len(sums), 1)), sums], axis=1), axis=1)
    gaps = np.diff(np.concatenate([[0], t]))
    return float((steps / gaps).max()), bool(gaps.max() == 1)


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


def _explore(name: str) -> str:
    return "eta_e" if name == "gf" else "xi"


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
    moments = [FAMILIES[f].second_moment(d, b) for f, b in best_kernels(run)] or [math.inf]
    return max(smallest_epsilon(PROBABILITY, moment, D, d) for moment in moments)


def _dominating(run: Run) -> int | None:
    """Size of the dominating set of the run's feedback graph; None where rows made the graph."""
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


def _scaling(run: Run) -> str:
    return str((run.config.get("stream") or {}).get("scaling"))


def _largest_norm(run: Run) -> float | None:
    if run.result.get("max_norm") is not None:
        return float(run.result["max_norm"])
    # Both scalings divide by the largest norm so far, this round's included.
    return 1.0 if _scaling(run) in ("whole", "running") else None
