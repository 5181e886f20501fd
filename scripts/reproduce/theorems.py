"""The theorems of the papers, evaluated for finished runs from their folders.

python -m reproduce theorems OUTPUTS
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from omkl import algorithms, federated
from omkl.config import schema
from omkl.core import hyperparameters
from omkl.core.graph_sampling import MEMBER
from omkl.core.kernels import FAMILIES, Kernel
from omkl.core.learner import Learner
from omkl.experiment.run import prepare
from omkl.runs.run_folder import Run, number_of
from reproduce import mistake_bounds, regret_bounds
from reproduce.regret_bounds import LARGEST_EPSILON, gradient_bound, mean_schedule

PROBABILITY = 0.95  # at which random features are near their kernels
MAX_ROWS = 2000  # of a minimum in hindsight, whose kernel matrices are T x T


class Theorem(NamedTuple):
    """A regret theorem of an algorithm.

    Attributes
    ----------
    name
        In the paper.
    rate
        Exponent of T, with the step sizes that the theorem asks for.
    explore
        The parameter that explores; "" where the right-hand side is not evaluated.
    last
        The parameter that names the last round of its algorithm, and what happens after it.
    """

    name: str
    rate: float
    explore: str = ""
    last: tuple[str, str] = ("", "")


_NODE = ("explore", "the node is no longer drawn")
THEOREMS = {
    "raker": Theorem("Shen et al. 2019", 0.5),
    "gf": Theorem("theorem 2", 0.75, "eta_e", ("freeze", "the graph is kept")),
    "sfg": Theorem("theorem 5", 2 / 3, "xi", _NODE),
    "sfg_r": Theorem("theorem 6", 0.5, "xi", _NODE),
    "sfg_mkl": Theorem("arXiv v1, theorem 3", 0.75),
    "sfg_mkl_r": Theorem("arXiv v1, theorem 4", 0.5),
}


def theorem_meant(algorithm: str) -> Theorem | None:
    """Return the theorem of an algorithm or of the one that it varies, as_released/gf of gf."""
    return THEOREMS.get(algorithm.rpartition("/")[2])


def unproved(algorithm: str, params: Mapping[str, Any]) -> str:
    """Return the gap in the proof of a learner's theorem for its parameters; "" for none."""
    gap = algorithm.rpartition("/")[2] == "gf" and int(params["M"]) > 1
    return "its proof needs (88), which does not hold for M > 1" if gap else ""


class Bound(NamedTuple):
    """A regret theorem evaluated for a run.

    Attributes
    ----------
    theorem
        Its name.
    value
        The right-hand side against the best function of the random features, in each recorded
        round, (P,).
    full
        The theorem's own, against the best function of the kernel's space, in the last round.
    notes
        How constants were chosen, and what is unproved.
    L, theta_norm, C, epsilon
        What went in.
    """

    theorem: str
    value: np.ndarray
    full: float
    notes: list[str]
    L: float
    theta_norm: float
    C: float
    epsilon: float


def bound_of_run(run: Run) -> Bound | None:
    """Evaluate the regret theorem of a run's algorithm with the run's constants.

    L is what (as2) implies, or follows from the largest squared error if that is above 1.
    ||theta*|| and C are bounded from the comparators' errors. Returns None for an algorithm without
    a right-hand side, for authors' code, and if rows of the stream made the graph.
    """
    result, name = run.result, run.result["algorithm"]
    theorem, params = THEOREMS.get(name), result["params"]
    if theorem is None or not theorem.explore or not run.complete:
        return None
    t, T, N = run.curves["t"], result["n_rounds"], result["n_kernels"]
    eta, explore = (mean_schedule(params[key], T)[t - 1] for key in ("eta", theorem.explore))
    L = gradient_bound(float(params["lam"]), max(1.0, result["max_squared_error"]))
    ridge = float(run.config["regret"]["lam"])  # of the comparators
    norms = [regret_bounds.theta_norm_bound(ridge, e) for e in _mse_of(run, "ridge_features")]
    sums = [regret_bounds.coefficient_bound(ridge, e) for e in _mse_of(run, "kernel_ridge")]
    theta_norm = max(norms, default=regret_bounds.theta_norm_bound(ridge, None))
    C = max(sums, default=regret_bounds.coefficient_bound(ridge, 1.0))
    epsilon = min(_epsilon(run), LARGEST_EPSILON)
    notes = [f"{theorem.name} is unproved: {gap}"] if (gap := unproved(name, params)) else []
    if np.ptp(eta) or np.ptp(explore):
        notes.append(
            "the theorem has constant rates, and the run has decaying ones. The bound has their "
            "mean over rounds 1..t, for which nothing is proved"
        )
    if epsilon == LARGEST_EPSILON:
        notes.append(
            f"with D={result['D']}, no epsilon below 2 has probability {PROBABILITY:g}. But no "
            "error exceeds 2, so the theorem guarantees nothing for these random features"
        )
    side: Callable[..., Any]
    of_features: dict[str, Any] = {}
    of_kernel: dict[str, Any] = {"C": C}
    fixed: dict[str, Any] = {"N": N, "L": L}
    rates: dict[str, Any] = {"eta": eta}
    if name == "gf":
        fixed |= {"J": int(params["J"]), "theta_norm": theta_norm}
        side, rates["eta_e"] = regret_bounds.theorem2, explore
    elif name == "sfg":
        size = _dominating_set_size(run)
        if size is None:
            return None
        notes.append(
            f"the bound has the largest possible 1/q and 1/q-bar: |dominating set| / xi, with "
            f"{size} nodes in the dominating set"
        )
        fixed["n_out"] = int(params["M"])
        rates |= {"xi": explore, "inverse_q": size / explore}
        side, of_features = regret_bounds.theorem5, {"C": theta_norm}
    else:
        notes.append("the bound has beta = 1/N, the largest value that the theorem allows")
        fixed["beta"], rates["xi"] = 1 / N, explore
        side, of_features = regret_bounds.theorem6, {"C": theta_norm}
    last: dict[str, Any] = {key: values[-1] for key, values in rates.items()}
    value = side(T=t, **of_features, **rates, **fixed)
    full = float(side(T=T, epsilon=epsilon, **of_kernel, **last, **fixed))
    return Bound(theorem.name, value, full, notes, L, theta_norm, C, epsilon)


