"""Which rows of a data set become whose: the streams of K clients, up to T rounds each.

iid          rows are dealt out at random, T to each client
in_turn      rows are dealt out in the order of the file, one to each client in turn
consecutive  the file is cut into K pieces of equal length, in its order; client k has the first
             T rows of piece k
by_site      client k is at home at site k mod S: ``home`` rows of its site and ``away`` rows of
             every other, in random order; no row goes to two clients
column       the rows with one value of a column are one client's, in the order of the file;
             a client with fewer rows than another is done earlier

One split serves all seeds of a run, as the published experiments vary the random features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from omkl.datasets import DataError, Stream, opening


class Split(NamedTuple):
    """The streams of all clients.

    X, y     (T, K, d) and (T, K), scaled as the whole data set is; 0 and NaN where a client
             is done
    clients  K names
    rows     (T, K) int64, rows of the data set from 0; -1 where a client is done
    lengths  (K,) int64, rounds of each client, 1..T
    stream   the data set
    """

    X: np.ndarray
    y: np.ndarray
    clients: list[str]
    rows: np.ndarray
    lengths: np.ndarray
    stream: Stream


def deal(n_rows: int, n_clients: int, n_rounds: int, rng: np.random.Generator | None) -> np.ndarray:
    """Rows (T, K) dealt out at random, or in their order without ``rng``.

    ValueError if there are too few.
    """
    if n_clients * n_rounds > n_rows:
        raise ValueError(
            f"{n_clients} clients with {n_rounds} rounds each need {n_clients * n_rounds} rows, "
            f"there are {n_rows}: set fewer clients or federation.rounds"
        )
    order = np.arange(n_rows) if rng is None else rng.permutation(n_rows)
    return order[: n_clients * n_rounds].reshape(n_rounds, n_clients)


def consecutive(n_rows: int, n_clients: int, n_rounds: int) -> np.ndarray:
    """Rows (T, K): client k has T rows one after the other, from row k n_rows / K on.

    ValueError if there are too few.
    """
    deal(n_rows, n_clients, n_rounds, None)  # refuses too many
    starts = np.arange(n_clients) * n_rows // n_clients
    return starts + np.arange(n_rounds)[:, None]


def by_site(
    sites: np.ndarray, n_clients: int, home: int, away: int, rng: np.random.Generator
) -> np.ndarray:
    """Rows (T, K), T = home + away (S - 1), from the sites (n,) of all rows.

    ValueError names a site with too few rows.
    """
    names, code = np.unique(sites, return_inverse=True)
    taken: list[list[np.ndarray]] = [[] for _ in range(n_clients)]
    for s, name in enumerate(names):
        shares = [home if k % len(names) == s else away for k in range(n_clients)]
        rows = rng.permutation(np.flatnonzero(code == s))
        if sum(shares) > len(rows):
            raise ValueError(
                f"{n_clients} clients need {sum(shares)} rows of site {name}, there are "
                f"{len(rows)}: set fewer clients, federation.home or federation.away"
            )
        for k, part in enumerate(np.split(rows, np.cumsum(shares))[:n_clients]):
            taken[k].append(part)
    return np.stack([rng.permutation(np.concatenate(parts)) for parts in taken], axis=1)


def by_column(labels: np.ndarray, n_rounds: int | None) -> tuple[np.ndarray, list[str]]:
    """Rows (T, K) in their order, -1 where a client is done, and the clients' names.

    T is the most rows that a client has, or ``n_rounds``, after which all are done. ValueError
    where no client has so many.
    """
    names = list(dict.fromkeys(labels.tolist()))
    groups = [np.flatnonzero(labels == name) for name in names]
    longest = max(range(len(names)), key=lambda k: len(groups[k]))
    n = len(groups[longest]) if n_rounds is None else n_rounds
    if n > len(groups[longest]):
        raise ValueError(
            f"federation.rounds={n}: the client with the most rows, {names[longest]}, has "
            f"{len(groups[longest])}"
        )
    rows = np.full((n, len(names)), -1)
    for k, group in enumerate(groups):
        rows[: len(group), k] = group[:n]
    return rows, [str(name) for name in names]


def streams_of(stream: Stream, rows: np.ndarray, clients: list[str]) -> Split:
    """The streams of K clients from their rows (T, K) of a data set, -1 where one is done."""
    blocks = list(stream.blocks(65_536))
    X = stream.softened(np.concatenate([block[0] for block in blocks]))
    y = np.concatenate([block[1] for block in blocks])
    there = rows >= 0
    lengths = there.sum(axis=0)
    if there.all():
        return Split(X[rows], y[rows], clients, rows, lengths, stream)
    inputs, targets = X[rows], y[rows]
    inputs[~there], targets[~there] = 0.0, np.nan
    return Split(inputs, targets, clients, rows, lengths, stream)


def split(
    dataset: Mapping[str, Any],
    stream_options: Mapping[str, Any],
    n_clients: int | None,
    seed: int,
    *,
    name: str,
    rounds: int | None,
    home: int | None = None,
    away: int | None = None,
) -> Split:
    """Return the clients' streams.

    Parameters
    ----------
    dataset, stream_options
        As of ``omkl.datasets.open_stream``.
    n_clients
        K; None: as published for the data set, or with "column" as many as the column has values.
    seed
        Of the order in which rows are dealt out.
    name, rounds, home, away
        As ``federation.*`` of a run.

    Raises ValueError (DataError for data) that says what is wrong and what to do.
    """
    scheme, n_rounds, published = name, rounds, dataset.get("federated") or {}
    data = dataset["name"]
    key = None
    if scheme == "by_site":
        key = "sites"
        if dataset.get(key) is None:
            raise DataError(
                f"{data} does not say which column names the site of a row (dataset.sites). Use "
                "federation=iid, or federation=column with dataset=file"
            )
    elif scheme == "column":
        key = "client_column"
        if dataset.get(key) is None:
            raise DataError("federation=column: say which column: dataset.client_column=NAME")
        if n_clients is not None:
            raise ValueError("federation=column has as many clients as the column has values")
    stream, labels = opening.open_with_column(dataset, stream_options, key)
    if stream.n_rounds is None:
        raise DataError(f"{data}: the number of rows is not known")
    # The third child: features and selection draw from the first and the second.
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(3)[2])
    if scheme == "column":
        assert labels is not None
        rows, clients = by_column(labels, n_rounds)
    else:
        n_clients = n_clients or published.get("clients")
        if n_clients is None:
            raise ValueError("how many clients? Set clients=K")
        if scheme == "by_site":
            assert labels is not None
            assert home is not None and away is not None
            rows = by_site(labels, n_clients, home, away, rng)
            if n_rounds is not None and n_rounds > len(rows):
                raise ValueError(
                    f"federation.rounds={n_rounds}: federation.home={home} and "
                    f"federation.away={away} give each client {len(rows)} rows"
                )
            rows = rows[:n_rounds]
        else:
            most = stream.n_rounds // n_clients
            n_rounds = n_rounds or published.get("rounds") or most
            if scheme == "consecutive":
                rows = consecutive(stream.n_rounds, n_clients, n_rounds)
            else:
                shuffle = rng if scheme == "iid" else None
                rows = deal(stream.n_rounds, n_clients, n_rounds, shuffle)
        clients = [str(k + 1) for k in range(n_clients)]
    if len(rows) < 2:
        raise DataError(
            f"{data}: no client has 2 rounds, which a stream needs at least: set fewer clients, or "
            "more federation.rounds"
        )
    return streams_of(stream, rows, clients)
