"""The driver of a stream: python stream.py FOLDER LEARNER. It ends once all files are learned."""

import sys
from pathlib import Path

import omkl
from omkl import spark

COLUMNS = {"series": "device", "inputs": ["a", "b"]}
# Learners, and into how many buckets their series are divided.
LEARNERS = {
    "panel": (lambda: omkl.panel(**COLUMNS), 5),
    "auto": (lambda: omkl.learner("auto", season=0, **COLUMNS), 1),
}


def main(folder: Path, name: str) -> None:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.pyspark.python", sys.executable)
        .getOrCreate()
    )
    rows = (
        session.readStream.schema("device long, n long, a double, b double, y double")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "rows"))
    )
    make, n_buckets = LEARNERS[name]
    said = spark.partial_fit(rows, make(), target="y", order="n", n_buckets=n_buckets)
    query = (
        said.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .outputMode("append")
        .trigger(availableNow=True)
        .start(str(folder / "predictions"))
    )
    query.awaitTermination()
    session.read.parquet(str(folder / "predictions")).toPandas().to_parquet(folder / "all.parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
