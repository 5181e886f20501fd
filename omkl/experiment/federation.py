"""A federated run: from a resolved configuration to the numbers of its run folder.

What a federated run has besides what ``omkl.runs.folder`` lists (R seeds, K clients):

``result.json``
    federated      scheme, n_clients, rounds (of the longest stream), least_rounds (of the
                   shortest), rows (of the data set), rows_used, max_upload and, per round and
                   client and in total, numbers and bytes: see ``communication``
    regret         {"clients": ..}: (11), the mean over the clients of each one's loss above
                   that of its best online kernel; ``spread`` is the standard deviation over
                   the clients, mean over the seeds, ``bound`` theorem 1's right-hand side
                   where the learner has one and ``largest_loss`` of a kernel, which it wants
                   in [0, 1]
                   {"clients_ridge": ..}: the same of squared errors above those of each
                   client's best ridge regression in hindsight (``omkl.federated.hindsight``)
                   {"server": ..}: (12), the loss of all clients together above that of the
                   best function for all, with ``theta_norm`` of that function, mean over the
                   seeds, and theorem 2's right-hand side as its ``bound``
    mse            per seed, mean over the clients of each one's over its own rounds

``curves.npz``
    mse            (R, P) mean over the clients of each one's up to round t
    regret_clients, regret_clients_ridge   (R, P) mean over the clients
    server_regret  (R, P) sum over the clients, as in (12)
    client_mse, client_regret, client_ridge_regret   (R, K) after the client's last round
    client_sent    (R, K, 2) numbers and rows sent by each client
    client_rounds  (K,) rounds of each client
    client_name    (K,)
    sent_kernels   (R, N) messages that held the kernel; there is no ``usage``
    bound          (P,) theorem 1's right-hand side, where there is one
    server_bound   (P,) theorem 2's, where there is one

A client whose stream ends before those of others is done then: its sums stay, and the
others go on.
"""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from omkl import federated
from omkl.core import hyperparameters, kernels
from omkl.core.representations.random_features import draw_features
from omkl.core.schedule import Schedule
from omkl.core.weights import normalised
from omkl.experiment.metrics import Recorder, label_cost, mean_and_deviation
from omkl.experiment.threads import one_thread_each
from omkl.federated import hindsight, protocol
from omkl.federated.protocol import BYTES, FederatedAlgorithm
from omkl.federated.simulation import FederatedTrace, Federation
from omkl.federated.split import Split, split
from omkl.theory.federated import theorem_1, theorem_2

Progress = Callable[[str, int, int | None, float | None], None]
Make = Callable[[], dict[str, np.ndarray]]
COMPARATOR = "each client's best online kernel (11), mean over the clients"
CLIENTS_RIDGE = f"{hindsight.CLIENTS}, mean over the clients"
MOST_MEBIBYTES = 4096  # of normal equations
TURNS = 20_000  # client rounds between progress reports


class FederatedJob(NamedTuple):
    """As ``job.Job``, with the streams of the clients."""

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
            lengths=self.split.lengths,
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
    """Check a configuration against the data, and build what it names; as ``job.prepare``.

    ``parts`` are the clients' streams where they are known already.
    """
    check_settings(config)
    dictionary = kernels.dictionary(config["kernels"])
    given = dict(config["algorithm"])
    algorithm = federated.load(given.pop("name"))
    sizes = {"N": len(dictionary), "D": config["D"] or protocol.MOST_FEATURES}
    early = hyperparameters.build(algorithm.Params, given, 2, sizes)
    budget = config["max_upload"]
    used = algorithm.kernels(early, dictionary)
    if config["D"] is None:
        D = protocol.features_for(algorithm, early, len(used), budget) if used else 1
        config = {**config, "D": D}
    if used:  # before the data are opened: a wrong number should not wait for a large file
        protocol.check_budget(algorithm, early, (len(used), 2 * config["D"]), budget)
    parts = split(config) if parts is None else parts
    built = hyperparameters.build(algorithm.Params, given, len(parts.y), sizes)
    if not used:  # a network, whose size depends on the data
        algorithm.model(built, used, parts.X.shape[2], config["D"], config["seed"], budget)
    seeds = [config["seed"] + r for r in range(config["seeds"])]
    resolved = dict(config) | {"clients": len(parts.clients)}
    return FederatedJob(resolved, parts, dictionary, algorithm, built, seeds)


