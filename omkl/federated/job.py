"""A federated run: from a resolved configuration to the numbers of its run folder.

What a federated run has besides what ``omkl.results`` lists (R seeds, K clients):

``result.json``
    federated      scheme, n_clients, rounds, rows (of the data set), max_upload and, per round
                   and client and in total, numbers and bytes: see ``communication``
    regret         {"clients": ..}: (11), the mean over the clients of each one's loss above
                   that of its best kernel; ``spread`` is the standard deviation over the
                   clients, mean over the seeds, ``bound`` theorem 1's right-hand side where
                   the learner has one and ``largest_loss`` of a kernel, which it wants in [0, 1]
    mse            per seed, mean over the clients

``curves.npz``
    regret_clients (R, P) mean over the clients
    client_mse, client_regret   (R, K) after the last round
    client_sent    (R, K, 2) numbers and rows sent by each client
    client_name    (K,)
    sent_kernels   (R, N) messages that held the kernel; there is no ``usage``
    bound          (P,) theorem 1's right-hand side, where there is one
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from omkl import federated, kernels, params
from omkl.engine import Schedule, at
from omkl.federated import protocol
from omkl.federated.protocol import BYTES, FederatedAlgorithm
from omkl.federated.simulation import FederatedTrace, Federation
from omkl.federated.split import Split, split
from omkl.metrics import Recorder, label_cost, mean_and_deviation
from omkl.weights import normalised

Progress = Callable[[str, int, int | None, float | None], None]
COMPARATOR = "each client's best kernel in hindsight, mean over the clients"
TURNS = 20_000  # client rounds between progress reports


class FederatedJob(NamedTuple):
    """As ``runner.Job``, with the streams of the clients."""

    config: dict[str, Any]
    split: Split
    dictionary: tuple[kernels.Kernel, ...]
    algorithm: FederatedAlgorithm
    params: Any
    seeds: list[int]

    @property
    def stream(self) -> Any:
        return self.split.stream

    def federation(self, seed: int) -> Federation:
        return Federation(
            self.algorithm,
            self.params,
            self.dictionary,
            self.stream.n_inputs,
            self.config["D"],
            seed,
            len(self.split.clients),
            self.config["max_upload"],
        )


def check_settings(config: Mapping[str, Any]) -> None:
    """Types and ranges of what belongs to a federation."""
    whole = {"clients": 1, "max_upload": 1, "federation.rounds": 2}
    whole |= {"federation.home": 1, "federation.away": 0}
    federation = config["federation"]
    for key, low in whole.items():
        value = federation.get(key[11:]) if key.startswith("federation.") else config[key]
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise ValueError(f"{key}={value!r} is not a whole number of at least {low}")
    if config["precision"] != "float64":
        raise ValueError(
            f"precision={config['precision']!r}: a federation computes in float64, which is what "
            "is sent"
        )


def prepare(config: Mapping[str, Any], parts: Split | None = None) -> FederatedJob:
    """Check a configuration against the data, and build what it names; as ``runner.prepare``.

    ``parts`` are the clients' streams where they are known already.
    """
    check_settings(config)
    dictionary = kernels.dictionary(config["kernels"])
    given = dict(config["algorithm"])
    algorithm = federated.load(given.pop("name"))
    sizes = {"N": len(dictionary), "D": config["D"] or protocol.MOST_FEATURES}
    early = params.build(algorithm.Params, given, 2, sizes)
    budget = config["max_upload"]
    used = algorithm.kernels(early, dictionary)
    if config["D"] is None:
        D = protocol.features_for(algorithm, early, len(used), budget) if used else 1
        config = {**config, "D": D}
    if used:  # before the data are opened: a wrong number should not wait for a large file
        protocol.check_budget(algorithm, early, (len(used), 2 * config["D"]), budget)
    parts = split(config) if parts is None else parts
    built = params.build(algorithm.Params, given, len(parts.y), sizes)
    if not used:  # a network, whose size depends on the data
        algorithm.model(built, used, parts.X.shape[2], config["D"], config["seed"], budget)
    seeds = [config["seed"] + r for r in range(config["seeds"])]
    resolved = dict(config) | {"clients": len(parts.clients)}
    return FederatedJob(resolved, parts, dictionary, algorithm, built, seeds)


def compute(
    job: FederatedJob, n_threads: int, threads: Any, progress: Progress | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Stream every seed through its federation: the numbers of result.json and curves.npz.

    ``threads(n)`` is a context manager that gives a pool.
    """
    X, y = job.split.X, job.split.y
    T, K, d = X.shape
    R = len(job.seeds)
    n_threads = min(n_threads, R)
    if progress:
        progress("preparing", 0, None, None)
    with threads(1) as pool:  # the compiler would swallow a Ctrl-C in the main thread
        pool.submit(lambda: job.federation(0).partial_fit(X[:2], y[:2])).result()
        runs = pool.submit(lambda: [job.federation(seed) for seed in job.seeds]).result()
    errors, regrets = Recorder(R), Recorder(R)
    client_errors, last_regret = np.zeros((R, K)), np.zeros((R, K))
    seconds = np.zeros(R)

    def one(r: int, rows: slice) -> FederatedTrace:
        before = time.perf_counter()
        trace = runs[r].partial_fit(X[rows], y[rows])
        seconds[r] += time.perf_counter() - before
        return trace

    clock = time.perf_counter()
    size = max(1, TURNS // K)
    with threads(n_threads) as pool:
        for start in range(0, T, size):
            rows = slice(start, min(T, start + size))
            traces = list(pool.map(lambda r: one(r, rows), range(R)))  # noqa: B023
            with np.errstate(over="ignore", invalid="ignore"):
                squared = [np.square(trace.y_hat - y[rows]) for trace in traces]
                errors.add(np.stack([s.mean(axis=1) for s in squared]))
                _require_finite(job, errors)
                mean = np.stack([trace.regret.mean(axis=1) for trace in traces])
                before = last_regret.mean(axis=1, keepdims=True)
                regrets.add(np.diff(mean, axis=1, prepend=before))
            client_errors += np.stack([s.sum(axis=0) for s in squared])
            last_regret = np.stack([trace.regret[-1] for trace in traces])
            if progress:
                progress("rounds", errors.n_rounds, T, float(errors.total.mean() / errors.n_rounds))
    elapsed = time.perf_counter() - clock
    rounds, sums = errors.curve()
    mse = errors.total / T
    mse_mean, mse_std = mean_and_deviation(mse)
    used = np.stack([run.used for run in runs])
    learned_with = job.algorithm.kernels(job.params, job.dictionary)
    regret: dict[str, Any] = {}
    curves = {
        "t": rounds,
        "mse": sums / rounds,
        "client_mse": client_errors / T,
        "client_sent": np.stack([run.sent for run in runs]),
        "client_name": np.array(job.split.clients),
        "change_rounds": np.zeros(0, dtype=np.int64),
    }
    if learned_with:
        average, deviation = mean_and_deviation(last_regret.mean(axis=1))
        spread = float(last_regret.std(axis=1, ddof=1).mean()) if K > 1 else None
        stated = {"label": COMPARATOR, "mean": average, "std": deviation, "spread": spread}
        regret["clients"] = stated
        curves |= {"client_regret": last_regret, "regret_clients": regrets.curve()[1]}
        bound = theorem_1(job.params, len(learned_with), rounds)
        if bound is not None:
            regret["clients"]["bound"] = float(bound[-1])
            regret["clients"]["largest_loss"] = max(float(run.worst[1]) for run in runs)
            curves["bound"] = bound
        curves |= {
            "weights": np.stack([_weights(run) for run in runs]),
            "sent_kernels": used,
            "kernel_family": np.array([k.family for k in learned_with]),
            "kernel_bandwidth": np.array([k.bandwidth for k in learned_with]),
        }
    result = {
        "n_rounds": T,
        "n_inputs": d,
        "n_kernels": len(learned_with),
        "deterministic": False,
        "max_squared_error": max(float(run.worst[0]) for run in runs),
        "max_kernel_squared_error": max(float(run.worst[1]) for run in runs),
        "max_norm": float(np.linalg.norm(X, axis=2).max()),
        "D": job.config["D"],
        "seeds": job.seeds,
        "mse_mean": mse_mean,
        "mse_std": mse_std,
        "mse": mse.tolist(),
        "kernels_per_round": float(len(learned_with)),
        **label_cost(mse, np.full(R, T * K), T * K),
        "mse_over": "all rounds",
        "seconds": elapsed,
        "seconds_per_seed": seconds.tolist(),
        "threads": n_threads,
        "regret": regret,
        "federated": communication(job, runs),
        "stream": job.stream.provenance,
    }
    return result, curves


def communication(job: FederatedJob, runs: list[Federation]) -> dict[str, Any]:
    """Numbers and bytes between a client and the server, mean over clients and seeds.

    Numbers are float64 values, parameters and losses; an index of a row is no number but
    takes bytes. Features are not sent: all sides draw them from the seed.
    """
    T, K = job.split.y.shape
    sent = np.stack([run.sent for run in runs]).astype(float)  # (R, K, 2)
    numbers, indices = protocol.download(job.algorithm, runs[0].server)
    server = runs[0].server
    most = job.algorithm.upload(job.params, *server.model.theta.shape)
    up = {
        "numbers_a_round": float(sent[:, :, 0].mean() / T),
        "bytes_a_round": float(BYTES * sent.sum(axis=2).mean() / T),
        "most_numbers_a_round": most,
        "numbers": float(sent[:, :, 0].mean()),
        "bytes": float(BYTES * sent.sum(axis=2).mean()),
    }
    down = {
        "numbers_a_round": numbers,
        "bytes_a_round": BYTES * (numbers + indices),
        "most_numbers_a_round": numbers,
        "numbers": numbers * T,
        "bytes": BYTES * (numbers + indices) * T,
    }
    return {
        "scheme": job.config["federation"]["name"],
        "n_clients": K,
        "rounds": T,
        "rows": job.stream.n_rounds,
        "max_upload": job.config["max_upload"],
        "up": up,
        "down": down,
        "bytes_of_all": K * (up["bytes"] + down["bytes"]),
    }


def theorem_1(built: Any, n_kernels: int, t: np.ndarray) -> np.ndarray | None:
    """ln N / eta_k + eta_k t / 2 on the rounds t (P,): no client's regret of POF-MKL is larger.

    Ghari and Shen, NeurIPS 2022, (13), for losses in [0, 1]. None for a learner without
    client weights, and where eta_k is not constant, of which the theorem does not speak.
    """
    eta_k = getattr(built, "eta_k", None)
    if not isinstance(eta_k, Schedule) or eta_k.power != 0.0:
        return None
    step = at(eta_k, 1)
    return np.log(n_kernels) / step + step * np.asarray(t, dtype=float) / 2.0


def _weights(run: Federation) -> np.ndarray:
    """Weights (N,) after the last round, mean over the clients where each has its own."""
    N = len(run.server.model.theta)
    if "log_w" in run.own._fields:
        return normalised(run.own.log_w).mean(axis=0)
    return normalised(run.server.log_w) if len(run.server.log_w) else np.full(N, 1.0 / N)


def _require_finite(job: FederatedJob, recorder: Recorder) -> None:
    if np.all(recorder.total < np.inf):
        return
    steps = [
        f"algorithm.{name}={job.config['algorithm'][name]}"
        for name, value in zip(job.params._fields, job.params, strict=True)
        if isinstance(value, Schedule)
    ]
    raise FloatingPointError(
        f"by round {recorder.n_rounds} the predictions of {job.algorithm.name} are no longer "
        f"finite: the steps are too large for this stream. Reduce {' or '.join(steps)}; "
        "importance weights divide steps by small probabilities, so a larger M helps as well"
    )
