"""What a user would pick: our regressors and models of other libraries on the same streams.

One pass of each, one after the other, as a suite of ``omkl-benchmark`` makes it: ours take a
thousand rows at a call, peers one row at a call in a process of their own, and a time is that
of the processor in predicting and learning. An error is relative to that of the running mean.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import setting
from omkl import algorithms
from omkl.benchmark import cells, packaged, peer_models, running, table
from omkl.benchmark.suite import OURS, PEER, TRIVIAL, TRIVIALS, Suite, checked
from omkl.datasets import catalogue, download
from omkl.report import style

NAVAL = {"name": "naval", "from": "catalogue", "dataset": "naval"}
STREAMS = [
    {"name": "Trump approval", "from": "river", "set": "TrumpApproval"},
    {"name": "Friedman, abrupt", "from": "made", "set": "friedman_abrupt"},
]
WAVES = {"name": "waves", "from": "made", "set": "waves"}  # where naval's file is not at hand
# Peers of ``peer_models.PEERS`` and their names in the picture.
PEERS = {
    "river_linear_scaled": "River linear",
    "river_hat": "River HAT",
    "river_knn": "River KNN",
    "river_arf": "River ARF",
    "river_amf": "River AMF",
    "river_amf_alone": "River AMF, no scaler",
    "river_bagging": "River bagging",
    "sklearn_sgd": "sklearn SGD",
    "sklearn_rff_sgd": "sklearn RFF, SGD",
    "sklearn_rff_bayes": "sklearn RFF, Bayes",
    "vw_cubic": "VW cubic",
    "vw_nn": "VW nn",
}
TRIVIAL_NAMES = {"mean": "running mean", "last": "last label", "ridge": "linear ridge"}
LEFT_OUT = ("vaw_joint",)  # one matrix of the features of all kernels: a minute a pass
PREFIX = 100  # rows that score for nobody
SECONDS = 120.0  # of a peer's pass at most
Row = dict[str, Any]


def ours() -> list[str]:
    """Every regressor but variants of others, those that a suite has anyway, and ``LEFT_OUT``."""
    trivial = TRIVIALS["regression"].values()
    return [
        name
        for name in algorithms.names()
        if algorithms.load(name).task == "regression"
        and "/" not in name
        and name not in (*trivial, *LEFT_OUT)
    ]


def suite(rows: int, seeds: int, learners: Sequence[str], peers: Sequence[str]) -> Suite:
    """The suite that is run; peers get the rows as they are."""
    there = download.locate(catalogue.entry("naval")["file"]) is not None
    return checked(
        {
            "name": "side_by_side",
            "version": "omkl-bench-1",
            "title": "Side by side",
            "task": "regression",
            "rows": rows,
            "seeds": seeds,
            "prefix": min(PREFIX, rows // 2),
            "seconds": SECONDS,
            "peers_see": "raw",
            "streams": [NAVAL if there else WAVES, *STREAMS],
            "learners": [{"name": name} for name in learners],
            "peers": list(peers),
        }
    )


def measure(
    rows: int, seeds: int, learners: Sequence[str] | None = None, peers: Sequence[str] = (*PEERS,)
) -> dict[str, Any]:
    """A row for every stream and learner, computed now: no result of before is taken."""
    made = suite(rows, seeds, ours() if learners is None else learners, peers)
    with tempfile.TemporaryDirectory(prefix="omkl-bench-") as place:
        running.run(made, Path(place), tell=lambda text: None)
        results = table.read(Path(place))
    streams = [_stream(results, stream["name"]) for stream in made.streams]
    return {
        "rows": made.rows,
        "seeds": made.seeds,
        "prefix": made.prefix,
        "kernels": made.kernels,
        "D": made.D,
        "versions": _versions(peers),
        "streams": streams,
        "learners": [row for stream in streams for row in _rows(results, stream["name"])],
    }


def row_by_row(rows: setting.Rows, names: Sequence[str] = ("auto", "raker")) -> dict[str, float]:
    """Microseconds to predict and learn a row of the bench at a call, by ``omkl.river`` as it is.

    Nothing where River is not installed. The first half is not counted.
    """
    try:
        from omkl.river import OnlineMKLRegressor  # an extra
    except ImportError:
        return {}
    found = {}
    stream = [dict(enumerate(x)) for x in rows.X.tolist()]
    for name in names:
        model, clock = OnlineMKLRegressor(algorithm=name), 0.0
        for t, (x, y) in enumerate(zip(stream, rows.y.tolist(), strict=True)):
            if t == len(stream) // 2:
                clock = time.thread_time()
            model.predict_one(x)
            model.learn_one(x, y)
        found[name] = 1e6 * (time.thread_time() - clock) / (len(stream) - len(stream) // 2)
    return found


def _stream(results: table.Results, name: str) -> dict[str, Any]:
    stated = results.stated["streams"][name]
    return {"name": name} | {k: stated[k] for k in ("rows", "columns", "missing") if k in stated}


def _rows(results: table.Results, stream: str) -> list[Row]:
    """Those of a stream; the trivial forecasters, ours and peers."""
    mean = results.cells.get((stream, "mean"), {}).get("scores", {}).get("mse", [np.nan])[0]
    found = []
    for (of, learner), cell in results.cells.items():
        if of != stream:
            continue
        row: Row = {"stream": stream, "learner": learner, "kind": cell["kind"]}
        row |= {"short": short(learner, cell["kind"]), "title": full(learner, cell["kind"])}
        if cell["status"] == cells.COMPLETE:
            scores = cell["scores"]
            row |= {
                "error": float(np.sqrt(np.mean(scores["mse"]) / mean)),
                "us": statistics.median(scores["us_a_row"]),
                "kb": max(scores["bytes"]) / 1e3,
            }
        else:
            row["missing"] = f"{cell['status'] or cells.MISSING}: {cell['reason']}"
        found.append(row)
    return mark_front(found)


def short(learner: str, kind: str) -> str:
    """The name in the picture."""
    known = {PEER: PEERS, TRIVIAL: TRIVIAL_NAMES}.get(kind, {})
    return known.get(learner) or full(learner, kind)


def full(learner: str, kind: str) -> str:
    """The name in the table."""
    if kind == PEER:
        return peer_models.peer(learner).title
    return style.display_name(learner if kind == OURS else TRIVIALS["regression"][learner])


def mark_front(rows: list[Row]) -> list[Row]:
    """The rows with ``front``: nothing else is as fast and as good, and better in one of them."""
    known = [(row["us"], row["error"]) for row in rows if "us" in row]

    def beaten(us: float, error: float) -> bool:
        return any(u <= us and e <= error and (u, e) != (us, error) for u, e in known)

    return [row | {"front": "us" in row and not beaten(row["us"], row["error"])} for row in rows]


def _versions(peers: Sequence[str]) -> dict[str, str]:
    """Of the libraries of peers; "not installed" where they are not."""
    found = {}
    for library in dict.fromkeys(map(peer_models.library_of, peers)):
        try:
            packaged.require(library)
            found[library] = packaged.version_of(library)
        except ImportError:
            found[library] = "not installed"
    return found
