"""Measure learners on sparse and wide rows, beside Vowpal Wabbit: errors and time.

    python scripts/sparse.py [--rows 10000] [--only projections reading classes]

projections  squared distances and Gaussian kernels of hashed rows, beside frequencies for each
             column: errors, time and memory
reading      a pass over ten times as many rows of LIBSVM text in a million columns: time, memory
classes      progressive errors and processor time a row on a9a, w8a and two streams that are made
             here. Ours is without reading text; that of Vowpal Wabbit has a line parsed to predict
             and again to learn. Inputs are scaled as they come, but those of exact kernels

The made rows are like those of RCV1: 47,236 columns, about 75 words a row, weights tf-idf of
length 1. A word is of one of ten topics (35 %), of one of ten others (35 %), or any. All words have
Zipf frequencies, in a topic over 200 words of its own. Labels are the sign of a linear model of 100
frequent words ("words"), or the product of two signs, of the first topic and of the second
("product"); one label of 20 is wrong.
"""

import argparse
import functools
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

import omkl
from omkl.datasets import catalogue, open_stream
from omkl.utils.threads import one_thread_each

COLUMNS, TOPICS, WORDS = 47_236, 20, 200
SEED, HASHED, BLOCK = 0, 512, 1000


class Rows(NamedTuple):
    """Sparse rows X (T, d) and labels y (T,), -1 or +1."""

    name: str
    X: csr_array
    y: np.ndarray


