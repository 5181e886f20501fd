"""Wide LIBSVM text and sparse matrices, hashed to few inputs."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array

import omkl
from omkl.commands import predict
from omkl.config import settings
from omkl.config.compose import compose
from omkl.datasets import DataError, catalogue, open_stream, tables
from omkl.datasets.hashing import hash_of, hashed
from tests.datasets.helpers import COLUMNS, RAW, collect, own

HASHED = {"target": None, "hash": 32}


def write_sparse(path, rows, columns, seed=0):
    """So many rows of ten numbers each as LIBSVM text, and as a matrix and targets."""
    rng = np.random.default_rng(seed)
    places = np.sort(np.stack([rng.choice(columns, 10, replace=False) for _ in range(rows)]))
    values, y = rng.normal(size=places.shape).round(3), rng.choice([-1, 1], rows)
    lines = (
        f"{label:+d} " + " ".join(f"{k + 1}:{v}" for k, v in zip(*pairs, strict=True))
        for label, *pairs in zip(y, places, values, strict=True)
    )
    path.write_text("\n".join(lines) + "\n")
    at = np.repeat(np.arange(rows), 10)
    return csr_array((values.ravel(), (at, places.ravel())), shape=(rows, columns)), y


def test_the_hash_is_that_of_splitmix64():
    """What its reference implementation draws first, with seed 0."""
    drawn = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert hash_of(np.arange(1, 4)).tolist() == drawn


def test_inner_products_are_kept_on_average_with_the_stated_variance():
    """Columns drawn anew are a hash drawn anew."""
    rng, n, K = np.random.default_rng(0), 4000, 64
    x, z = rng.normal(size=(2, 30))
    columns = rng.integers(1, 2**32, size=(n, 30))
    at = np.repeat(np.arange(n), 30)
    hx, hz = (hashed(at, columns.ravel(), np.tile(row, n), n, K) for row in (x, z))
    products = (hx * hz).sum(axis=1)
    spread = products.std()
    assert abs(products.mean() - x @ z) < 4.0 * spread / np.sqrt(n)
    off = (x**2).sum() * (z**2).sum() + (x @ z) ** 2 - 2.0 * ((x * z) ** 2).sum()
    assert spread**2 == pytest.approx(off / K, rel=0.1)
    assert spread**2 < 2.0 * (x @ x) * (z @ z) / K


def test_a_file_is_hashed_as_a_matrix_is_however_it_is_read(tmp_path, monkeypatch):
    X, y = write_sparse(tmp_path / "t.svm", 200, 3_000_000)
    cfg = own(tmp_path / "t.svm", **HASHED)
    stream = open_stream(cfg, RAW)
    assert stream.inputs[0] == "hash1" and stream.n_inputs == 32
    for size in (1, 77, 1000):
        read, targets = collect(stream, size)
        np.testing.assert_array_equal(read, omkl.hash_inputs(X, 32))
        np.testing.assert_array_equal(targets, y)
    whole, _ = collect(open_stream(cfg, COLUMNS))
    shuffled, _ = collect(open_stream(cfg, RAW | {"order": "shuffled"}, seed=3))
    np.testing.assert_array_equal(np.sort(shuffled, axis=0), np.sort(read, axis=0))
    monkeypatch.setattr(tables, "CHUNK_ROWS", 7)
    monkeypatch.setattr(tables, "CHUNK_CELLS", 100)
    np.testing.assert_array_equal(collect(open_stream(cfg, RAW), 13)[0], read)
    np.testing.assert_array_equal(collect(open_stream(cfg, COLUMNS), 13)[0], whole)


def test_memory_is_that_of_a_block_of_rows(tmp_path, monkeypatch):
    """Dense, three blocks of a million columns would be 12 GB."""
    monkeypatch.setattr(tables, "CHUNK_ROWS", 500)
    peaks = []
    for n_blocks in (3, 9):
        write_sparse(tmp_path / "t.svm", 500 * n_blocks, 1_000_000)
        tracemalloc.start()
        for x, _ in open_stream(own(tmp_path / "t.svm", **HASHED), COLUMNS).blocks(100):
            assert x.shape == (100, 32)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] < 10e6, peaks


ERRORS = [
    (
        {"hash": 0},
        "1 1:2\n2 1:3\n",
        r"dataset.hash=0 must be a whole number of at least 1, and at most 100,000",
    ),
    ({"hash": "many"}, "1 1:2\n2 1:3\n", r"dataset.hash='?many'? must be a whole number"),
    ({"hash": 4}, "1 1:2\n2 7:inf\n", r"row 2 has inf at the index 7, .* adds up numbers"),
    ({"hash": 4}, "1 1:2\n2 7:nan\n", r"row 2 has nan at the index 7"),
    ({"hash": 4}, "1 1:2\n2 5000000000:1\n", r"index 5000000000, outside 1..4,294,967,296\.$"),
    ({"hash": 4, "inputs": "1-6"}, "1 1:2\n2 7:1\n", r"row 2 has the index 7, outside 1..6"),
    ({}, "1 1:2\n2 200000:1\n", r"outside 1..100,000. More columns are hashed .*dataset.hash=512"),
]


@pytest.mark.parametrize(("keys", "text", "message"), ERRORS)
def test_what_cannot_be_hashed_is_told(tmp_path, keys, text, message):
    (tmp_path / "t.svm").write_text(text)
    with pytest.raises(DataError, match=message):
        collect(open_stream(own(tmp_path / "t.svm", target=None, **keys), RAW))


def test_columns_with_names_are_not_hashed(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,2\n3,4\n")
    with pytest.raises(DataError, match=r"t.csv: dataset.hash=8 is for LIBSVM text"):
        open_stream(own(tmp_path / "t.csv", hash=8), RAW)
    with pytest.raises(DataError, match=r"synthetic: dataset.hash=8 is for LIBSVM text"):
        open_stream(catalogue.entry("synthetic") | {"hash": 8}, RAW)


@pytest.mark.parametrize(
    ("X", "n", "message"),
    [
        (np.eye(3), 4, "X is a sparse matrix of SciPy"),
        (csr_array(np.eye(3)), 0, "n_inputs=0 must be a whole number from 1"),
        (csr_array(np.diag([1.0, np.inf])), 4, "no finite number"),
        (csr_array(np.diag([1.0, 1.0j])), 4, "complex numbers"),
        (csr_array((2, 2**33)), 4, "8,589,934,592 columns, and at most 4,294,967,296"),
    ],
)
def test_matrices_that_are_not_hashed(X, n, message):
    with pytest.raises(ValueError, match=message):
        omkl.hash_inputs(X, n)


def test_runs_without_a_hash_keep_their_keys():
    for texts, has in ((["hash=8"], True), ([], False)):
        typed = [f"dataset.{text}" for text in texts]
        config = compose(["dataset=file", "dataset.path=t.svm", *typed])
        assert ("hash" in settings.read(config).dataset) is has


@pytest.mark.parametrize(("inputs", "width"), [("null", "all"), ("1-4000", "4,000")])
def test_a_run_says_that_its_rows_are_hashed(inputs, width):
    dataset = ["dataset=file", "dataset.path=t.svm", "dataset.hash=8", f"dataset.inputs={inputs}"]
    assert settings.read(compose(dataset)).notes() == [
        f"8 hashed inputs in place of {width} columns"
    ]


@pytest.mark.slow
def test_a_model_of_hashed_rows_predicts_others(tmp_path, capsys):
    """From a file of the same kind and from a sparse matrix, to the same numbers."""
    write_sparse(tmp_path / "t.svm", 120, 1_000_000)
    X, _ = write_sparse(tmp_path / "new.svm", 5, 1_000_000, seed=1)
    run = omkl.run(
        "raker", kernels="gauss5", D=8, seeds=1, model=True, outputs=tmp_path / "out",
        dataset="file", **{"dataset.path": tmp_path / "t.svm", "dataset.hash": 16,
                           "regret.ridge_features": False, "regret.kernel_ridge": False},
    )  # fmt: skip
    assert predict.main([str(run.folder), str(tmp_path / "new.svm")]) == 0
    printed = [line.split(",")[1] for line in capsys.readouterr().out.splitlines()[1:]]
    expected = omkl.load_learner(run.model).predict(omkl.hash_inputs(X, 16))
    assert [float(text) for text in printed] == expected.tolist()