class Assumption(NamedTuple):
    """Condition of the theorems; ``holds`` is None if the run's folder cannot decide it."""

    name: str
    holds: bool | None
    text: str


def assumptions(run: Run) -> list[Assumption]:
    """Check the conditions of the theorem of a run's algorithm, from its folder alone.

    (as2) is about every kernel in every round. One evaluated kernel above 1 refutes it, and it is
    only confirmed if all kernels were evaluated.
    """
    result, params = run.result, run.result["params"]
    largest = result["max_squared_error"]
    of_kernel = number_of(result["max_kernel_squared_error"])
    all_evaluated = result["kernels_per_round"] == result["n_kernels"]
    bounded = False if max(largest, of_kernel) > 1 else True if all_evaluated else None
    text = (
        f"the largest squared error of a prediction is {largest:.3g}, of a single kernel that was "
        f"evaluated {of_kernel:.3g}"
    )
    norm = number_of(result["max_norm"])
    found = [
        Assumption("as1: convex loss", True, "squared error with a ridge"),
        Assumption("as2: losses in [0, 1]", bounded, text),
        Assumption("as3: ||x|| <= 1", norm <= 1 + 1e-12, f"the largest ||x|| is {norm:.4g}"),
    ]
    if best := best_kernels(run):
        known = [(FAMILIES[name], b) for name, b in best if name in FAMILIES]
        wild = [f for f, b in known if math.isinf(regret_bounds.second_moment(f, 1, b))]
        text = "the best kernel in hindsight has one"
        if wild:
            named = " or ".join(dict.fromkeys(family.name.capitalize() for family in wild))
            spectra = " or ".join(dict.fromkeys(str(family.spectrum) for family in wild))
            text = (
                f"for {len(wild)} of {len(best)} comparators the best kernel is {named}: its "
                f"frequencies are {spectra} and have none"
            )
        holds = None if len(known) < len(best) else not wild
        found.append(Assumption("finite second moment of the frequencies", holds, text))
    theorem = theorem_meant(result["algorithm"])
    if theorem is not None and theorem.explore:
        keys = [key for key in ("eta", theorem.explore) if key in params]
        decaying = any("t" in str(params[key]).replace("sqrt", "") for key in keys)
        text = ", ".join(f"{key}={params[key]}" for key in keys)
        found.append(Assumption("constant rates", not decaying, text))
        key, after = theorem.last
        if (last := params.get(key)) is not None:
            text = f"after round {last} {after} (section 5)"
            holds = last >= result["n_rounds"]
            found.append(Assumption("the algorithm of the theorem", holds, text))
    return found


def best_kernels(run: Run) -> list[tuple[str, float]]:
    """Return (family, bandwidth) of each seed's best kernel in hindsight on random features."""
    names = run.result["regret"].get("ridge_features", {}).get("kernels", [])
    return [(name.split()[0], float(name.split()[1])) for name in names]


def _mse_of(run: Run, comparator: str) -> list[float]:
    """Return each seed's mean squared error of a comparator; [] where it was not computed."""
    if f"regret_{comparator}" not in run.curves:
        return []
    T = run.result["n_rounds"]
    sums = run.curves["mse"][:, -1] * T - run.curves[f"regret_{comparator}"][:, -1]
    return [max(0.0, float(total) / T) for total in sums]


