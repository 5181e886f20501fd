"""Files that change while they are read: numbers are of the rows that the sha256 names, or none."""

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from omkl.datasets import DataError, open_stream, read
from omkl.experiment import run as runner
from tests.compositions import compose
from tests.datasets.helpers import RAW, own

ROWS = 400
FORMATS = ("t.csv", "t.csv.gz", "t.jsonl", "t.svm", "t.parquet", "t.feather")


def write(path: Path, seed: int = 0) -> Path:
    """ROWS rows, of equal length for every seed, in the format of the name."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.integers(10, 99, (ROWS, 3)), columns=["a", "b", "y"])
    if path.name == "t.svm":
        path.write_text("".join(f"{y} 1:{a} 2:{b}\n" for a, b, y in frame.itertuples(index=False)))
    elif path.name == "t.jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif path.name == "t.parquet":
        frame.to_parquet(path, row_group_size=50, compression=None, use_dictionary=False)
    elif path.name == "t.feather":
        frame.to_feather(path, compression="uncompressed", chunksize=50)
    else:
        frame.to_csv(path, index=False)
    return path


def described(path: Path) -> dict[str, Any]:
    return own(path) | ({"target": None} if path.suffix == ".svm" else {})


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(read, "CHUNK_ROWS", 50)
    monkeypatch.setattr("omkl.datasets.libsvm.CHUNK_ROWS", 50)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("how", ["in place", "by another file", "by a longer one"])
def test_other_bytes_end_the_run(tmp_path, name, how):
    path = write(tmp_path / name)
    (tmp_path / "other").mkdir()
    other = write(tmp_path / "other" / name, seed=1)
    stream = open_stream(described(path), RAW)
    blocks = stream.blocks(50)
    next(blocks)
    if how == "in place":
        path.write_bytes(other.read_bytes())
    elif how == "by another file":
        os.replace(other, path)
    else:
        path.write_bytes(path.read_bytes() + other.read_bytes())
    for passed in (blocks, stream.blocks(50)):
        with pytest.raises(DataError, match=f"{name}: the file changed while it was read"):
            list(passed)


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_only_touched_is_the_same(tmp_path, name):
    path = write(tmp_path / name)
    stream = open_stream(described(path), RAW)
    first = np.concatenate([y for _, y in stream.blocks(50)])
    copy = path.with_suffix(".copy")
    copy.write_bytes(path.read_bytes())
    os.replace(copy, path)
    np.testing.assert_array_equal(np.concatenate([y for _, y in stream.blocks(50)]), first)
    assert len(first) == ROWS


def test_jobs_of_one_process_trust_no_time_and_no_size(tmp_path):
    path = write(tmp_path / "t.csv")
    overrides = ["algorithm=mean", "dataset=file", f"dataset.path={path}", "dataset.target=y"]

    def prepared(*more: str):
        job = runner.prepare(compose([*overrides, "seeds=1", *more]))
        return job.settings, job.stream

    first, stream = prepared()
    assert prepared()[1] is stream, "read once"
    times = os.stat(path)
    write(path, seed=1)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    again, other = prepared()
    assert other is not stream
    assert again.dataset["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert again.dataset["sha256"] != first.dataset["sha256"]
