"""Series in ``auto`` against their formulas in plain Python, one object per series."""

from __future__ import annotations

import collections
import dataclasses
import math

import numpy as np
import pytest

import omkl
from omkl.core.learner import Learner
from omkl.online.learner import OnlineLearner

LAST = 2  # place of the own last value among the candidates


class OneSeries:
    """State of a series: rows, targets, changes and the mean absolute target."""

    def __init__(self) -> None:
        self.targets: list[float] = []  # NaN where unknown
        self.known: list[float] = []
        self.changes = self.weight = self.peak = 0.0

    @property
    def level(self) -> float:
        return float(np.mean(np.abs(self.known)))

    def lag(self, k: int) -> float:
        return self.targets[-k] if k <= len(self.targets) else math.nan


class OwnUnits:
    """Location, scale and inputs of each series."""

    def __init__(self, seasons: tuple[int, ...], late: int) -> None:
        self.series = dict[object, OneSeries]()
        # Targets of up to the row before this one, less the late ones: the last has lag 1.
        self.of_seasons = [next(j * m - late for j in range(99) if j * m > late) for m in seasons]
        self.lags = [*range(2, 9)]
        for m, k in zip(seasons, self.of_seasons, strict=True):
            self.lags += [k - 1 if k > 1 else m, k, k + 1, k + m]
        self.relative = self.n_relative = 0.0

    def of(self, name: object) -> OneSeries:
        return self.series.setdefault(name, OneSeries())

    def units(self, name: object) -> tuple[float, float]:
        """Location and scale of the next row; scale 0: the row has no units."""
        one = self.of(name)
        if not one.known:
            return 0.0, 0.0
        prior = self.relative / self.n_relative * one.level if self.n_relative else 0.0
        scale = (one.changes + 3.0 * prior) / (one.weight + 3.0)
        return one.known[-1], max(scale, 0.1 * prior, 0.05 * one.peak)

    def inputs(self, name: object, location: float, scale: float) -> np.ndarray:
        mean = np.nanmean(self.of(name).targets[-20:])
        past = np.array([*(self.of(name).lag(k) for k in self.lags), mean])
        *lags, mean = np.clip(np.nan_to_num((past - location) / scale), -50.0, 50.0)
        level = np.sign(location) * math.log1p(abs(location))
        return np.array([*lags, math.log(scale), level, mean])

    def seasonal(self, name: object, m: int) -> float:
        """Value a season ago, or the last one."""
        value = self.of(name).lag(m)
        return self.of(name).known[-1] if math.isnan(value) else value

    def learn(self, name: object, y: float) -> None:
        one = self.of(name)
        one.targets.append(y)
        if math.isnan(y):
            return
        before = one.known[-1] if one.known else None
        one.known.append(y)
        if before is not None:
            change = abs(y - before)
            one.changes, one.weight = 0.98 * one.changes + change, 0.98 * one.weight + 1.0
            one.peak = max(one.changes / one.weight, 0.998 * one.peak)
            self.relative = 0.999 * self.relative + change / max(one.level, 1e-300)
            self.n_relative = 0.999 * self.n_relative + 1.0


class Mixture:
    """ML-Poly over candidates, with gains in scales of the rows and a round per group.

    A row predicted alone has the mean of the first-order gain and that of the squared error. Of
    n rows, all but the first have the gain of the squared error, and a candidate has weight by what
    its summed gain is above 1.6 roots of 1 - 1 / n of the summed squares. The own last value needs
    no excess, and has all weight while no other has any. Sums fade faster by groups.
    """

    def __init__(self, n: int) -> None:
        self.R, self.V, self.w = np.zeros(n), np.zeros(n), np.eye(n)[LAST]

    @staticmethod
    def gains(f: np.ndarray, p: float, y: float, scale: float, first: bool) -> np.ndarray:
        error, off = np.clip((p - y) / scale, -10.0, 10.0), (p - f) / scale
        gains = error**2 - (error - off) ** 2
        if first:
            gains = (gains + 2.0 * error * off) / 2.0
        return np.where(np.abs(p - f) > 1e-12 * abs(p), gains, 0.0)

    def learn(self, gains: list[np.ndarray]) -> None:
        whole = np.sum(gains, axis=0)
        alone = len(gains) == 1
        self.R = (0.999 if alone else 0.95) * self.R + whole
        self.V = (0.999 if alone else 0.95**2) * self.V + whole**2
        needed = np.sqrt(1.6**2 * self.V * (1.0 - 1.0 / len(gains)))
        needed[LAST] = 0.0
        weights = np.maximum(self.R - needed, 0.0)
        weights[weights > 0.0] /= (self.V + 1e-6 * self.V.max())[weights > 0.0]
        total = weights.sum()
        self.w = weights / total if total > 0.0 else np.eye(len(weights))[LAST]


def waves(x: np.ndarray, cycles: dict[int, float]) -> list[float]:
    """Sines, then cosines, of three harmonics of each date input, given by its place and period."""
    found = []
    for place, period in cycles.items():
        angles = [2.0 * math.pi * x[place] / period * h for h in (1, 2, 3)]
        found += [*map(math.sin, angles), *map(math.cos, angles)]
    return found


def core_learner(d: int) -> Learner:
    return omkl.learner("auto", size="small", inputs=d).learners[0]


