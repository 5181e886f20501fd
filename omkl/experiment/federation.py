"""Run federated jobs: from a resolved configuration to the numbers of the run folder.

A federated run with R seeds and K clients has these entries in addition to those of
``omkl.runs.run_folder``. Equations are those of Ghari and Shen (NeurIPS 2022).

``result.json``
    federated      scheme and n_clients;
                   rounds and least_rounds: number of rounds of the longest and of the shortest
                   stream;
                   rows and rows_used: number of rows of the data set, and number of rows that were
                   given to clients;
                   max_upload, and the numbers and bytes that are sent (see ``communication``);
                   safeguards (if any): settings, requested and refused messages, and with privacy
                   the noise and its guarantee (``federated.privacy``);
                   exchange (unless a server takes part in every round): ``federated.exchange``;
                   disagreement (with exchange): relative distance of the clients' parameters theta
                   from their mean, after the last round; mean over the seeds
    regret         clients: equation (11). The regret of a client is its loss minus the loss of the
                   online kernel that is best for this client. The entry is the mean over the
                   clients. ``spread`` is the standard deviation over the clients, mean over the
                   seeds. ``largest_loss`` is the largest loss of a kernel in a round
                   clients_ridge: the sum of a client's squared errors minus the sum for its best
                   ridge regression in hindsight (``experiment.comparators``), mean over the clients
                   server: equation (12). The loss of all clients together minus the loss of the
                   function that is best for all clients together. ``theta_norm`` is the norm of
                   the coefficients of this function, one number per seed
    mse            one number per seed: the mean over the clients of the MSE of a client
    baselines      mean, last, ridge: errors of a central forecaster that learns the rows of all
                   clients in turn, round by round. mse is the mean over the clients, as for the
                   learner; rmse and mae are over all rows

``curves.npz``, at P recorded rounds t
    mse            (R, P) mean squared error of all clients in the rounds up to t
    scored         (P,) number of rounds of all clients up to t
    regret_clients, regret_clients_ridge   (R, P) means over the clients
    regret_server  (R, P) sum over the clients, equation (12)
    client_mse, client_regret, client_ridge_regret   (R, K) after the client's last round
    client_sent    (R, K, 2) totals that each client has sent: numbers at index 0 of the last axis,
                   rows of theta at index 1
    client_rounds  (K,) rounds of each client
    client_name    (K,) names of the clients
    sent_kernels   (R, N) number of messages that contain each kernel. There is no array ``usage``

When a client's stream ends, its sums no longer change, and the other clients continue.
"""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from omkl import federated
from omkl.config.schema import Settings
from omkl.config.settings import content_addressed, with_defaults_cut
from omkl.core import hyperparameters, kernels
from omkl.core.kernels import RFF
from omkl.core.representations.random_features import draw_features
from omkl.core.weights import normalised
from omkl.datasets import Stream
from omkl.experiment import memory
from omkl.experiment.comparators import (
    ALL_CLIENTS,
    EACH_CLIENT,
    MOST_MEBIBYTES,
    clients_ridge,
    load_or_compute,
)
from omkl.experiment.job import (
    MOST_STREAM_BYTES,
    Computed,
    Progress,
    Timing,
    is_of_now,
    kernel_curves,
    reported,
    require_finite,
)
from omkl.experiment.metrics import (
    ClientBaselines,
    ClientErrors,
    Recorder,
    WeightHistory,
    label_cost,
    largest_norm,
    mean_and_deviation,
    weight_curves,
)
from omkl.federated import privacy, protocol
from omkl.federated.exchange import SERVER, links_of
from omkl.federated.privacy import NO_SAFEGUARDS
from omkl.federated.protocol import Plan
from omkl.federated.simulation import FederatedTrace, Federation
from omkl.federated.split import Split, split
from omkl.utils.threads import thread_pool

COMPARATOR = "each client's best online kernel (11), mean over the clients"
CLIENTS_RIDGE = f"{EACH_CLIENT}, mean over the clients"


CLIENT_ROUNDS = 20_000  # rounds between progress reports, summed over the clients


