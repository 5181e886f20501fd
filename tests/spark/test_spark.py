"""Learners of series in Spark: make test-spark, which needs Java and PySpark."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import omkl
from tests.spark.stream import LEARNERS

pytest.importorskip("pyspark", reason="PySpark is not installed: make test-spark")
if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
    pytest.skip("there is no Java: install a JDK, 17 or later", allow_module_level=True)

N_FILES, ROWS = 8, 400


@pytest.mark.parametrize("name", LEARNERS)
def test_a_killed_driver_continues_with_every_row_once_and_the_same_bits(tmp_path, name):
    rows = written(tmp_path / "rows")
    commits = tmp_path / "checkpoint" / "commits"
    with open(tmp_path / "log.txt", "w") as log, started(tmp_path, name, log) as driver:
        while driver.poll() is None and n_committed(commits) < 3:
            time.sleep(0.05)
        assert driver.poll() is None, (tmp_path / "log.txt").read_text()[-3000:]
        os.killpg(driver.pid, signal.SIGKILL)  # with its Java machine and Python workers
        driver.wait()
        assert 3 <= n_committed(commits) < N_FILES
        assert not (tmp_path / "all.parquet").exists()
    with open(tmp_path / "log.txt", "a") as log, started(tmp_path, name, log) as driver:
        assert driver.wait() == 0, (tmp_path / "log.txt").read_text()[-3000:]
    said = pd.read_parquet(tmp_path / "all.parquet").sort_values("n")
    assert np.array_equal(said["n"], rows["n"]) and np.array_equal(said["device"], rows["device"])
    one = LEARNERS[name][0]().partial_fit(rows.drop(columns=["n", "y"]), rows["y"])
    assert np.array_equal(said["y_hat"], one.y_hat)


def written(folder):
    """A file for each micro-batch, whose rows are in no order."""
    folder.mkdir()
    rng, n = np.random.default_rng(0), N_FILES * ROWS
    rows = pd.DataFrame({"device": rng.integers(20, size=n), "n": np.arange(n)})
    rows["a"], rows["b"] = rng.normal(size=(2, n))
    rows["y"] = rows["device"] + np.sin(3.0 * rows["a"]) + 0.1 * rng.normal(size=n)
    rows.loc[rng.random(n) < 0.05, "y"] = np.nan
    rows.loc[rng.random(n) < 0.05, "b"] = np.nan
    for k in range(N_FILES):
        part = rows[k * ROWS : (k + 1) * ROWS].sample(frac=1.0, random_state=k)
        path = folder / f"{k}.parquet"
        part.to_parquet(path)
        os.utime(path, (1_700_000_000 + k,) * 2)  # Spark takes the oldest first
    return rows


@contextlib.contextmanager
def started(folder, name, log):
    """A driver in a process group of its own, none of which is left behind."""
    script = Path(__file__).with_name("stream.py")
    place = {"PYTHONPATH": os.pathsep.join([str(Path(omkl.__file__).parents[1]), *sys.path])}
    driver = subprocess.Popen(
        [sys.executable, str(script), str(folder), name],
        env=os.environ | place, stdout=log, stderr=log, start_new_session=True,
    )  # fmt: skip
    try:
        yield driver
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def n_committed(commits):
    return len([p for p in commits.glob("[0-9]*")])
