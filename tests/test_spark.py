"""A panel on Spark: a local cluster that is killed half-way, and the same numbers as one process.

``make test-spark`` runs it, with PySpark in an environment of its own; it needs a JVM.
"""

from __future__ import annotations

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

pytest.importorskip("pyspark", reason="PySpark is not installed: make test-spark")
if shutil.which("java") is None:
    pytest.skip("Spark needs a JVM, and there is no java", allow_module_level=True)

FILES, ROWS = 12, 400  # a file is a micro-batch

DRIVER = """
import sys
from pyspark.sql import SparkSession
from omkl.spark import predict_and_learn

place, = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
rows = (
    spark.readStream.schema("device string, t long, a double, b double, load double")
    .option("maxFilesPerTrigger", 1)
    .parquet(place + "/rows")
)
predicted = predict_and_learn(rows, key="device", target="load", order="t", eta=0.2)
query = (
    predicted.writeStream.format("parquet")
    .option("path", place + "/predicted")
    .option("checkpointLocation", place + "/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
spark.read.parquet(place + "/predicted").toPandas().to_parquet(place + "/all.parquet")
"""


def stream() -> pd.DataFrame:
    """Rows of devices that differ in level; some targets are missing; a device comes late."""
    rng = np.random.default_rng(0)
    n = FILES * ROWS
    device = rng.integers(5, size=n)
    device[: n // 2][device[: n // 2] == 4] = 0
    a, b = rng.normal(size=(2, n))
    load = 10.0 * device + np.sin(a) + b * b
    load[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame(
        {"device": [f"d{k}" for k in device], "t": np.arange(n), "a": a, "b": b, "load": load}
    )


def started(place: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with open(place / "driver.log", "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(place)],
            env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def n_batches(place: Path) -> int:
    """Micro-batches that the sink has taken for good."""
    log = place / "predicted" / "_spark_metadata"
    return sum(path.name.split(".")[0].isdigit() for path in log.glob("*"))


def test_a_cluster_killed_half_way_loses_no_row_and_says_what_one_process_says(tmp_path):
    rows = stream()
    (tmp_path / "rows").mkdir()
    for n in range(FILES):
        part = rows[n * ROWS : (n + 1) * ROWS].sample(frac=1.0, random_state=n)  # in any order
        path = tmp_path / "rows" / f"{n:02d}.parquet"
        part.to_parquet(path, index=False)
        os.utime(path, (1e9 + n, 1e9 + n))  # Spark takes the oldest first

    driver = started(tmp_path)
    end = time.monotonic() + 300.0
    while n_batches(tmp_path) < 3 and driver.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    said = (tmp_path / "driver.log").read_text()[-3000:]
    assert 3 <= n_batches(tmp_path) < FILES, said

    driver = started(tmp_path)
    assert driver.wait(300) == 0, (tmp_path / "driver.log").read_text()[-3000:]
    found = pd.read_parquet(tmp_path / "all.parquet").sort_values("t")

    assert found.t.tolist() == rows.t.tolist()  # every row, and each once
    panel = omkl.panel(key="device", inputs=["a", "b"], eta=0.2)
    expected = panel.partial_fit(rows[["device", "a", "b"]], rows.load).y_hat
    np.testing.assert_array_equal(found.y_hat.to_numpy(), expected)
    np.testing.assert_array_equal(found.load.to_numpy(), rows.load.to_numpy())


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"key": "shop"}, "no column 'shop'"),
        ({"inputs": ["a", "z"]}, "no column 'z'"),
        ({"share_weights": True}, "share_weights"),
        ({"algorithm": "auto"}, "per key"),
    ],
)
def test_what_is_wrong_is_said_before_a_stream_starts(spark, settings, what):
    from omkl.spark import predict_and_learn

    rows = spark.createDataFrame([("d", 1, 0.5, 1.0)], "device string, t long, a double, y double")
    given = {"key": "device", "target": "y", "order": "t"} | settings
    with pytest.raises(ValueError, match=what):
        predict_and_learn(rows, **given)
