"""Series in ``auto``: units, groups of a date, seasons, files."""

from __future__ import annotations

import numpy as np
import pytest

import omkl
from omkl.core.series import find_seasons

WEEK = np.array([1.0, 1.1, 1.05, 1.0, 1.3, 1.6, 0.6])


def shops(n_shops: int, n_days: int, seed: int = 0):
    """Return rows (n, 2), sales (n,), shops (n,) and days (n,): levels over four decades."""
    rng = np.random.default_rng(seed)
    day = np.arange(n_days)
    walk = np.exp(np.cumsum(0.02 * rng.normal(size=(n_days, n_shops)), axis=0))
    noise = np.exp(0.05 * rng.normal(size=walk.shape))
    offer = rng.random(walk.shape) < 0.1
    y = 10 ** rng.uniform(0, 4, n_shops) * walk * WEEK[day % 7][:, None] * (1 + 0.3 * offer) * noise
    X = np.stack([np.repeat(day % 7, n_shops), offer.ravel()], axis=1).astype(float)
    return X, y.ravel(), np.tile(np.arange(n_shops), n_days), np.repeat(day, n_shops)


def learner(**settings):
    return omkl.learner("auto", size="small", inputs=2, **settings)


def by_rows(learner, X, y, shop, day):
    """Predict all rows of a day, then learn them."""
    found = []
    for d in np.unique(day):
        rows = np.flatnonzero(day == d)
        for r in rows:
            y_hat = learner.predict_one(X[r], series=shop[r])
            found.append((y_hat, learner.spread, *learner.interval))
        for r in rows:
            learner.learn_one(X[r], y[r], series=shop[r])
    return np.array(found).T


@pytest.mark.parametrize("season", [None, 7, 0])
def test_single_rows_blocks_and_a_file_give_the_same_bits(tmp_path, season):
    X, y, shop, day = shops(20, 90, seed=1)
    y[[50, 700, 1570]] = np.nan
    whole = learner(series="shop", season=season, interval=0.9)
    said = whole.partial_fit(X, y, shop, day)
    assert whole.seasons == (() if season == 0 else (7,))
    rows = by_rows(learner(series="shop", season=season, interval=0.9), X, y, shop, day)
    np.testing.assert_array_equal(rows, [said.y_hat, said.spread, said.low, said.high])
    cut, parts = 0, []
    resumed = learner(series="shop", season=season, interval=0.9)
    for end in (20, 700, 1500, 1520, 1560, 1800):  # at 1,560 new units learn stored rows
        parts.append(resumed.partial_fit(*(a[cut:end] for a in (X, y, shop, day))))
        resumed.save(tmp_path / "model.npz")
        resumed, cut = omkl.load_learner(tmp_path / "model.npz"), end
    for name in ("y_hat", "spread", "low", "high"):
        found = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(found, getattr(said, name))
    np.testing.assert_array_equal(
        resumed.predict(X[:30], series=np.arange(30)), whole.predict(X[:30], series=np.arange(30))
    )


def test_a_season_of_one_stream_is_found_and_learned_from_the_first_row():
    rng = np.random.default_rng(2)
    t = np.arange(1800)
    X = rng.normal(size=(1800, 2))
    y = 10 * WEEK[t % 7] + X[:, 0] + np.cumsum(0.1 * rng.normal(size=1800))
    whole = learner(interval=0.9)
    said = whole.partial_fit(X, y)
    assert whole.seasons == (7,)
    plain = learner(season=0, interval=0.9).partial_fit(X, y)
    # After 188 targets the units with the season learn the first rows, during 14 more rows.
    np.testing.assert_array_equal(said.y_hat[:203], plain.y_hat[:203])
    assert said.y_hat[203] != plain.y_hat[203]
    rmse = [np.sqrt(np.mean((part.y_hat - y)[203:] ** 2)) for part in (said, plain)]
    assert rmse[0] < rmse[1]
    covered = ((said.low <= y) & (y <= said.high))[204:]
    assert 0.8 < covered.mean() < 0.97
    single = learner(interval=0.9)
    rows = []
    for x, target in zip(X, y, strict=True):
        rows.append((single.predict_one(x), *single.interval))
        single.learn_one(x, target)
    np.testing.assert_array_equal(np.array(rows).T, [said.y_hat, said.low, said.high])


def test_random_walks_noise_and_sorted_targets_have_no_season():
    rng = np.random.default_rng(3)
    one = np.zeros(1500, dtype=int)
    for _ in range(100):
        noise = rng.standard_t(3, size=1500)
        for n in (188, 750, 1500):
            assert find_seasons(noise[:n], one[:n]) == ()
            assert find_seasons(np.cumsum(noise)[:n], one[:n]) == ()
            assert find_seasons(np.sort(noise[:n]), one[:n]) == ()  # the ends change most
        shared = np.cumsum(np.repeat(rng.normal(size=75), 20) + 0.3 * rng.normal(size=1500))
        assert find_seasons(shared, np.tile(np.arange(20), 75)) == ()


def test_noise_neither_hides_nor_moves_the_season_of_a_wave():
    rng = np.random.default_rng(3)
    one = np.zeros(1500, dtype=int)
    wave = np.sin(np.arange(1500) * 2 * np.pi / 50)  # noise hides it in changes from row to row
    assert find_seasons(wave + rng.normal(size=1500), one) == (50,)
    for n, least in ((188, 13), (376, 18)):  # of 20 waves
        waves = np.sin(np.arange(n) * 2 * np.pi / 24) + 0.1 * rng.normal(size=(20, n))
        assert sum(find_seasons(y, one[:n]) == (24,) for y in waves) >= least


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithm": "ridge", "series": "shop"}, "regression with auto"),
        ({"task": "classification", "classes": ["a", "b"], "series": "shop"}, "a classification"),
        ({"season": 1.5}, "whole numbers of rows"),
        ({"season": [7, 7]}, "names a season twice"),
        ({"season": [3, 4, 5, 6, 7]}, "at most 4 seasons"),
        ({"series": "shop", "lags": 2}, "past targets of all series"),
    ],
)
def test_settings_of_series_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        omkl.learner(**settings)
