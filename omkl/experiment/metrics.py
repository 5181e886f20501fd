"""What is counted of a run: sums of errors, errors in units of the target, mistakes, labels."""

from __future__ import annotations

from typing import Any

import numpy as np

FIRST = 1024  # every round up to here is recorded
LIMIT = 16384  # then at most about this many
LAST = 120  # rounds whose predictions are drawn


class Recorder:
    """A running sum of R seeds, of squared errors say, on a grid of rounds, in constant memory.

    The first 1,024 rounds are recorded one by one; after them every k-th, k
    doubling whenever more than 16,384 are held. The grid depends on the number
    of rounds alone, not on how they are cut into blocks. The last round is
    always recorded.
    """

    def __init__(self, n_seeds: int) -> None:
        self.n_rounds = 0
        self.total = np.zeros(n_seeds)
        self._stride = 1
        self._rounds: list[np.ndarray] = []
        self._sums: list[np.ndarray] = []
        self._held = 0

    def add(self, squared_errors: np.ndarray) -> None:
        """A block of what is summed, (R, n)."""
        n = squared_errors.shape[1]
        # Summed one by one from the running total, so that no split changes a bit.
        sums = np.cumsum(np.concatenate([self.total[:, None], squared_errors], axis=1), axis=1)
        sums = sums[:, 1:]
        rounds = np.arange(self.n_rounds + 1, self.n_rounds + n + 1)
        self.n_rounds += n
        if n:
            self.total = sums[:, -1].copy()
        keep = (rounds <= FIRST) | (rounds % self._stride == 0)
        n_kept = int(keep.sum())
        if n_kept or not self._rounds:
            self._rounds.append(rounds[keep])
            self._sums.append(sums[:, keep])
        self._held += n_kept
        while self._held > LIMIT:
            self._stride *= 2
            rounds, sums = np.concatenate(self._rounds), np.concatenate(self._sums, axis=1)
            keep = (rounds <= FIRST) | (rounds % self._stride == 0)
            self._rounds, self._sums = [rounds[keep]], [sums[:, keep]]
            self._held = int(keep.sum())

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Recorded rounds (P,), 1-based, and the sums up to them (R, P)."""
        rounds, sums = np.concatenate(self._rounds), np.concatenate(self._sums, axis=1)
        if self.n_rounds and rounds[-1] != self.n_rounds:
            rounds = np.append(rounds, self.n_rounds)
            sums = np.concatenate([sums, self.total[:, None]], axis=1)
        return rounds, sums


class ClientErrors:
    """Squared errors of R forecasters that serve K clients, of which some may be done earlier.

    rounds    sums over the rounds of the mean over all clients, 0 where one is done
    total     (R, K) sums of each client
    together  whether all clients have as many rounds: each one's mean is then over all of them
    """

    def __init__(self, n_forecasters: int, lengths: np.ndarray) -> None:
        self.lengths, self.together = lengths, bool(np.all(lengths == lengths.max()))
        self.rounds = Recorder(n_forecasters)
        self.total = np.zeros((n_forecasters, len(lengths)))
        self._shares = Recorder(n_forecasters)
        self._last_share = np.zeros(n_forecasters)

    def add(self, squared: np.ndarray) -> None:
        """The next rounds, (R, n, K), 0 where a client is done."""
        first = self.rounds.n_rounds + 1
        self.rounds.add(squared.mean(axis=2))
        if not self.together:
            self._add_shares(first, squared)
        self.total += squared.sum(axis=1)

    def _add_shares(self, first: int, squared: np.ndarray) -> None:
        """Means over the clients of each one's running MSE, times t."""
        t = np.arange(first, first + squared.shape[1])
        own = np.minimum(t[:, None], self.lengths)
        running = (self.total[:, None] + np.cumsum(squared, axis=1)) / own
        share = t * running.mean(axis=2)
        self._shares.add(np.diff(share, axis=1, prepend=self._last_share[:, None]))
        self._last_share = share[:, -1]

    @property
    def mse(self) -> np.ndarray:
        """(R,), mean over the clients of each one's over its own rounds."""
        if self.together:
            return self.rounds.total / self.rounds.n_rounds
        return (self.total / self.lengths).mean(axis=1)

    def curve(self) -> np.ndarray:
        """The same (R, P) up to each recorded round, each client's over its own rounds so far."""
        t, sums = (self.rounds if self.together else self._shares).curve()
        return sums / t


