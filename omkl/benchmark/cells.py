"""The folder of a suite's results: what each learner said of each stream is kept, and found again.

    suite.json             the suite as it was read, versions, machine, streams, and its cells
    streams/NAME.parquet   its rows, which omkl-run reads as well
    cells/STREAM/LEARNER-KEY/result.json   one (stream, learner): scores, a list over its seeds
    cells/STREAM/LEARNER-KEY/curves.npz    its curves by seed: errors against rounds
    page/                  tables and pictures, made of the others

``result.json`` of a cell
    key, of          the key, and what it is the digest of: rows, settings, protocol, code
    stream, learner, kind, task, command
    status           "complete" | "diverged" | "too long" | "failed" | "missing", and ``reason``
    seeds            those that are finished; scores {name: [one a seed]}
    chosen           the parameters that the prefix chose, of a learner with a grid
    versions         of omkl and what it needs; that of a peer's library is in ``of``

A cell is written after each seed, so nothing that was computed is lost; another setting, other
rows or other code are another key, and the cell of before stays where it is.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import io
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from omkl.benchmark import learners, peers, streams
from omkl.benchmark.suite import PEER, Entry, Suite
from omkl.runs import checksum
from omkl.runs.provenance import sources_digest
from omkl.utils import conf, sources
from omkl.utils.disk import write_atomically

COMPLETE, DIVERGED, TOO_LONG, FAILED, MISSING = (
    "complete", "diverged", "too long", "failed", "missing",
)  # fmt: skip
KEY_DIGITS = 12
# What scores a pass, and what makes and runs peers.
OF_LEARNERS, OF_PEERS = ("scores.py", "learners.py"), ("scores.py", "peers.py")


class Damaged(ValueError):
    """A folder is no result of a suite, or a file in it is not as it was written."""


def identity(suite: Suite, entry: Entry, stream: Mapping[str, Any]) -> dict[str, Any]:
    """What the numbers of a cell depend on but for the seeds; ``stream`` is what is stated."""
    protocol = {"n_unscored": suite.n_unscored, "window": suite.window, "fading": suite.fading}
    identity: dict[str, Any] = {
        "version": suite.version,
        "rows": stream["sha256"],
        "task": stream["task"],
        "protocol": protocol,
        "entry": entry._asdict() | {"name": "", "tasks": []},
    }
    if entry.kind == PEER:
        library = peers.library_of(entry.what)
        identity["peers_see"] = suite.peers_see
        identity["seconds"] = suite.seconds
        identity["library"] = f"{library} {_version(library, entry.what)}"
    else:
        identity["prefix"] = suite.prefix if entry.grid else 0
        identity["defaults"] = _entry("algorithm", learners.algorithm_of(entry, stream["task"]))
        identity["kernels"] = _entry("kernels", entry.kernels)
    identity["code"] = _code(entry.kind == PEER)
    return identity


@functools.cache
def _entry(group: str, name: str) -> dict[str, Any]:
    """What a YAML file says, {} of a name that has none."""
    return conf.entry(group, name) if name in conf.names(group) else {}


def _version(library: str, peer: str) -> str:
    """The library's version; of a module of one's own the digest of its text."""
    if ":" in peer and (spec := importlib.util.find_spec(peer.partition(":")[0])) and spec.origin:
        return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
    try:
        return streams.version_of(library)
    except ImportError:
        return "unknown"


@functools.cache
def _code(peer: bool) -> str:
    """The digest of the sources that a cell's numbers come from, as they were imported."""
    digest = hashlib.sha256()
    names = OF_PEERS if peer else OF_LEARNERS
    sources.add_to(digest, [sources.PACKAGE / "benchmark" / name for name in names])
    if not peer:
        digest.update(sources_digest().encode())
    return digest.hexdigest()


def key_of(identity: Mapping[str, Any]) -> str:
    text = json.dumps(identity, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def folder_of(folder: Path, stream: str, entry: Entry, key: str) -> Path:
    return folder / "cells" / in_path(stream) / f"{in_path(entry.name)}-{key}"


def in_path(name: str) -> str:
    """A name as part of a path."""
    return re.sub(r"\W+", "-", name.lower()).strip("-")


def read(cell: Path) -> dict[str, Any] | None:
    """A cell's result, None where there is none. Raises Damaged."""
    try:
        return checksum.read_checksummed((cell / "result.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise Damaged(f"{cell / 'result.json'}: {error}") from None


def curves(cell: Path) -> dict[str, np.ndarray]:
    """Curves (R, P) by name and ``t`` (P,); nothing where no seed has finished."""
    try:
        with np.load(cell / "curves.npz") as archive:
            return dict(archive)
    except FileNotFoundError:
        return {}


def write(cell: Path, result: Mapping[str, Any], curves: Mapping[str, np.ndarray]) -> None:
    """Write a cell as it is now."""
    cell.mkdir(parents=True, exist_ok=True)
    if curves:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **curves)  # type: ignore[arg-type]
        write_atomically(cell / "curves.npz", buffer.getvalue(), sync=False)
    write_atomically(cell / "result.json", checksum.checksummed_text(result), sync=False)


def with_seed(result: Mapping[str, Any], seed: int, scores: Mapping[str, float]) -> dict[str, Any]:
    """A cell's result and one more seed."""
    lists = {name: [*result["scores"].get(name, []), value] for name, value in scores.items()}
    return {**result, "seeds": [*result["seeds"], seed], "scores": lists}


def with_curves(
    curves: Mapping[str, np.ndarray], new: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Curves and those of one more seed."""
    return {
        name: values if name == "t" else np.stack([*curves.get(name, []), values])
        for name, values in new.items()
    }


def write_index(folder: Path, index: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "suite.json", checksum.checksummed_text(index))


def read_index(folder: Path) -> dict[str, Any]:
    """What suite.json says. Raises Damaged where there is none, or it is not as written."""
    path = folder / "suite.json"
    try:
        return checksum.read_checksummed(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Damaged(f"{folder} has no suite.json: it is no folder of omkl-benchmark") from None
    except ValueError as error:
        raise Damaged(f"{path}: {error}") from None


def forget(cell: Path) -> None:
    """Remove a cell that is damaged."""
    shutil.rmtree(cell, ignore_errors=True)
