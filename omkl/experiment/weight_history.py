"""Weights of kernels over time: looked at in a bounded number of rounds, whatever the stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omkl.core.learner import Learner
from omkl.core.weights import normalised

MOST = 32  # times that weights are kept, and the last round besides
FIRST = 16  # the first of them


def stride(t: int) -> int:
    """Weights are looked at every so many rounds around round t >= 1: 16 up to 512, then 32, .."""
    return FIRST << ((t - 1) // (FIRST * MOST)).bit_length()


class WeightHistory:
    """Weights (N,) of one learner after some rounds, at most ``MOST`` of them and the last.

    Of a stream of ``expected`` rounds they are looked at no more often than they are kept, since a
    block is cut for it; None: it is not known. Which rounds are kept depends on how many there
    were, and not on how they were cut into blocks; all are rounds that ``Recorder`` keeps.
    """

    def __init__(self, expected: int | None) -> None:
        self._expected = expected or 0
        self._kept: dict[int, np.ndarray] = {}

    def _due(self, t: int) -> bool:
        return t % stride(max(t, self._expected)) == 0

    def pieces(self, before: int, known: np.ndarray) -> list[slice]:
        """A block of rows, cut after those after whose rounds weights are looked at.

        Rows (n,) that are ``known`` are rounds, of which there were ``before`` in earlier blocks.
        """
        rows = np.flatnonzero(known)
        first = (before // FIRST + 1) * FIRST
        due = filter(self._due, range(first, before + len(rows) + 1, FIRST))
        ends = [int(rows[t - before - 1]) + 1 for t in due]
        if ends[-1:] != [len(known)]:
            ends.append(len(known))
        return [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]

    def look(self, t: int, learners: Sequence[Learner]) -> None:
        """Keep the weights of a seed's learners after round t, if it is one of those."""
        if self.wants(t):
            self.keep(t, weights_of(learners))

    def wants(self, t: int) -> bool:
        return t > 0 and self._due(t)

    def keep(self, t: int, weights: np.ndarray) -> None:
        self._kept[t] = weights
        if len(self._kept) > MOST:
            self._kept = {u: w for u, w in self._kept.items() if u % stride(t) == 0}

    def curve(self, T: int, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rounds (G,) and the weights after them (G, N), with those ``last`` after round T."""
        kept = {u: w for u, w in self._kept.items() if u % stride(T) == 0} | {T: last}
        return np.array(list(kept), dtype=np.int64), np.stack(list(kept.values()))


def curves(histories: Sequence[WeightHistory], T: int, last: np.ndarray) -> dict[str, np.ndarray]:
    """As curves.npz has them, means over the seeds; last (R, N) are those after round T."""
    found = [history.curve(T, w) for history, w in zip(histories, last, strict=True)]
    over_time = np.mean([weights for _, weights in found], axis=0)
    return {"weights_t": found[0][0], "weights_over_time": over_time}


def weights_of(learners: Sequence[Learner]) -> np.ndarray:
    """The weights (N,) of the learners of one seed, one or one a class: their mean."""
    with np.errstate(invalid="ignore"):  # of one that diverges: its predictions tell
        found = [normalised(learner.state.log_w) for learner in learners]
        return found[0] if len(found) == 1 else np.mean(found, axis=0)
