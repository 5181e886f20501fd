"""Regrets of a federation: of each client and of all together, above what hindsight knows."""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.core.representations.random_features import draw_features
from omkl.experiment.job import Progress
from omkl.experiment.metrics import mean_and_deviation
from omkl.experiment.regret import MOST_MEBIBYTES, load_or_compute
from omkl.federated import hindsight, safeguards
from omkl.theory.federated import theorem_1, theorem_2
from omkl.threads import one_thread_each, thread_pool

if TYPE_CHECKING:
    from omkl.experiment.federation import FederatedJob, Sums

COMPARATOR = "each client's best online kernel (11), mean over the clients"
CLIENTS_RIDGE = f"{hindsight.CLIENTS}, mean over the clients"


def against_comparators(
    job: FederatedJob, sums: Sums, largest_loss: float, progress: Progress | None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Entries of ``regret``, and their curves: (11), the same above ridge regressions, and (12)."""
    K, rounds = len(job.split.clients), sums.squared.rounds.curve()[0]
    regret = {"clients": over_clients(COMPARATOR, sums.client_regret)}
    curves = {"client_regret": sums.client_regret, "regret_clients": sums.regrets.curve()[1]}
    bound = theorem_1(job.params, len(job.used), rounds)
    if bound is not None:
        regret["clients"] |= _bounded(bound, "theorem 1", "each client", largest_loss)
        curves["bound"] = bound
    if not job.settings.regret.ridge_features:
        return regret, curves
    reason, found = _too_much(job), {}
    if reason is None:
        try:
            found = _hindsight(job, progress)
        except np.linalg.LinAlgError as error:  # the clients' rounds are worth more
            reason = f"{error}. Rescale the inputs and the target, or raise regret.lam"
    if reason is not None:
        regret["clients_ridge"] = {"label": CLIENTS_RIDGE, "skipped": reason}
        regret["server"] = {"label": hindsight.SERVER, "skipped": reason}
        return regret, curves
    own = sums.squared.total - found["client_errors"]
    regret["clients_ridge"] = over_clients(CLIENTS_RIDGE, own)
    curves["client_ridge_regret"] = own
    curves["regret_clients_ridge"] = (
        sums.squared.rounds.curve()[1] - found["mean_errors"][:, rounds - 1]
    )
    above = sums.losses.curve()[1] - found["shared_loss"][:, rounds - 1]
    average, deviation = mean_and_deviation(above[:, -1])
    regret["server"] = {"label": hindsight.SERVER, "mean": average, "std": deviation}
    regret["server"]["theta_norm"] = float(found["theta_norm"].mean())
    curves["server_regret"] = above
    norm = float(np.sqrt(np.mean(found["theta_norm"] ** 2)))
    bound = theorem_2(job.params, len(job.used), K, rounds, norm)
    learned_as_told = job.settings.safeguards._replace(clients_per_round=None) == safeguards.NONE
    if bound is not None and sums.squared.together and learned_as_told:
        regret["server"] |= _bounded(bound, "theorem 2", "all clients together", largest_loss)
        curves["server_bound"] = bound
    return regret, curves


def _bounded(bound: np.ndarray, theorem: str, of: str, largest_loss: float) -> dict[str, Any]:
    return {
        "bound": float(bound[-1]),
        "theorem": theorem,
        "bound_of": of,
        "largest_loss": largest_loss,
    }


def over_clients(label: str, regret: np.ndarray) -> dict[str, Any]:
    """The entry of regrets (R, K): their mean over the clients, and how they spread."""
    mean, deviation = mean_and_deviation(regret.mean(axis=1))
    spread = float(regret.std(axis=1, ddof=1).mean()) if regret.shape[1] > 1 else None
    return {"label": label, "mean": mean, "std": deviation, "spread": spread}


def _too_much(job: FederatedJob) -> str | None:
    """Why ridge regression in hindsight is left out, if it is."""
    rows, most = int(job.split.lengths.sum()), job.settings.regret.max_rounds
    if rows > most:
        return f"{rows:,} rounds of all clients are more than regret.max_rounds={most}"
    D = job.D
    mebibytes = (len(job.split.clients) * 2 * D + 3 * (2 * D + 1) ** 2) * 8 // 2**20
    if mebibytes > MOST_MEBIBYTES:
        return f"its normal equations with D={D} take {mebibytes} MiB"
    return None


def _hindsight(job: FederatedJob, progress: Progress | None) -> dict[str, np.ndarray]:
    """Of each seed's ridge regressions: client_errors (R, K), mean_errors and shared_loss (R, T)
    up to each round, over the clients, and theta_norm (R,) of the function for all."""
    X, y, lengths = job.split.X, job.split.y, job.split.lengths
    T, _, d = X.shape
    lam, shared_lam = float(job.settings.regret.lam), float(job.params.lam)
    # Rows alone do not say whose they are: K x T rows have the same bytes for every K.
    shape = f"{job.split.rows.shape} {lengths.tolist()}".encode()
    dealt = hashlib.sha256(shape + job.split.rows.tobytes()).hexdigest()

    def make(seed: int) -> dict[str, np.ndarray]:
        omega = draw_features(job.used, d, job.D, seed).omega
        best = hindsight.ridge(omega, X, y, lengths, lam, shared_lam)
        norm2 = float(best.theta @ best.theta)
        present = (np.arange(T)[:, None] < lengths).sum(axis=1)
        loss = best.shared_errors.sum(axis=1) + shared_lam * norm2 * present
        return {
            "client_errors": best.errors.sum(axis=0),
            "mean_errors": np.cumsum(best.errors.mean(axis=1)),
            "shared_loss": np.cumsum(loss),
            "theta_norm": np.sqrt(norm2),
        }

    def find(seed: int) -> dict[str, np.ndarray]:
        what = f"federated ridge {seed} {shared_lam} {job.used} {dealt}"
        return load_or_compute(job, what, functools.partial(make, seed))

    found = []
    with one_thread_each(), thread_pool(min(job.settings.n_threads, len(job.seeds))) as pool:
        for one in pool.map(find, job.seeds):
            found.append(one)
            if progress:
                progress("comparator", len(found), len(job.seeds), None)
    return {name: np.stack([one[name] for one in found]) for name in found[0]}