def compute(
    job: FederatedJob,
    n_threads: int,
    threads: Any,
    progress: Progress | None = None,
    kept: Callable[[str, Make], dict[str, np.ndarray]] = lambda what, make: make(),
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Stream every seed through its federation: the numbers of result.json and curves.npz.

    ``threads(n)`` is a context manager that gives a pool; ``kept(what, make)`` gives what an
    earlier run of the same data has made.
    """
    X, y, lengths = job.split.X, job.split.y, job.split.lengths
    T, K, d = X.shape
    R = len(job.seeds)
    n_threads = min(n_threads, R)
    together = bool(np.all(lengths == T))
    if progress:
        progress("preparing", 0, None, None)
    with threads(1) as pool:  # the compiler would swallow a Ctrl-C in the main thread
        pool.submit(lambda: job.federation(0).partial_fit(X[:2], y[:2])).result()
        runs = pool.submit(lambda: [job.federation(seed) for seed in job.seeds]).result()
    # Means over the clients: of squared errors, of the client's own MSE times t, of regrets.
    errors, shares, regrets, losses = Recorder(R), Recorder(R), Recorder(R), Recorder(R)
    client_errors, last_regret = np.zeros((R, K)), np.zeros((R, K))
    last_loss, last_share = np.zeros(R), np.zeros(R)
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
                if not together:
                    done = np.arange(rows.start, rows.stop)[:, None] >= lengths
                    squared = [np.where(done, 0.0, s) for s in squared]
                errors.add(np.stack([s.mean(axis=1) for s in squared]))
                _require_finite(job, errors)
                mean = np.stack([trace.regret.mean(axis=1) for trace in traces])
                before = last_regret.mean(axis=1, keepdims=True)
                regrets.add(np.diff(mean, axis=1, prepend=before))
                total = np.stack([trace.loss.sum(axis=1) for trace in traces])
                losses.add(np.diff(total, axis=1, prepend=last_loss[:, None]))
                last_loss = total[:, -1]
                if not together:
                    t = np.arange(rows.start + 1, rows.stop + 1)
                    own = np.minimum(t[:, None], lengths)
                    share = np.stack(
                        [
                            t * ((client_errors[r] + np.cumsum(s, axis=0)) / own).mean(axis=1)
                            for r, s in enumerate(squared)
                        ]
                    )
                    shares.add(np.diff(share, axis=1, prepend=last_share[:, None]))
                    last_share = share[:, -1]
            client_errors += np.stack([s.sum(axis=0) for s in squared])
            last_regret = np.stack([trace.regret[-1] for trace in traces])
            if progress:
                progress("rounds", errors.n_rounds, T, float(errors.total.mean() / errors.n_rounds))
    elapsed = time.perf_counter() - clock
    rounds, sums = errors.curve()
    mse = errors.total / T if together else (client_errors / lengths).mean(axis=1)
    mse_mean, mse_std = mean_and_deviation(mse)
    used = np.stack([run.used for run in runs])
    learned_with = job.algorithm.kernels(job.params, job.dictionary)
    regret: dict[str, Any] = {}
    curves = {
        "t": rounds,
        "mse": (sums if together else shares.curve()[1]) / rounds,
        "client_mse": client_errors / lengths,
        "client_sent": np.stack([run.sent for run in runs]),
        "client_rounds": lengths,
        "client_name": np.array(job.split.clients),
        "change_rounds": np.zeros(0, dtype=np.int64),
    }
    if learned_with:
        regret["clients"] = _over_clients(COMPARATOR, last_regret)
        curves |= {"client_regret": last_regret, "regret_clients": regrets.curve()[1]}
        largest = max(float(run.worst[1]) for run in runs)
        bound = theorem_1(job.params, len(learned_with), rounds)
        if bound is not None:
            regret["clients"] |= {
                "bound": float(bound[-1]),
                "theorem": "theorem 1",
                "bound_of": "each client",
                "largest_loss": largest,
            }
            curves["bound"] = bound
        if job.config["regret"]["ridge_features"]:
            if reason := _too_much(job, learned_with):
                regret["clients_ridge"] = {"label": CLIENTS_RIDGE, "skipped": reason}
                regret["server"] = {"label": hindsight.SERVER, "skipped": reason}
            else:
                most = max(n_threads, 1)
                found = _hindsight(job, learned_with, most, threads, kept, progress)
                own = client_errors - found["client_errors"]
                regret["clients_ridge"] = _over_clients(CLIENTS_RIDGE, own)
                curves["client_ridge_regret"] = own
                curves["regret_clients_ridge"] = sums - found["mean_errors"][:, rounds - 1]
                above = losses.curve()[1] - found["shared_loss"][:, rounds - 1]
                average, deviation = mean_and_deviation(above[:, -1])
                regret["server"] = {"label": hindsight.SERVER, "mean": average, "std": deviation}
                regret["server"]["theta_norm"] = float(found["theta_norm"].mean())
                curves["server_regret"] = above
                norm = float(np.sqrt(np.mean(found["theta_norm"] ** 2)))
                bound = theorem_2(job.params, len(learned_with), K, rounds, norm)
                if bound is not None and together:
                    regret["server"] |= {
                        "bound": float(bound[-1]),
                        "theorem": "theorem 2",
                        "bound_of": "all clients together",
                        "largest_loss": largest,
                    }
                    curves["server_bound"] = bound
        curves |= {
            "weights": np.stack([_weights(run) for run in runs]),
            "sent_kernels": used,
            "kernel_family": np.array([k.family for k in learned_with]),
            "kernel_bandwidth": np.array([k.bandwidth for k in learned_with]),
        }
    served = int(lengths.sum())
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
        **label_cost(mse, np.full(R, served), served),
        "mse_over": "all rounds",
        "seconds": elapsed,
        "seconds_per_seed": seconds.tolist(),
        "threads": n_threads,
        "regret": regret,
        "federated": communication(job, runs),
        "stream": job.stream.provenance,
    }
    return result, curves


def _over_clients(label: str, regret: np.ndarray) -> dict[str, Any]:
    """The entry of regrets (R, K): their mean over the clients, and how they spread."""
    mean, deviation = mean_and_deviation(regret.mean(axis=1))
    spread = float(regret.std(axis=1, ddof=1).mean()) if regret.shape[1] > 1 else None
    return {"label": label, "mean": mean, "std": deviation, "spread": spread}


def _too_much(job: FederatedJob, learned_with: Any) -> str | None:
    """Why ridge regression in hindsight is left out, if it is."""
    rows, most = int(job.split.lengths.sum()), job.config["regret"]["max_rounds"]
    if rows > most:
        return f"{rows} rounds of all clients are more than regret.max_rounds={most}"
    D = job.config["D"]
    mebibytes = len(job.split.clients) * (2 * D) * 8 // 2**20 + (2 * D) ** 2 * 8 // 2**20
    if mebibytes > MOST_MEBIBYTES:
        return f"its normal equations with D={D} take {mebibytes} MiB"
    return None


def _hindsight(
    job: FederatedJob,
    learned_with: Any,
    n_threads: int,
    threads: Any,
    kept: Callable[[str, Make], dict[str, np.ndarray]],
    progress: Progress | None,
) -> dict[str, np.ndarray]:
    """Of each seed's ridge regressions: client_errors (R, K), mean_errors and shared_loss (R, T)
    up to each round, over the clients, and theta_norm (R,) of the function for all."""
    X, y, lengths = job.split.X, job.split.y, job.split.lengths
    T, _, d = X.shape
    lam, shared_lam = float(job.config["regret"]["lam"]), float(job.params.lam)
    dealt = hashlib.sha256(job.split.rows.tobytes()).hexdigest()

    def make(seed: int) -> dict[str, np.ndarray]:
        omega = draw_features(learned_with, d, job.config["D"], seed).omega
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
        what = f"federated ridge {seed} {shared_lam} {learned_with} {dealt}"
        return kept(what, functools.partial(make, seed))

    found = []
    with one_thread_each(), threads(n_threads) as pool:
        for one in pool.map(find, job.seeds):
            found.append(one)
            if progress:
                progress("comparator", len(found), len(job.seeds), None)
    return {name: np.stack([one[name] for one in found]) for name in found[0]}


def communication(job: FederatedJob, runs: list[Federation]) -> dict[str, Any]:
    """Numbers and bytes between a client and the server, mean over clients and seeds.

    Numbers are float64 values, parameters and losses; an index of a row is no number but
    takes bytes. Features are not sent: all sides draw them from the seed.
    """
    T, K = job.split.y.shape
    lengths = job.split.lengths
    n_rounds = float(lengths.mean()) if np.ptp(lengths) else T  # of a client
    sent = np.stack([run.sent for run in runs]).astype(float)  # (R, K, 2)
    numbers, indices = protocol.download(job.algorithm, runs[0].server)
    server = runs[0].server
    most = job.algorithm.upload(job.params, *server.model.theta.shape)
    up = {
        "numbers_a_round": float(sent[:, :, 0].mean() / n_rounds),
        "bytes_a_round": float(BYTES * sent.sum(axis=2).mean() / n_rounds),
        "most_numbers_a_round": most,
        "numbers": float(sent[:, :, 0].mean()),
        "bytes": float(BYTES * sent.sum(axis=2).mean()),
    }
    down = {
        "numbers_a_round": numbers,
        "bytes_a_round": BYTES * (numbers + indices),
        "most_numbers_a_round": numbers,
        "numbers": numbers * n_rounds,
        "bytes": BYTES * (numbers + indices) * n_rounds,
    }
    return {
        "scheme": job.config["federation"]["name"],
        "n_clients": K,
        "rounds": T,
        "least_rounds": int(lengths.min()),
        "rows": job.stream.n_rounds,
        "rows_used": int(lengths.sum()),
        "max_upload": job.config["max_upload"],
        "up": up,
        "down": down,
        "bytes_of_all": K * (up["bytes"] + down["bytes"]),
    }


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