@dataclass(frozen=True, eq=False)
class FederatedJob(Plan):
    """Job of a federation: a ``Plan`` with the streams of all clients in ``split``."""

    split: Split

    @property
    def stream(self) -> Stream:
        """Data set whose rows are divided among the clients."""
        return self.split.stream

    def federation(self, seed: int) -> Federation:
        settings, K = self.settings, len(self.lengths)
        return Federation(
            self.algorithm, self.params, self.dictionary, self.n_inputs, self.D, seed, K,
            settings.max_upload, lengths=self.lengths, guards=settings.safeguards,
            links=links_of(settings.message_exchange, K, settings.seed),
        )  # fmt: skip

    def notes(self) -> list[str]:
        return self.settings.notes

    def warm_up(self, compiled: Callable[[], object] = lambda: None) -> None:
        X, y = self.split.X[:2], self.split.y[:2]
        self.federation(0).partial_fit(X, y)
        ClientBaselines(self.stream, self.lengths).add_rounds(X, y)

    def compute(self, progress: Progress | None = None, staging: Path | None = None) -> Computed:
        (T, K), R = self.split.y.shape, len(self.seeds)
        n_threads = min(self.settings.n_threads, R)
        federations = [self.federation(seed) for seed in self.seeds]
        sums, seconds = Sums(self), np.zeros(R)
        histories = [WeightHistory(T) for _ in range(R)]

        def one(r: int, rows: slice) -> FederatedTrace:
            before, traces = time.perf_counter(), []
            X, y = self.split.X[rows], self.split.y[rows]
            for piece in histories[r].pieces(rows.start, np.ones(len(y), bool)):
                traces.append(federations[r].partial_fit(X[piece], y[piece]))
                if self.used and histories[r].wants(t := rows.start + piece.stop):
                    histories[r].keep(t, _weights(federations[r]))
            seconds[r] += time.perf_counter() - before
            return FederatedTrace(*map(np.concatenate, zip(*traces, strict=True)))

        clock = time.perf_counter()
        size = max(1, CLIENT_ROUNDS // K)
        with thread_pool(n_threads) as pool:
            for start in range(0, T, size):
                rows = slice(start, min(T, start + size))
                sums.add(rows, list(pool.map(lambda r: one(r, rows), range(R))))  # noqa: B023
                if progress:
                    done = sums.squared.rounds
                    progress("rounds", done.n_rounds, T, float(done.total.mean() / done.n_rounds))
        elapsed = time.perf_counter() - clock - sums.baselines.seconds
        timing = Timing(elapsed, seconds.tolist(), n_threads)
        return _summarise(self, federations, sums, histories, timing, progress)


def choose_learner(
    settings: Settings,
    n_rounds: int | None,
    n_inputs: int = 0,
    lengths: np.ndarray | Sequence[int] = (),
) -> Plan:
    """Check the settings, and return the plan of a federation: algorithm, parameters and D.

    If ``D``, the number of random features per kernel, is not set, it is the largest number that
    ``max_upload`` allows.

    Parameters
    ----------
    settings
        Settings of the run.
    n_rounds
        Number of rounds of the longest stream; None if unknown.
    n_inputs
        Number of inputs; 0 if unknown.
    lengths
        Number of rounds of each client (K,).

    Raises
    ------
    ValueError
        A setting is wrong, or ``max_upload`` is too small. The message names the setting.
    """
    dictionary = kernels.dictionary(settings.placed_kernels, n_inputs or None)
    algorithm = federated.load(settings.algorithm.name)
    sizes = {"N": len(dictionary), "D": settings.D or protocol.MOST_FEATURES}
    settings = with_defaults_cut(settings, algorithm.Params, sizes)
    params = hyperparameters.build(algorithm.Params, settings.algorithm.params, n_rounds, sizes)
    used = algorithm.kernels(params, dictionary, n_inputs or 1)
    D, most = settings.D, settings.max_upload
    for kernel in used:
        kernel.require_frequencies()
    if not used and dictionary[0].features != RFF:
        raise ValueError(f"features={dictionary[0].features}: {algorithm.name} draws none")
    if D is None:
        D = protocol.features_for(algorithm, params, len(used), most) if used else 1
    if used:
        protocol.check_budget(algorithm, params, (len(used), 2 * D), most)
    return Plan(settings, algorithm, params, dictionary, D, n_inputs, np.asarray(lengths))


def prepare(settings: Settings, clients: Split | None = None) -> FederatedJob:
    """Check settings against the data, and build the job.

    Parameters
    ----------
    settings
        Settings of the run.
    clients
        Streams of the clients; None reads and splits the data set.

    Raises
    ------
    ValueError
        A setting is wrong. The message names the setting and a correction.
    DataError
        The data cannot be used.
    """
    # Checked before the data are opened, so that a wrong number does not wait for a large file.
    early = choose_learner(settings, 2)
    settings, D, algorithm, used = early.settings, early.D, early.algorithm, early.used
    if settings.safeguards.privacy is not None:
        n_kernels = max(1, len(used))
        privacy.account(settings.safeguards.privacy, algorithm, early.params, n_kernels, 2)
    clients = _split(settings) if clients is None else clients
    _check_asked(settings, len(clients.clients))
    d, n_clients = clients.X.shape[2], len(clients.clients)
    chosen = choose_learner(settings, len(clients.y), d, clients.lengths)
    params = chosen.params

    def party_bytes(features: int) -> int:
        model = algorithm.model(params, used, d, features, settings.seed, settings.max_upload)
        one = memory.bytes_of(algorithm.client_state(params, used, model, 1))
        if settings.safeguards.trim:  # the server stores all messages of a round
            one += protocol.BYTES * algorithm.upload(params, *model.theta.shape)
        if settings.exchange.graph is not None or settings.exchange.every > 1:
            one += 2 * model.theta.nbytes  # each client then has a copy of the server's state
        return memory.bytes_of(model) + n_clients * one

    each = memory.extrapolated(party_bytes, D)
    memory.require_memory(settings, clients.stream, len(used), D, each, settings.seeds)
    portable = content_addressed(settings.replaced(D=D, clients=n_clients), clients.stream)
    return FederatedJob(**vars(chosen) | {"settings": portable}, split=clients)


_splits: dict[str, Split] = {}


def _split(settings: Settings) -> Split:
    """Return the streams of the clients. They are cached for further jobs of the process."""
    dataset, federation, n_clients = settings.dataset, settings.federation, settings.clients
    name = repr((dataset, settings.stream, federation, n_clients, settings.seed))
    if name not in _splits or not is_of_now(_splits[name].stream, dataset):
        stream = dict(settings.stream)
        _splits[name] = split(dataset, stream, n_clients, settings.seed, **dict(federation))
    clients = _splits[name]
    while len(_splits) > 1 and sum(one.X.nbytes for one in _splits.values()) > MOST_STREAM_BYTES:
        _splits.pop(next(iter(_splits)))
    return clients


def _check_asked(settings: Settings, n_clients: int) -> None:
    most = settings.safeguards.clients_per_round
    if most is not None and most > n_clients:
        raise ValueError(
            f"clients_per_round={most}: there are {n_clients} clients; leave it out to ask all"
        )


class Sums:
    """Metrics of R federations (one per seed) of K clients, which are updated block by block.

    squared        squared errors of the predictions
    regrets        cumulative regrets of each seed, means over the clients
    losses         cumulative losses of each seed, sums over the clients
    client_regret  (R, K) cumulative regrets after the latest block
    baselines      errors of central forecasters on the same rows
    """

    def __init__(self, job: FederatedJob) -> None:
        self.job = job
        R, K = len(job.seeds), len(job.split.clients)
        self.squared = ClientErrors(R, job.split.lengths)
        self.baselines = ClientBaselines(job.stream, job.split.lengths)
        self.regrets, self.losses = Recorder(R), Recorder(R)
        self.client_regret = np.zeros((R, K))
        self._last_loss = np.zeros(R)

    def add(self, rows: slice, traces: Sequence[FederatedTrace]) -> None:
        """Add a range of rounds. Raises FloatingPointError if their predictions are not finite."""
        y, lengths = self.job.split.y[rows], self.job.split.lengths
        with np.errstate(over="ignore", invalid="ignore"):
            squared = np.stack([np.square(trace.y_hat - y) for trace in traces])
            if not self.squared.together:
                done = np.arange(rows.start, rows.stop)[:, None] >= lengths
                squared = np.where(done, 0.0, squared)
            self.squared.add(squared)
            require_finite(self.job, self.job.params, self.squared.rounds, "round")
            mean = np.stack([trace.regret.mean(axis=1) for trace in traces])
            before = self.client_regret.mean(axis=1, keepdims=True)
            self.regrets.add(np.diff(mean, axis=1, prepend=before))
            total = np.stack([trace.loss.sum(axis=1) for trace in traces])
            self.losses.add(np.diff(total, axis=1, prepend=self._last_loss[:, None]))
            self._last_loss = total[:, -1]
        self.client_regret = np.stack([trace.regret[-1] for trace in traces])
        self.baselines.add_rounds(self.job.split.X[rows], y)


def _summarise(
    job: FederatedJob,
    federations: list[Federation],
    sums: Sums,
    histories: list[WeightHistory],
    timing: Timing,
    progress: Progress | None,
) -> Computed:
    lengths, T = job.split.lengths, len(job.split.y)
    rounds = sums.squared.rounds.curve()[0]
    mse = sums.squared.mse
    curves = {
        "t": rounds,
        "mse": sums.squared.curve(),
        "scored": sums.squared.served(),
        **sums.baselines.curves_of_rounds(),
        "client_mse": sums.squared.total / lengths,
        "client_sent": np.stack([run.totals.sent for run in federations]),
        "client_rounds": lengths,
        "client_name": np.array(job.split.clients),
        "change_rounds": np.zeros(0, dtype=np.int64),
    }
    largest_loss = max(float(run.totals.worst[1]) for run in federations)
    if job.used:
        weights = np.stack([_weights(run) for run in federations])
        curves |= {
            "weights": weights,
            **weight_curves(histories, T, weights),
            "sent_kernels": np.stack([run.totals.used for run in federations]),
            **kernel_curves(job.used),
        }
    served = int(lengths.sum())
    fields: dict[str, Any] = {
        "n_rounds": T,
        "n_kernels": len(job.used),
        "deterministic": False,
        "max_squared_error": max(float(run.totals.worst[0]) for run in federations),
        "max_kernel_squared_error": largest_loss,
        "max_norm": largest_norm(job.split.X.reshape(-1, job.split.X.shape[2])),
        "kernels_per_round": float(len(job.used)),
        **label_cost(np.full(len(job.seeds), served), served),
        "mse_over": "all rounds",
        "target_unit": job.stream.target_unit,
        "baselines": sums.baselines.entries(),
        "regret": {},
        "federated": exchanged(job, federations) | communication(job, federations),
    }
    if federations[0].links.n_states > 1:  # with a server all clients have its state
        apart = float(np.mean([run.disagreement for run in federations]))
        fields["federated"]["disagreement"] = apart
    if job.used:
        regret, of_regret = against_comparators(job, sums, largest_loss, progress)
        fields["regret"] = regret
        curves |= of_regret
    return Computed(reported(job, mse, timing, **fields), curves)


def communication(job: FederatedJob, runs: list[Federation]) -> dict[str, Any]:
    """Return how much a client and the server send, as means over clients and seeds.

    The entries count numbers and bytes. Numbers are float64 parameters and losses. The index of a
    kernel counts as bytes but not as a number. Random features are not sent, because clients and
    server draw them from the same seed.
    """
    settings, server, lengths = job.settings, runs[0].server, job.split.lengths
    exchange = settings.message_exchange._asdict()
    changed = {key: value for key, value in exchange.items() if value != getattr(SERVER, key)}
    n_rounds = float(lengths.mean()) if np.ptp(lengths) else int(lengths[0])
    traffic = protocol.traffic(
        job.algorithm, server, np.stack([run.totals.sent for run in runs]).astype(float), n_rounds,
        job.algorithm.upload(job.params, *server.model.theta.shape), settings.message_exchange,
    )  # fmt: skip
    return {
        "scheme": settings.scheme,
        "n_clients": len(lengths),
        "rounds": int(lengths.max()),
        "least_rounds": int(lengths.min()),
        "rows": job.stream.n_rounds,
        "rows_used": int(lengths.sum()),
        "max_upload": settings.max_upload,
        **traffic,
        **({"exchange": changed} if changed else {}),
    }


def exchanged(job: FederatedJob, runs: list[Federation]) -> dict[str, Any]:
    """Return the settings and effects of the safeguards. Counts are means over the seeds."""
    settings = job.settings.safeguards
    if settings == NO_SAFEGUARDS:
        return {}
    asked, refused = np.stack([run.totals.replies for run in runs]).sum(axis=1).mean(axis=0)
    result: dict[str, Any] = {**settings._replace(privacy=None)._asdict()}
    result |= {"messages": float(asked), "refused": float(refused)}
    if settings.privacy is not None:
        N, T = len(runs[0].server.model.theta), len(job.split.y)
        counted = privacy.account(settings.privacy, job.algorithm, job.params, N, T)
        result["privacy"] = settings.privacy._asdict() | counted._asdict()
    return {"safeguards": result}


def _weights(run: Federation) -> np.ndarray:
    """Return the weights (N,) of the kernels: means over the clients, if clients have weights."""
    N = len(run.server.model.theta)
    if "log_w" in run.clients._fields:
        return normalised(run.clients.log_w).mean(axis=0)
    log_w = run.servers.log_w  # weights of the server, or of every client
    return normalised(log_w).mean(axis=0) if log_w.size else np.full(N, 1.0 / N)


# --- Regrets of each client and of all clients together -------------------------------------------


def against_comparators(
    job: FederatedJob, sums: Sums, largest_loss: float, progress: Progress | None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the regrets, as entries of result.json and as curves.

    The regrets are ``clients``, ``clients_ridge`` and ``server`` (module docstring).

    Parameters
    ----------
    job, sums
        The job and its metrics.
    largest_loss
        Largest loss of a kernel in a round.
    progress
        Callback, or None.
    """
    rounds = sums.squared.rounds.curve()[0]
    regret = {"clients": over_clients(COMPARATOR, sums.client_regret)}
    regret["clients"]["largest_loss"] = largest_loss
    curves = {"client_regret": sums.client_regret, "regret_clients": sums.regrets.curve()[1]}
    if not job.settings.regret.ridge_features:
        return regret, curves
    reason, best = _too_much(job), {}
    if reason is None:
        try:
            best = _hindsight(job, progress)
        except np.linalg.LinAlgError as error:  # still report the clients' rounds
            reason = f"{error}. Rescale the inputs and the target, or raise regret.lam"
    if reason is not None:
        regret["clients_ridge"] = {"label": CLIENTS_RIDGE, "skipped": reason}
        regret["server"] = {"label": ALL_CLIENTS, "skipped": reason}
        return regret, curves
    of_clients = sums.squared.total - best["client_errors"]
    regret["clients_ridge"] = over_clients(CLIENTS_RIDGE, of_clients)
    curves["client_ridge_regret"] = of_clients
    curves["regret_clients_ridge"] = (
        sums.squared.rounds.curve()[1] - best["mean_errors"][:, rounds - 1]
    )
    above = sums.losses.curve()[1] - best["shared_loss"][:, rounds - 1]
    average, deviation = mean_and_deviation(above[:, -1])
    regret["server"] = {"label": ALL_CLIENTS, "mean": average, "std": deviation}
    regret["server"]["theta_norm"] = best["theta_norm"].tolist()
    curves["regret_server"] = above
    return regret, curves


def over_clients(label: str, regret: np.ndarray) -> dict[str, Any]:
    """Return the entry of result.json for the regrets (R, K) of R seeds and K clients."""
    mean, deviation = mean_and_deviation(regret.mean(axis=1))
    spread = float(regret.std(axis=1, ddof=1).mean()) if regret.shape[1] > 1 else None
    return {"label": label, "mean": mean, "std": deviation, "spread": spread}


def _too_much(job: FederatedJob) -> str | None:
    """Return the reason why ridge regression in hindsight is not computed; None if it is."""
    D = job.D
    mebibytes = (len(job.split.clients) * 2 * D + 3 * (2 * D + 1) ** 2) * 8 // 2**20
    if mebibytes > MOST_MEBIBYTES:
        return f"its normal equations with D={D} take {mebibytes} MiB"
    return None


def _hindsight(job: FederatedJob, progress: Progress | None) -> dict[str, np.ndarray]:
    """Return the errors of ridge regressions in hindsight, for R seeds and T rounds.

    Each seed has one regression per client, and one regression that all K clients share.

    client_errors  (R, K) sum of the squared errors of each client's own regression
    mean_errors    (R, T) cumulative squared errors of the own regressions, means over the clients
    shared_loss    (R, T) cumulative loss of the shared regression, sums over the clients
    theta_norm     (R,) norm of the coefficients of the shared regression
    """
    X, y, lengths = job.split.X, job.split.y, job.split.lengths
    T, _, d = X.shape
    lam, shared_lam = float(job.settings.regret.lam), float(getattr(job.params, "lam", 0.0))
    # The shape is part of the key: the same bytes may be K x T rows or T x K rows.
    shape = f"{job.split.rows.shape} {lengths.tolist()}".encode()
    dealt = hashlib.sha256(shape + job.split.rows.tobytes()).hexdigest()

    def make(seed: int) -> dict[str, np.ndarray]:
        omega = draw_features(job.used, d, job.D, seed).omega
        best = clients_ridge(omega, X, y, lengths, lam, shared_lam)
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

    ridges = []
    with thread_pool(min(job.settings.n_threads, len(job.seeds))) as pool:
        for one in pool.map(find, job.seeds):
            ridges.append(one)
            if progress:
                progress("comparator", len(ridges), len(job.seeds), None)
    return {name: np.stack([one[name] for one in ridges]) for name in ridges[0]}