def by_hand(
    X: np.ndarray,
    y: np.ndarray,
    names: np.ndarray,
    groups: np.ndarray,
    seasons: tuple[int, ...],
    cycles: dict[int, float],
    late: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and standard deviations (n,): rows of a group are predicted, then learned.

    A row is learned after the group that holds the row ``late`` rows later in its series.
    """
    units, d = OwnUnits(seasons, late), X.shape[1]
    queues = collections.defaultdict[object, list](list)
    own, plain = core_learner(d + len(units.lags) + 3 + 6 * len(cycles)), core_learner(d)
    mixture, y_hat, spread = Mixture(3 + len(seasons)), np.empty(len(y)), np.full(len(y), np.nan)
    squared = n_squared = 0.0
    for group in np.unique(groups):
        due = []
        for t in np.flatnonzero(groups == group):
            location, scale = units.units(names[t])
            today = plain.predict(X[t : t + 1])[0]
            known = units.of(names[t]).known
            y_hat[t] = known[-1] if known else today
            block, f, contexts = np.empty(0), None, [plain.context()]
            if scale > 0.0:
                block = units.inputs(names[t], location, scale)
                block = np.concatenate([block, waves(X[t], cycles)])
                u = own.predict(np.concatenate([X[t], block])[None])[0]
                contexts.append(own.context())
                of_season = [units.seasonal(names[t], k) for k in units.of_seasons]
                raw = np.clip(today, location - 30.0 * scale, location + 30.0 * scale)
                f = np.array([location + scale * u, raw, known[-1], *of_season])
                y_hat[t] = mixture.w @ f
                if n_squared:
                    spread[t] = scale * math.sqrt(squared / n_squared)
            queues[names[t]].append((group, t, location, scale, block, f, contexts))
            due += [queues[names[t]].pop(0)] if len(queues[names[t]]) > late else []
        gains, of = list[np.ndarray](), None
        for predicted, t, location, scale, block, f, contexts in due:
            if not math.isnan(y[t]):
                plain.learn_one(X[t], y[t], contexts[0])
            if f is not None and not math.isnan(y[t]):
                if gains and predicted != of:
                    mixture.learn(gains)
                    gains = []
                of = predicted
                u = np.clip((y[t] - location) / scale, -30.0, 30.0)
                own.learn_one(np.concatenate([X[t], block]), u, contexts[1])
                if gains:  # the past targets before the next group are those of other series
                    for array in own.representation.context(own.state.model):
                        array[:] = 0.0
                gains.append(mixture.gains(f, y_hat[t], y[t], scale, not gains))
                squared = 0.99 * squared + ((y_hat[t] - y[t]) / scale) ** 2
                n_squared = 0.99 * n_squared + 1.0
            units.learn(names[t], y[t])
        if gains:
            mixture.learn(gains)
    return y_hat, spread


def stream(n: int = 1_200, n_series: int = 6) -> tuple[np.ndarray, ...]:
    """Rows, targets with gaps and spikes on levels far apart, series and groups."""
    rng = np.random.default_rng(4)
    names = np.tile(np.arange(n_series), n // n_series)
    t = np.arange(n) // n_series
    X = rng.standard_normal((n, 2))
    wave = 1.0 + 0.4 * np.sin(2 * np.pi * t / 7) + 0.1 * X[:, 0]
    y = 10.0 ** np.linspace(-2, 3, n_series)[names] * (wave + 0.05 * rng.standard_normal(n))
    y[rng.random(n) < 0.02] *= 8.0
    y[rng.random(n) < 0.03] = np.nan
    y[names == 2] = 5.0  # never changes
    kept = ((names != 5) | (t > 60)) & (rng.random(n) > 0.02)  # one comes late, all have gaps
    return X[kept], y[kept], names[kept], t[kept]


@pytest.mark.parametrize(
    ("season", "by_date", "dated", "late"),
    [
        (0, False, False, 0),
        (0, True, False, 0),
        (7, False, True, 0),
        (7, True, False, 0),
        (7, True, False, 6),
        (3, False, False, 5),
    ],
)
def test_the_learner_is_its_formulas(season: int, by_date: bool, dated: bool, late: int) -> None:
    X, y, names, groups = stream()
    inputs, cycles = ["a", "b"], dict[int, float]()
    if dated:  # a stream without series
        one = names == 3
        X, y, names, groups = (array[one] for array in (X, y, names, groups))
        X = np.column_stack([X, groups % 7, 100 + groups % 50, groups])
        inputs += ["on.weekday", "on.day_of_year", "on.days_elapsed"]
        cycles = {2: 7.0, 3: 365.25}
    seasons = (season,) if season else ()
    rows = groups if by_date else np.arange(len(y))
    expected, spread = by_hand(X, y, names, rows, seasons, cycles, late)
    series = () if dated else (names, rows)
    column = None if dated else "shop"
    learner = omkl.learner("auto", size="small", inputs=inputs, series=column, season=season)
    if late:
        learner = OnlineLearner(dataclasses.replace(learner.settings, late=late), delay=late)
    said = learner.partial_fit(X, y, *series)
    np.testing.assert_allclose(said.y_hat, expected, rtol=1e-7)
    has = ~np.isnan(spread)
    np.testing.assert_allclose(said.spread[has], spread[has], rtol=1e-6)