def _epsilon(run: Run) -> float:
    """Return the largest epsilon over the seeds' best kernels; inf if one is unknown."""
    D, d, best = run.result["D"], run.result["n_inputs"], best_kernels(run)
    if not best or not {family for family, _ in best} <= FAMILIES.keys():
        return math.inf
    moments = [regret_bounds.second_moment(FAMILIES[name], d, b) for name, b in best]
    return max(regret_bounds.smallest_epsilon(PROBABILITY, moment, D, d) for moment in moments)


def _dominating_set_size(run: Run) -> int | None:
    """Return the size of the run's dominating set; None for an unknown kernel family."""
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


# --- federations ----------------------------------------------------------------------------------


def client_bound(run: Run) -> np.ndarray | None:
    """Evaluate theorem 1 of the federated paper in the recorded rounds, (P,)."""
    return regret_bounds.client_regret_bound(_params(run), run.result["n_kernels"], run.curves["t"])


def server_bound(run: Run) -> np.ndarray | None:
    """Evaluate theorem 2 of the federated paper in the recorded rounds, (P,).

    Returns None outside its conditions: without client weights, with safeguards, privacy or a graph
    of clients, for clients of different lengths, and without a comparator of the server.
    """
    result, facts = run.result, run.result["federated"]
    norms, safeguards = (
        result["regret"].get("server", {}).get("theta_norm"),
        facts.get("safeguards"),
    )
    changed = [(safeguards or {}).get(k) for k in ("max_change", "max_loss", "trim", "privacy")]
    as_stated = not any(changed) and "exchange" not in facts
    if norms is None or not as_stated or facts["least_rounds"] != facts["rounds"]:
        return None
    norm = float(np.sqrt(np.mean(np.square(norms))))
    N, K = result["n_kernels"], facts["n_clients"]
    return regret_bounds.server_regret_bound(_params(run), N, K, run.curves["t"], norm)


def _params(run: Run) -> Any:
    result = run.result
    algorithm = federated.load(result["algorithm"])
    sizes = {"N": result["n_kernels"], "D": result["D"]}
    return hyperparameters.build(algorithm.Params, result["params"], result["n_rounds"], sizes)


# --- classifications ------------------------------------------------------------------------------


class Measured(NamedTuple):
    """Statement about a run, and the measured quantity, a mean over seeds."""

    name: str
    of: str
    measured: float
    bound: float
    note: str = ""


def mistakes_of_run(run: Run) -> list[Measured]:
    """Evaluate the paper's statements about a classifier on two classes.

    The minimum is over the rows of the first seed; the other orders have the same rows.

    Raises
    ------
    ValueError
        Nothing can be evaluated. The message has the reason.
    """
    result, name = run.result, run.result["algorithm"]
    if name not in mistake_bounds.MINIMA:
        raise ValueError(f"no theorem is about {name}")
    if len(result["labels_of_classes"]) > 2:
        raise ValueError("the theorems are about two classes")
    if (T := result["n_rounds"]) > MAX_ROWS:
        raise ValueError(f"{T:,} rows are more than {MAX_ROWS:,}")
    job = prepare(schema.read(run.config))
    streams = getattr(job, "streams", [job.stream])  # one per permutation
    if streams[0] is not streams[-1] and job.settings.stream.limit is not None:
        raise ValueError(
            "with stream.limit every permutation has other rows: set stream.order=file"
        )
    X, y = (np.concatenate(parts) for parts in zip(*job.stream.blocks(1024), strict=True))
    X, kernels, params = job.stream.softened(X), job.dictionary, result["params"]
    minimum = mistake_bounds.minimum_of(name, params, kernels, X, y).lower
    batch = None
    if name == "omkc_da_o":
        batch = mistake_bounds.batch_error(kernels, X, y, params["R"]).lower
    updates = float(run.curves["updates"].sum(axis=1).mean())
    measured = {"mistakes": float(np.mean(result["mistakes"])), "updates": updates}
    stated = mistake_bounds.statements(name, params, len(kernels), T, minimum, batch)
    return [Measured(s.name, s.of, measured[s.of], s.value, s.unproved) for s in stated]


def of_run(run: Run) -> list[Measured]:
    """Evaluate every theorem about a run; [] if there is none."""
    result = run.result
    if result.get("task") == "classification":
        return mistakes_of_run(run) if result["algorithm"] in mistake_bounds.MINIMA else []
    found = []
    if "federated" in result:
        for name, bound, who in (
            ("theorem 1", client_bound(run), "clients"), ("theorem 2", server_bound(run), "server")
        ):  # fmt: skip
            if bound is not None and "mean" in result["regret"].get(who, {}):
                regret = result["regret"][who]["mean"]
                found.append(Measured(name, f"regret of the {who}", regret, float(bound[-1])))
    elif (of_run := bound_of_run(run)) and "mean" in result["regret"].get("ridge_features", {}):
        regret = result["regret"]["ridge_features"]["mean"]
        note = "; ".join(of_run.notes)
        found.append(Measured(of_run.theorem, "regret", regret, float(of_run.value[-1]), note))
    return found
