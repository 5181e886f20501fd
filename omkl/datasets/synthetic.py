"""Generate a synthetic stream with a known true function: a kernel expansion with noise.

x is uniform in the cube [-1, 1]^d / sqrt(d), so ||x|| <= 1, and

    y_t = (f(x_t) - low) / (high - low) + noise * N(0, 1),
    f(x) = sum_m a_m kappa(x, c_m),

with coefficients a_m ~ N(0, 1) and centres c_m distributed as x. ``low`` and ``high`` are the
extremes of f over a calibration sample, so the target without noise is in [0, 1], up to rare
exceptions. From round ``change_at`` on, f is replaced by a new draw with the kernel
``kernel_after``. In a classification the target is +1 if y_t exceeds the median of the scaled f
over the sample, and otherwise -1.

Each chunk of rows has its own seed, so any number of rows needs the same memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np

from omkl.core.kernels import Kernel
from omkl.datasets.base import Chunk, DataError, RowCount

if TYPE_CHECKING:
    from omkl.datasets.schema import Spectrum

CHUNK_ROWS = 4_096
CALIBRATION_ROWS = 16_384


class Expansion(NamedTuple):
    """Function f of the module docstring, its kernel, and its range over the calibration sample.

    ``centres`` are (M, d), and ``coefficients`` (M,).
    """

    family: str
    bandwidth: float
    centres: np.ndarray
    coefficients: np.ndarray
    low: float
    high: float
    middle: float = 0.5  # median of (f - low) / (high - low) over the calibration sample


class SyntheticSource:
    """Source of the rows of ``dataset=synthetic``, with the keys of conf/dataset/synthetic.yaml."""

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        classify = cfg.get("task") == "classification"
        self.classes: tuple[Any, ...] = (-1, 1) if classify else ()
        self.has_truth = not classify
        from omkl.datasets.schema import MOST_COORDINATES, read_synthetic  # pydantic takes 0.2 s

        settings = read_synthetic(cfg)
        self.n_rows: int | None = settings.rows
        self.row_count: RowCount | None = RowCount(settings.rows, True)
        self._n_inputs = settings.inputs
        self._seed = settings.seed
        self.inputs = tuple(f"x{k + 1}" for k in range(self._n_inputs))
        self.target = "y"
        self._noise = settings.noise
        self.change_at = _change_round(cfg.get("change_at"), self.n_rows)
        n_centres = settings.n_centres
        if n_centres * self._n_inputs > MOST_COORDINATES:
            raise DataError(
                f"dataset.n_centres={n_centres} x dataset.inputs={self._n_inputs} must be at most "
                f"{MOST_COORDINATES:,}: every row is compared with all centres."
            )
        self._before = self._draw(0, settings.kernel, "dataset.kernel", n_centres)
        self._after = self._before
        if self.change_at is not None:
            after = settings.kernel_after or settings.kernel
            self._after = self._draw(1, after, "dataset.kernel_after", n_centres)

    @property
    def constants(self) -> dict[str, Any]:
        """Constants that map f to the target, before and after the change."""
        pieces = {"before": self._before}
        if self.change_at is not None:
            pieces["after"] = self._after
        return {name: {"low": f.low, "high": f.high} for name, f in pieces.items()}

    def chunks(self) -> Iterator[Chunk]:
        assert self.n_rows is not None
        for number, start in enumerate(range(0, self.n_rows, CHUNK_ROWS)):
            rng = self._generator(2, number)
            x = self._points(rng, CHUNK_ROWS)
            noise = rng.standard_normal(CHUNK_ROWS)
            n = min(CHUNK_ROWS, self.n_rows - start)
            # Index in this chunk of the first round with the new function.
            change = n if self.change_at is None else min(max(self.change_at - 1 - start, 0), n)
            truth = np.empty(n)
            truth[:change] = _normalised(self._before, x[:change])
            truth[change:] = _normalised(self._after, x[change:n])
            y = truth + self._noise * noise[:n]
            rows = np.arange(start + 1, start + n + 1)
            if self.classes:
                middle = np.where(np.arange(n) < change, self._before.middle, self._after.middle)
                yield Chunk(x[:n], np.where(y > middle, 1.0, -1.0), rows)
            else:
                yield Chunk(x[:n], y, rows, truth=truth)

    def _generator(self, *key: int) -> np.random.Generator:
        # The text makes these numbers differ from the random features of a learner with this seed.
        root = [self._seed, crc32(b"synthetic stream")]
        return np.random.default_rng(np.random.SeedSequence(root, spawn_key=key))

    def _points(self, rng: np.random.Generator, n: int) -> np.ndarray:
        return rng.uniform(-1.0, 1.0, (n, self._n_inputs)) / math.sqrt(self._n_inputs)

    def _draw(self, number: int, kernel: Spectrum, key: str, n_centres: int) -> Expansion:
        family, bandwidth = kernel.family, kernel.bandwidth
        rng = self._generator(number)
        centres, coefficients = self._points(rng, n_centres), rng.standard_normal(n_centres)
        f = Expansion(family, bandwidth, centres, coefficients, 0.0, 1.0)
        sample = _normalised(f, self._points(rng, CALIBRATION_ROWS))
        low, high = float(sample.min()), float(sample.max())
        if not high > low:
            raise DataError(
                f"{key}: with family={family} and bandwidth={bandwidth:g} the target is "
                f"{low:g} everywhere. Choose another bandwidth."
            )
        middle = (float(np.median(sample)) - low) / (high - low)
        return f._replace(low=low, high=high, middle=middle)


def _normalised(f: Expansion, x: np.ndarray) -> np.ndarray:
    """Return (f(x) - low) / (high - low) (n,) for the rows x (n, d)."""
    total = np.zeros(len(x))
    for centre, coefficient in zip(f.centres, f.coefficients, strict=True):
        total += coefficient * Kernel(f.family, f.bandwidth).value(x - centre)
    return (total - f.low) / (f.high - f.low)


def _change_round(change_at: Any, n_rows: int | None) -> int | None:
    """Return the first round, counted from 1, with the new function; None without a change."""
    assert n_rows is not None
    if change_at is None:
        return None
    if isinstance(change_at, float) and 0 < change_at < 1:
        change = math.floor(change_at * n_rows) + 1
    elif isinstance(change_at, int) and not isinstance(change_at, bool):
        change = change_at
    else:
        change = 0
    if not 2 <= change <= n_rows:
        raise DataError(
            f"dataset.change_at={change_at!r} must be a row from 2 to {n_rows} (the first "
            "of the new function), a fraction between 0 and 1, or null."
        )
    return change
