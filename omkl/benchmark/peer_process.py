"""A peer's pass over a stream in a process of its own, which may take too long or die.

    python -m omkl.benchmark.peer_process TASK.json

The child reads rows and labels from a file of arrays and writes what the peer said into another.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl import disk
from omkl.benchmark import peer_models
from omkl.benchmark.said import Diverged, Said
from omkl.disk import write_atomically

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class PeerTask(NamedTuple):
    """A peer, and rows X (n, d) with labels y (n,): numbers, or places among n_classes."""

    peer: str
    task: str
    n_classes: int
    seed: int
    inputs: list[str]


class Failed(RuntimeError):
    """A peer did not say what it was asked; the text says why."""


class TookTooLong(Failed):
    """It was ended after the seconds that it had."""


def pass_over(task: PeerTask, X: np.ndarray, y: np.ndarray, seconds: float) -> Said:
    """What a peer says of all rows. Raises Failed or Diverged."""
    with disk.temporary_folder() as place:
        folder = Path(place)
        np.savez(folder / "rows.npz", X=X, y=y)
        (folder / "task.json").write_text(json.dumps(task._asdict()), encoding="utf-8")
        words = [sys.executable, "-m", "omkl.benchmark.peer_process", str(folder / "task.json")]
        env = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
        try:
            done = subprocess.run(
                words, timeout=seconds, capture_output=True, text=True, env=env, check=False
            )
        except subprocess.TimeoutExpired:
            raise TookTooLong(f"it took more than {seconds:g} s") from None
        if done.returncode < 0:
            raise Failed(f"its process was ended by {signal.Signals(-done.returncode).name}")
        told = [line for line in done.stderr.splitlines() if line.strip()]
        if done.returncode:
            raise Failed(told[-1] if told else f"its process ended with {done.returncode}")
        with np.load(folder / "said.npz") as found:
            said = {name: found[name] for name in found.files}
    if len(bad := said["not_finite"]):
        raise Diverged(f"its prediction of row {bad[0]} is not finite")
    p = said["probabilities"]
    nothing = np.full(len(y), np.nan)
    seconds, size = float(said["seconds"]), int(said["bytes"])
    return Said(said["y_hat"], nothing, p if p.size else None, seconds, size)


def child(path: Path) -> None:
    """The pass that a task file describes; its answer goes beside that file."""
    task = PeerTask(**json.loads(path.read_text(encoding="utf-8")))
    with np.load(path.with_name("rows.npz")) as rows:
        X, y = rows["X"], rows["y"]
    warnings.filterwarnings("ignore")  # of libraries, about their own calls
    model = peer_models.peer(task.peer).make(task.task, task.n_classes, task.seed)
    said = _said(model, task, X, y)
    buffer = io.BytesIO()
    np.savez(buffer, **said)  # type: ignore[arg-type]
    write_atomically(path.with_name("said.npz"), buffer.getvalue(), sync=False)


def _said(model: Any, task: PeerTask, X: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    K, y_hat, probabilities, bad = task.n_classes, np.full(len(y), np.nan), [], []
    labels: list[Any] = y.astype(int).tolist() if K else y.tolist()
    clock = time.process_time()
    for t, (z, label) in enumerate(zip(X.tolist(), labels, strict=True)):
        x = dict(zip(task.inputs, z, strict=True))
        y_hat[t], p = peer_models.said_of(model, x, K)
        if t and not K and not np.isfinite(y_hat[t]):
            bad.append(t + 1)
            break
        probabilities.append(p)
        model.learn_one(x, label)
    seconds = time.process_time() - clock
    return {
        "y_hat": y_hat,
        "probabilities": np.array(probabilities),
        "not_finite": np.array(bad),
        "seconds": np.array(seconds),
        "bytes": np.array(len(pickle.dumps(model))),
    }


if __name__ == "__main__":
    child(Path(sys.argv[1]))