class Recent:
    """The last rounds of one seed, at most ``LAST``: the round, y, and what was said of it."""

    def __init__(self) -> None:
        self._held: dict[str, np.ndarray] = {}

    def add(self, first: int, **block: np.ndarray) -> None:
        """A block of rounds from ``first`` on, (n,) each by name; what is not known is NaN."""
        n = len(block["y"])
        for name, values in {"t": np.arange(first, first + n), **block}.items():
            held = self._held.get(name, values[:0])
            self._held[name] = np.concatenate([held, values])[-LAST:]

    def curves(self) -> dict[str, np.ndarray]:
        """recent_t, recent_y, .., as curves.npz names them."""
        return {f"recent_{name}": values for name, values in self._held.items()}


class Accuracy:
    """Errors of R forecasters in units of the target, over the rounds whose label is known.

    ``unit`` is how much of the target is 1 in the scale of the stream. Sums are taken one by
    one, so that no split into blocks changes a bit.
    """

    def __init__(self, n_forecasters: int, unit: float) -> None:
        self.n_rounds = 0
        self.unit = unit
        self._first = 0.0
        # Of each forecaster squared, then absolute errors; of labels above the first, and squared.
        self._sums = np.zeros(2 * n_forecasters + 2)

    def add(self, errors: np.ndarray, y: np.ndarray) -> None:
        """A block of errors (R, n) and labels (n,), in the scale of the stream."""
        if not len(y):
            return
        if not self.n_rounds:
            self._first = float(y[0])
        self.n_rounds += len(y)
        above = y - self._first
        terms = np.concatenate([np.square(errors), np.abs(errors), [above, np.square(above)]])
        self._sums = np.cumsum(np.column_stack([self._sums, terms]), axis=1)[:, -1]

    @property
    def rmse(self) -> np.ndarray:
        return self.unit * np.sqrt(np.split(self._sums[:-2], 2)[0] / self.n_rounds)

    @property
    def mae(self) -> np.ndarray:
        return self.unit * np.split(self._sums[:-2], 2)[1] / self.n_rounds

    @property
    def r2(self) -> np.ndarray:
        """1 - MSE over the variance of the labels: NaN where they are all the same."""
        n, (above, squares) = self.n_rounds, self._sums[-2:]
        variance = squares / n - (above / n) ** 2
        mse = np.split(self._sums[:-2], 2)[0] / n
        return 1.0 - np.divide(mse, variance, out=np.full_like(mse, np.nan), where=variance > 0.0)


def mean_and_deviation(values: np.ndarray) -> tuple[float, float | None]:
    """Mean and sample standard deviation over seeds; the deviation of one value is None."""
    values = np.asarray(values, dtype=float)
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None


def largest_norm(X: np.ndarray) -> float:
    """The largest Euclidean norm of the rows of X (n, d), where its square overflows as well."""
    with np.errstate(over="ignore"):
        found = float(np.linalg.norm(X, axis=1).max(initial=0.0))
    scale = float(np.abs(X).max(initial=0.0))
    if 0.0 < found < np.inf or scale == 0.0:
        return found
    return scale * float(np.linalg.norm(X / scale, axis=1).max())


def label_cost(mse: np.ndarray, n_queried: np.ndarray, n_rounds: int) -> dict[str, Any]:
    """What the labels of R seeds cost and bought, as in result.json.

    mse (R,) over all rounds, those without a label included; n_queried (R,) labels asked for. The
    efficiency is their share of the rounds, (55) of Hong and Chae: 1 for a learner that asks
    always, and smaller is cheaper.
    """
    share, deviation = mean_and_deviation(n_queried / n_rounds)
    return {
        "labels": float(n_queried.mean()),
        "labels_per_seed": n_queried.tolist(),
        "al_efficiency": share,
        "al_efficiency_std": deviation,
        "mse_per_label": float((mse / n_queried).mean()),
    }


def mistaken(y_hat: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Which predictions are mistakes, (n,): y_hat (n,) and y -1, +1; or (n, K) and y 0..K-1."""
    if y_hat.ndim == 1:
        return y * y_hat <= 0.0
    return y_hat.argmax(axis=1) != y