def made(T: int, seed: int) -> tuple[Rows, Rows]:
    """Rows like those of RCV1, with the labels of "words" and of "product"."""
    rng = np.random.default_rng(seed)
    zipf = 1.0 / (np.arange(COLUMNS) + 3.0)
    common, within = np.cumsum(zipf / zipf.sum()), np.cumsum(zipf[:WORDS] / zipf[:WORDS].sum())
    own = np.stack([rng.permutation(COLUMNS // 2)[:WORDS] for _ in range(TOPICS)])
    length = np.clip(rng.lognormal(4.4, 0.5, T), 10, 1000).astype(int)
    first = rng.integers(TOPICS // 2, size=T)
    second = rng.integers(TOPICS // 2, TOPICS, size=T)
    row = np.repeat(np.arange(T), length)
    source, u = rng.random((2, len(row)))
    topic = np.where(source < 0.35, first[row], second[row])
    of_topic = own[topic, np.minimum(np.searchsorted(within, u), WORDS - 1)]
    of_all = np.minimum(np.searchsorted(common, u), COLUMNS - 1)
    words = np.where(source < 0.7, of_topic, of_all)
    cells, counts = np.unique(row * COLUMNS + words, return_counts=True)
    row, word = np.divmod(cells, COLUMNS)
    n_rows_with = np.bincount(word, minlength=COLUMNS)
    weight = (1.0 + np.log(counts)) * np.log((T + 1) / (n_rows_with[word] + 1))
    weight /= np.sqrt(np.bincount(row, weight**2, T))[row]
    X = csr_array((weight, (row, word)), shape=(T, COLUMNS))
    linear = np.zeros(COLUMNS)
    frequent = np.argsort(-n_rows_with, kind="stable")[:1000]
    linear[rng.permutation(frequent)[:100]] = rng.standard_normal(100)
    score, wrong = X @ linear, rng.random(T) < 0.05
    signs = np.resize([1, -1], TOPICS)
    labels = (np.where(score > np.median(score), 1, -1), signs[first] * signs[second])
    y_words, y_product = (np.where(wrong, -y, y) for y in labels)
    return Rows("words", X, y_words), Rows("product", X, y_product)


def of_catalogue(name: str, T: int) -> Rows:
    """The first rows of a data set of the catalogue in the random order of seed 1."""
    options = {"limit": T, "scaling": "none", "order": "shuffled"}
    X, y = zip(*open_stream(catalogue.entry(name), options, seed=1).blocks(BLOCK), strict=True)
    return Rows(name, csr_array(np.concatenate(X)), np.concatenate(y).astype(int))


# --- Projections ----------------------------------------------------------------------------------


def drawn_frequencies(columns: np.ndarray, D: int) -> np.ndarray:
    """Frequencies (n, D) of columns (n,), made anew by a counter: nothing is kept."""
    return np.stack([np.random.Generator(np.random.Philox(int(k))).standard_normal(D)
                     for k in columns])  # fmt: skip


def projections(T: int) -> None:
    """Kernels exp(-||x - z||^2 / 2) of 2,000 pairs, and D cosines and sines of each row."""
    X = made(T, SEED)[0].X
    rng = np.random.default_rng(SEED)
    a, b = rng.integers(T, size=(2, 2000))
    square = np.asarray((X[a] - X[b]).power(2).sum(axis=1)).ravel()
    kernel = np.exp(-square / 2.0)
    print("\n| inputs | error of squared distances | of kernels | with D = 50 | with D = 500 |")
    print("|---|---|---|---|---|")
    for K in (128, 512, 2048):
        H = omkl.hash_inputs(X, K)
        squares = ((H[a] - H[b]) ** 2).sum(axis=1)
        errors = [rms(squares / square - 1.0), rms(np.exp(-squares / 2.0) - kernel)]
        errors += [of_features(H @ rng.standard_normal((K, D)), a, b, kernel) for D in (50, 500)]
        print(f"| hashed, K = {K} |" + "".join(f" {error:.3f} |" for error in errors))
    errors = [of_features(X @ rng.standard_normal((COLUMNS, D)), a, b, kernel) for D in (50, 500)]
    print(f"| a frequency per column | 0 | 0 | {errors[0]:.3f} | {errors[1]:.3f} |")
    print("\n| D = 500 | µs a row | numbers kept |\n|---|---|---|")
    some, W = X[:200], rng.standard_normal((HASHED, 500))
    kept = rng.standard_normal((COLUMNS, 500))
    ways: dict[str, tuple[Callable[[], Any], int]] = {
        f"hashed, K = {HASHED}": (lambda: omkl.hash_inputs(some, HASHED) @ W, W.size),
        "a frequency per column, kept": (lambda: some @ kept, kept.size),
        "a frequency per column, drawn anew": (
            lambda: [some[[t]].data @ drawn_frequencies(some[[t]].indices, 500)
                     for t in range(20)], 0,
        ),
    }  # fmt: skip
    for name, (project, size) in ways.items():
        n = 20 if size == 0 else 200
        print(f"| {name} | {1e6 * least_seconds(project) / n:,.0f} | {size:,} |")


def of_features(projected: np.ndarray, a: np.ndarray, b: np.ndarray, kernel: np.ndarray) -> float:
    return rms(np.cos(projected[a] - projected[b]).mean(axis=1) - kernel)


def rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def least_seconds(act: Callable[[], Any]) -> float:
    """Processor time of the fastest of five calls."""
    times = []
    for _ in range(5):
        start = time.process_time()
        act()
        times.append(time.process_time() - start)
    return min(times)


# --- Reading --------------------------------------------------------------------------------------


def reading(T: int) -> None:
    n, rng = 10 * T, np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory(prefix="omkl-sparse-") as folder:
        path = Path(folder) / "wide.svm"
        with path.open("w") as file:
            for _ in range(n):
                columns = np.unique(rng.integers(1, 1_000_001, 30))
                pairs = zip(columns, rng.random(30), strict=False)
                file.write(f"1 {' '.join(f'{k}:{value:.4f}' for k, value in pairs)}\n")
        cfg = catalogue.entry("file") | {"path": str(path), "target": None, "hash": HASHED}
        before, start = peak_mb(), time.process_time()
        options = {"limit": None, "scaling": "none", "order": "file"}
        read = sum(len(y) for _, y in open_stream(cfg, options).blocks(BLOCK))
        took = 1e6 * (time.process_time() - start) / read
        print(f"\n{read:,} rows of 30 numbers in a million columns: {took:.0f} µs a row, "
              f"{peak_mb() - before:.0f} MB of memory")  # fmt: skip


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# --- Classes --------------------------------------------------------------------------------------


Answers = Iterator[np.ndarray]  # predicted labels, block by block


OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "auto": ("auto", {}),
    "rf/omkc_da_p1": ("rf/omkc_da_p1", {"kernels": "gauss13", "D": 50}),
    "omkc_da_p1, exact kernels": ("omkc_da_p1", {"kernels": "omkc16", "scaling": "none"}),
}


def ours(rows: Rows, hashed: int | None, algorithm: str, **settings: Any) -> Answers:
    """A learner of omkl, whose rows are hashed or made dense a block at a time."""
    d = hashed or rows.X.shape[1]
    learner = omkl.learner(algorithm, inputs=d, classes=[-1, 1], seed=SEED, **settings)
    for start in range(0, len(rows.y), BLOCK):
        X = rows.X[start : start + BLOCK]
        dense = omkl.hash_inputs(X, hashed) if hashed else X.toarray()
        yield np.asarray(learner.partial_fit(dense, rows.y[start : start + BLOCK]).y_hat)


def vowpal(rows: Rows, options: str) -> Answers:
    from vowpalwabbit import Workspace

    workspace = Workspace(f"--quiet --loss_function logistic --random_seed {SEED} {options}")
    for start in range(0, len(rows.y), BLOCK):
        said = []
        for line, label in zip(lines(rows, start), rows.y[start : start + BLOCK], strict=True):
            said.append(1 if workspace.predict(line) > 0.0 else -1)
            workspace.learn(f"{label} {line}")
        yield np.array(said)


@functools.cache
def texts(name: str, T: int) -> list[str]:
    X = streams(T)[name].X
    cells = (zip(X[[t]].indices, X[[t]].data, strict=True) for t in range(T))
    return ["|i " + " ".join(f"{k}:{value:.6g}" for k, value in row) for row in cells]


def lines(rows: Rows, start: int) -> list[str]:
    return texts(rows.name, len(rows.y))[start : start + BLOCK]


@functools.cache
def streams(T: int) -> dict[str, Rows]:
    found = [of_catalogue("a9a", T), of_catalogue("w8a", T), *made(T, SEED)]
    return {rows.name: rows for rows in found}


def contestants(rows: Rows) -> dict[str, Callable[[], Answers]]:
    is_wide = rows.X.shape[1] > 1000
    sizes: list[int | None] = [HASHED, 2 * HASHED] if is_wide else [None, 64]
    found: dict[str, Callable[[], Answers]] = {}
    for K in sizes:
        how = f"hashed to {K}" if K else "all columns"
        for title, (algorithm, settings) in OURS.items():
            found[f"{title}, {how}"] = functools.partial(ours, rows, K, algorithm, **settings)
    for title, options in {
        "linear": "-b 18", "products of two, -q ii": "-b 22 -q ii", "ten hidden units": "--nn 10",
    }.items():  # fmt: skip
        found[f"Vowpal Wabbit: {title}"] = functools.partial(vowpal, rows, options)
    return found


def classes(T: int) -> None:
    for rows in streams(T).values():
        lines(rows, 0)  # so that nobody's time has them
        n, density = len(rows.y), rows.X.nnz / len(rows.y)
        print(f"\n{rows.name}: {n:,} rows, {rows.X.shape[1]:,} columns, {density:.0f} not 0; "
              f"{np.mean(rows.y == 1):.1%} are +1\n")  # fmt: skip
        print("| learner | errors, % | in the last quarter | µs a row |\n|---|---|---|---|")
        for title, answers in contestants(rows).items():
            next(answers())  # compiles
            start = time.process_time()
            wrong = np.concatenate(list(answers())) != rows.y
            took = 1e6 * (time.process_time() - start) / n
            late = wrong[-(n // 4) :]
            print(f"| {title} | {wrong.mean():.2%} | {late.mean():.2%} | {took:,.0f} |", flush=True)


PARTS = {"projections": projections, "reading": reading, "classes": classes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    given = parser.parse_args()
    with one_thread_each():
        for part in given.only:
            PARTS[part](given.rows)


if __name__ == "__main__":
    main()
