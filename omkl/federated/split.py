"""Assignment of the rows of a data set to K clients, up to T rounds each.

iid          rows are assigned at random, T to each client
in_turn      rows are assigned in the order of the file, one to each client in turn
consecutive  the file is cut into K pieces of equal length; client k has the first T rows of piece k
by_site      client k belongs to site k mod S. It has ``home`` rows of its site and ``away`` rows of
             every other site, in random order. No row belongs to two clients
column       a client has the rows with one value of a column, in the order of the file. Clients
             with fewer rows end earlier

All seeds of a run share one split. As in the published experiments, seeds only change the random
features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from omkl.core.rng import SPLIT, generator
from omkl.datasets import DataError, Stream, opening


class Split(NamedTuple):
    """Streams of K clients, up to T rounds each.

    X, y     inputs (T, K, d) and targets (T, K), scaled as the rows of ``stream``; after a client's
             last row X is 0 and y is NaN
    clients  K names
    rows     (T, K) int64, rows of the data set from 0; -1 after a client's last row
    lengths  (K,) int64, number of rounds of each client, 1..T
    stream   the data set
    """

    X: np.ndarray
    y: np.ndarray
    clients: list[str]
    rows: np.ndarray
    lengths: np.ndarray
    stream: Stream


def deal(n_rows: int, n_clients: int, n_rounds: int, rng: np.random.Generator | None) -> np.ndarray:
    """Assign rows to clients, at random or in the order of the file, and return them as (T, K).

    Parameters
    ----------
    n_rows
        Rows of the data set.
    n_clients, n_rounds
        K and T.
    rng
        Generator of the order; None: the order of the file.

    Raises
    ------
    ValueError
        There are fewer than K T rows.
    """
    if n_clients * n_rounds > n_rows:
        raise ValueError(
            f"{n_clients} clients with {n_rounds} rounds each need {n_clients * n_rounds} rows, "
            f"there are {n_rows}: set fewer clients or federation.rounds"
        )
    order = np.arange(n_rows) if rng is None else rng.permutation(n_rows)
    return order[: n_clients * n_rounds].reshape(n_rounds, n_clients)


def consecutive(n_rows: int, n_clients: int, n_rounds: int) -> np.ndarray:
    """Assign T consecutive rows to each client, and return them as (T, K).

    The rows of client k begin at row k n_rows / K.

    Parameters
    ----------
    n_rows
        Rows of the data set.
    n_clients, n_rounds
        K and T.

    Raises
    ------
    ValueError
        There are fewer than K T rows.
    """
    deal(n_rows, n_clients, n_rounds, None)  # raises if there are too few rows
    starts = np.arange(n_clients) * n_rows // n_clients
    return starts + np.arange(n_rounds)[:, None]


def by_site(
    sites: np.ndarray, n_clients: int, home: int, away: int, rng: np.random.Generator
) -> np.ndarray:
    """Assign rows to clients by the site of each row, and return them as (T, K).

    T is home + away (S - 1) for S sites.

    Parameters
    ----------
    sites
        (n,) site of each row.
    n_clients
        K.
    home, away
        Rows of a client from its own site, and from each other site.
    rng
        Generator of the order.

    Raises
    ------
    ValueError
        A site has too few rows.
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
    """Assign the rows with one label to one client, and return rows (T, K) and the clients' names.

    Rows keep their order, and -1 follows a client's last row. T is the largest number of rows of a
    client, or ``n_rounds`` if set. Raises ValueError if no client has ``n_rounds`` rows.
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
    """Return the streams of K clients, given the row numbers of each client.

    Parameters
    ----------
    stream
        The whole data set.
    rows
        (T, K) int64; -1 after a client's last row.
    clients
        K names.
    """
    blocks = list(stream.blocks(65_536))
    X = stream.softened(np.concatenate([block[0] for block in blocks]))
    y = np.concatenate([block[1] for block in blocks])
    inputs, targets = X[rows], y[rows]
    inputs[rows < 0], targets[rows < 0] = 0.0, np.nan
    return Split(inputs, targets, clients, rows, (rows >= 0).sum(axis=0), stream)


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
    """Return the streams of the clients.

    Parameters
    ----------
    dataset, stream_options
        As in ``omkl.datasets.open_stream``.
    n_clients
        K. None: for "column" the number of values in the column, otherwise the number of clients
        in the published experiment on this data set.
    seed
        Seed of the order in which rows are assigned.
    name, rounds, home, away
        As ``federation.*`` of a run.

    Raises
    ------
    ValueError
        The settings do not fit the data; the text gives the cure. Errors of data are DataError.
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
    rng = generator(seed, SPLIT)
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
