"""A table of our classifiers and of others on the same permutations, error rates and bounds.

A file of ``omkl/papers/conf/comparison``

    name, title
    seeds            permutations of our learners; peer_seeds: the first of them, for peers
    overrides        Hydra overrides of all runs; an algorithm and a data set may have their own,
                     and of two for one setting the later counts
    algorithms       list of {algorithm, overrides}
    best_kernel_of   whose classifiers are single kernel Perceptrons: the best of them in
                     hindsight, a permutation at a time, is a row of its own
    peers            names of ``omkl.papers.comparison.PEERS``
    datasets         list of {dataset, label, overrides}

Ours are runs like any other, in OUTPUTS/runs. What peers said is kept in OUTPUTS/peers, by
the rows and versions that it comes from. Where a run has a mistake bound there is a second
table, the mistakes beside what the theorem allows, and both are drawn.

Peers are what a user would take in place of a kernel dictionary: classifiers of scikit-learn and
River (extra ``bench``). One pass, predicting each row before learning it, on the very rows that our
learners see. All have the same 100 random features of one Gaussian kernel, those of scikit-learn:
River's own RBFSampler takes the features input by input. The bandwidth must be known in advance,
where our learners carry a dictionary: it is the median heuristic on the first 100 rows, which looks
ahead by as much, in the peers' favour.
"""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.config import settings
from omkl.config.settings import Settings
from omkl.datasets import DataError, Stream, open_stream, open_streams
from omkl.experiment import queue
from omkl.experiment.comparators import ONLINE_LEARNER
from omkl.experiment.metrics import mean_and_deviation, mistaken
from omkl.report import console, naming, stats, sweep_figures
from omkl.report.naming import csv_text, theorem_text
from omkl.report.tables import Cell, markdown_table
from omkl.runs import run_folder
from omkl.runs.run_folder import Run
from omkl.utils import cached_arrays
from omkl.utils.cached_arrays import Arrays
from omkl.utils.disk import write_atomically
from omkl.utils.threads import one_thread_each, worker_processes

FEATURES = 100
FIRST = 100  # rows that the bandwidth is taken from

Array = np.ndarray


def median_gamma(X: Array) -> float:
    """gamma of exp(-gamma ||x - x'||^2) that is exp(-1/2) at the median distance of rows (n, d)."""
    from scipy.spatial.distance import pdist

    squares = pdist(X[:FIRST], "sqeuclidean")
    middle = float(np.median(squares)) or float(squares.max()) or 1.0
    return 0.5 / middle


def sklearn_sgd(X: Array, y: Array, seed: int) -> Array:
    """RBFSampler and a linear SVM by stochastic gradients: SGDClassifier with its defaults."""
    from sklearn.linear_model import SGDClassifier

    return _sklearn(SGDClassifier(random_state=seed), X, y, seed)


def sklearn_pa(X: Array, y: Array, seed: int) -> Array:
    """RBFSampler and the passive-aggressive classifier (PA-I, C = 1)."""
    from sklearn.linear_model import SGDClassifier

    # What became of PassiveAggressiveClassifier in scikit-learn 1.8.
    settings = {"loss": "hinge", "penalty": None, "learning_rate": "pa1", "eta0": 1.0}
    return _sklearn(SGDClassifier(random_state=seed, **settings), X, y, seed)


def _features(X: Array, seed: int) -> Array:
    from sklearn.kernel_approximation import RBFSampler

    sampler = RBFSampler(gamma=median_gamma(X), n_components=FEATURES, random_state=seed)
    return sampler.fit(X[:1]).transform(X)  # the draw depends on the number of inputs alone


def _sklearn(model: Any, X: Array, y: Array, seed: int) -> Array:
    Z = _features(X, seed)
    classes, y_hat = np.array([-1.0, 1.0]), np.zeros(len(y))
    for t in range(len(y)):
        if t:
            y_hat[t] = model.predict(Z[t : t + 1])[0]
        model.partial_fit(Z[t : t + 1], y[t : t + 1], classes=classes)
    return y_hat


def river_pa(X: Array, y: Array, seed: int) -> Array:
    """The same features and river's passive-aggressive classifier (PA-I, C = 1), its defaults."""
    from river import linear_model

    Z, model = _features(X, seed), linear_model.PAClassifier()
    y_hat = np.zeros(len(y))
    for t in range(len(y)):
        row: dict[Any, float] = dict(enumerate(Z[t].tolist()))
        if t:
            y_hat[t] = 1.0 if model.predict_one(row) else -1.0
        model.learn_one(row, bool(y[t] > 0))
    return y_hat


PEERS: dict[str, tuple[str, str, Callable[[Array, Array, int], Array]]] = {
    "sklearn_sgd": ("scikit-learn RBFSampler + SGDClassifier", "sklearn", sklearn_sgd),
    "sklearn_pa": ("scikit-learn RBFSampler + passive-aggressive", "sklearn", sklearn_pa),
    "river_pa": ("river PAClassifier on the same features", "river", river_pa),
}


def title(name: str) -> str:
    return PEERS[name][0]


def missing(name: str) -> str | None:
    """Why a peer cannot run here, None where it can."""
    try:
        importlib.import_module(PEERS[name][1])
    except ImportError:
        return f"{PEERS[name][1]} is not installed: in the checkout, pip install -e '.[bench]'"
    return None


BEST = f"{ONLINE_LEARNER}, chosen in hindsight"
CONSTANT = "most frequent class in hindsight"
HINDSIGHT = (BEST, CONSTANT)


class Line(NamedTuple):
    """Error rates of a row on a data set, on permutations 0, 1, .., and seconds of one."""

    row: str
    dataset: str
    rates: Sequence[float]
    seconds: float

    @property
    def mean(self) -> float:
        return mean_and_deviation(np.array(self.rates))[0]

    @property
    def std(self) -> float | None:
        return mean_and_deviation(np.array(self.rates))[1]

    @property
    def numbers(self) -> list[str | float | int | None]:
        """Its line of the CSV file."""
        return [self.row, self.dataset, self.mean, self.std, len(self.rates), self.seconds]


def command(spec: Mapping[str, Any], outputs: Path, page: Path | None = None) -> int:
    """Run what a comparison needs and write its tables; 0 if every run succeeded.

    ``spec`` is what the file of a comparison says. The tables go to OUTPUTS/tables, or with
    their figures into the folder ``page``.
    """
    started = time.perf_counter()
    configured = _configurations(outputs)
    there: list[Mapping[str, Any]] = []
    constants: list[Line] = []
    for described in spec["datasets"]:
        try:
            constants.append(_constant_line(spec, described, configured))
            there.append(described)
        except DataError as error:
            print(f"{_shown(described)}: left out: {error}", flush=True)
    ours = _our_runs(spec, there, outputs)
    peers = _peer_lines(spec, there, configured, outputs)
    lines: list[Line] = []
    bounds: list[list[str]] = []
    further: list[list[str]] = []
    runs: list[Run] = []
    for i, described in enumerate(there):
        shown = _shown(described)
        for k, item in enumerate(spec["algorithms"]):
            run = ours.get((i, k))
            if run is None:
                continue
            runs.append(run)
            name, result = naming.name_of(run), run.result
            lines += _our_lines(spec, item, run, shown)
            if result.get("bound", {}).get("value") is not None:
                bounds.append(_bound_line(name, shown, result))
            further += _further_lines(name, shown, result)
        lines += [constants[i], *peers[i]]
    if not lines:
        print(f"{spec['name']}: no data set of it could be read, so there is no table")
        return 1
    folder = page or outputs / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    titles = {d["dataset"]: d.get("label", d["dataset"]) for d in spec["datasets"]}
    drawn = _draw(runs, folder, spec["name"], titles)
    text = _document(spec, lines, bounds, further, drawn)
    headings = ["row", "dataset", "error_rate", "std", "permutations", "seconds_a_permutation"]
    write_atomically(folder / f"{spec['name']}.md", text)
    numbers = [line.numbers for line in lines]
    write_atomically(folder / f"{spec['name']}.csv", csv_text([headings, *numbers]))
    print(f"\n{text}\nthis call took {time.perf_counter() - started:.0f} s")
    print(f"tables   {folder}/{spec['name']}.md, {spec['name']}.csv")
    print(f"plots    {', '.join(path.name for path in drawn)}")
    return 0 if len(runs) == len(spec["datasets"]) * len(spec["algorithms"]) else 1


def _shown(described: Mapping[str, Any]) -> str:
    return str(described.get("label", described["dataset"]))


def _our_lines(
    spec: Mapping[str, Any], item: Mapping[str, Any], run: Run, shown: str
) -> list[Line]:
    """A run's own line and, where its classifiers are Perceptrons, that of the best of them."""
    result = run.result
    seconds = float(np.mean(result["seconds_per_seed"]))
    lines = [Line(naming.name_of(run), shown, result["error_rate"], seconds)]
    if item["algorithm"] == spec.get("best_kernel_of"):
        of_seeds = run.curves["updates"].min(axis=1) / result["n_rounds"]
        lines.append(Line(BEST, shown, of_seeds, seconds))
    return lines


def _draw(runs: list[Run], folder: Path, name: str, titles: Mapping[str, str]) -> list[Path]:
    # Here: the processes of the peers import this module, and draw nothing.

    drawn = sweep_figures.summary(runs, folder, f"{name}_errors", ("png",), titles)
    return drawn + sweep_figures.bounds(runs, folder, f"{name}_bounds", ("png",))


Configured = Callable[[list[str]], dict[str, Any]]


def _our_runs(
    spec: Mapping[str, Any], there: Sequence[Mapping[str, Any]], outputs: Path
) -> dict[tuple[int, int], Run]:
    """The finished runs of our learners, by the numbers of data set and algorithm."""
    jobs = {
        (i, k): _our_job(spec, described, item, outputs)
        for i, described in enumerate(there)
        for k, item in enumerate(spec["algorithms"])
    }
    places, runs = list(jobs), {}
    for number, ended in queue.side_by_side(list(jobs.values())):
        i, k = places[number]
        named = f"{spec['algorithms'][k]['algorithm']} on {there[i]['dataset']}"
        result = ended.run.result
        if ended.status == "failed":
            print(f"{named}: failed: {result['error']['message']}", flush=True)
            continue
        how = "reused" if ended.status == "reused" else f"{result['seconds']:.1f} s"
        print(f"{named}: {console.loss_text(result)} ({how})", flush=True)
        runs[i, k] = ended.run.held()  # another call may compute it anew meanwhile
    return runs


def _our_job(
    spec: Mapping[str, Any], described: Mapping[str, Any], item: Mapping[str, Any], outputs: Path
) -> list[str]:
    typed, dataset = item["algorithm"], described["dataset"]
    common = [*spec["overrides"], *described.get("overrides", ()), *item.get("overrides", ())]
    chosen = [f"algorithm={typed}", f"dataset={dataset}", f"seeds={spec['seeds']}"]
    return _latest([*chosen, *common], outputs)


def _latest(overrides: Sequence[str], outputs: Path) -> list[str]:
    """What a job is composed of: of overrides the last of each key counts."""
    latest = {text.partition("=")[0]: text for text in overrides}
    return [*latest.values(), "tracking=none", "figures=false", f"outputs={outputs}"]


def _configurations(outputs: Path) -> Configured:
    """What makes a job's configuration of its overrides."""
    # Here: the processes of the peers import this module, and compose nothing.
    from omkl.config.compose import Composer

    compositions = Composer()
    return lambda overrides: compositions.compose(_latest(overrides, outputs))


def _constant_line(
    spec: Mapping[str, Any], described: Mapping[str, Any], configured: Configured
) -> Line:
    """Errors of always saying the class that is the most frequent in hindsight."""
    common = _common_settings(spec, described, configured)
    rates = []
    seeds = list(range(spec["seeds"]))
    for stream in open_streams(common.dataset, common.stream.options, seeds):
        y = np.concatenate([y for _, y in stream.blocks(1024)])
        rates.append(float(min(np.mean(y > 0), np.mean(y < 0))))
    return Line(CONSTANT, _shown(described), rates, 0.0)


def _common_settings(
    spec: Mapping[str, Any], described: Mapping[str, Any], configured: Configured
) -> Settings:
    """What all runs on a data set have in common, the first learner standing for all."""
    overrides = [
        f"dataset={described['dataset']}", f"algorithm={spec['algorithms'][0]['algorithm']}",
        *spec["overrides"], *described.get("overrides", ()),
    ]  # fmt: skip
    return settings.read(configured(overrides))


def _peer_lines(
    spec: Mapping[str, Any],
    there: Sequence[Mapping[str, Any]],
    configured: Configured,
    outputs: Path,
) -> list[list[Line]]:
    """The lines of peers, a list a data set; what is not kept is computed on all cores.

    Peers hold the interpreter's lock, so they run in processes.
    """
    peers, seeds = [], range(spec["peer_seeds"])
    for name in spec["peers"]:
        if reason := missing(name):
            print(f"{name}: left out: {reason}", flush=True)
        else:
            peers.append(name)
    common = [_common_settings(spec, described, configured) for described in there]
    jobs = {
        (i, name, seed): (common[i], name, outputs / "peers", seed)
        for i, name, seed in itertools.product(range(len(there)), peers, seeds)
    }
    results = {key: _kept_outcome(*job) for key, job in jobs.items()}
    if waiting := [key for key in jobs if results[key] is None]:
        with worker_processes() as pool:
            futures = [pool.submit(_outcome_of_peer, *jobs[key]) for key in waiting]
            results.update(zip(waiting, [future.result() for future in futures], strict=True))
    lines: list[list[Line]] = [[] for _ in there]
    for (i, described), name in itertools.product(enumerate(there), peers):
        of_seeds = [one for seed in seeds if (one := results[i, name, seed])]
        seconds = float(np.mean([f["seconds"] for f in of_seeds]))
        rates = [float(f["mistakes"] / f["rounds"]) for f in of_seeds]
        line = Line(title(name), _shown(described), rates, seconds)
        lines[i].append(line)
        text = f"{name} on {described['dataset']}: errors {100 * line.mean:.2f}"
        spread = "" if line.std is None else f" ± {100 * line.std:.2f}"
        print(f"{text}{spread} % ({seconds:.1f} s each)")
    return lines


def _stream_of_peer(common: Settings, name: str, seed: int) -> tuple[Stream, str]:
    """The rows that a peer sees, and what its outcome on them is kept for."""
    stream = open_stream(common.dataset, common.stream.options, seed=seed)
    identity = {
        "peer": name, "seed": seed, "stream": stream.provenance,
        "version": importlib.import_module(PEERS[name][1]).__version__,
        "source": Path(__file__).read_text(encoding="utf-8"),
    }  # fmt: skip
    return stream, run_folder.settings_sha256(identity)


def _kept_outcome(common: Settings, name: str, folder: Path, seed: int) -> Arrays | None:
    _, identity = _stream_of_peer(common, name, seed)
    return cached_arrays.read(folder / cached_arrays.name_of(identity), identity)


def _outcome_of_peer(common: Settings, name: str, folder: Path, seed: int) -> Arrays:
    """Mistakes, rounds and seconds of a peer on a stream, computed where they are not kept."""
    stream, identity = _stream_of_peer(common, name, seed)

    def make() -> Arrays:
        X, y = (np.concatenate(arrays) for arrays in zip(*stream.blocks(1024), strict=True))
        before = time.perf_counter()
        with one_thread_each():
            y_hat = PEERS[name][2](X, y, seed)
        seconds = time.perf_counter() - before
        numbers = {"mistakes": mistaken(y_hat, y).sum(), "rounds": len(y), "seconds": seconds}
        return {name: np.array(number) for name, number in numbers.items()}

    return cached_arrays.load_or_make(folder, identity, make)


# --- the page -------------------------------------------------------------------------------------


def _bound_line(name: str, dataset: str, result: Mapping[str, Any]) -> list[str]:
    """Mistakes of a run beside what its theorem allows."""
    bound = result["bound"]
    mistakes = result["mistakes"]
    mean, std = mean_and_deviation(np.array(mistakes))
    most = f"{mean:.1f} ± {std:.1f}, at most {max(mistakes)}" if std is not None else f"{mean:.0f}"
    low, high = bound["minimum"]
    return [
        name, dataset, str(result["n_rounds"]), most, theorem_text(bound), f"{bound['value']:.1f}",
        f"{low:.1f} to {high:.1f}",
    ]  # fmt: skip


def _further_lines(name: str, dataset: str, result: Mapping[str, Any]) -> list[list[str]]:
    """Corollaries, and bounds on the number of updates, of a run."""
    lines = []
    for further in result.get("bound", {}).get("further", ()):
        if further["value"] is None:
            continue
        if further["of"] == "updates":
            measured = f"{further['measured']:.1f} updates"
        elif "beta" in further:
            measured = f"mistakes with beta = {further['beta']:.3f}, in hindsight"
        else:
            measured = f"{np.mean(result['mistakes']):.1f} mistakes"
        rounds, value = str(result["n_rounds"]), f"{further['value']:.1f}"
        lines.append([name, dataset, rounds, measured, further["name"], value])
    return lines


def _document(
    spec: Mapping[str, Any],
    lines: Sequence[Line],
    bounds: Sequence[Sequence[str]],
    further: Sequence[Sequence[str]],
    drawn: Sequence[Path],
) -> str:
    """The whole page; ``bounds`` and ``further`` are lines of their tables."""
    columns = list(dict.fromkeys(line.dataset for line in lines))
    rows = list(dict.fromkeys(line.row for line in lines))
    cells = {(line.row, line.dataset): line for line in lines}
    parts = [
        f"# {spec['title']}", "",
        f"From `omkl-report run {spec['name']}`. Errors in per cent of one pass, mean ± std over "
        f"{spec['seeds']} permutations (peers: the first {spec['peer_seeds']}). Bold: the lowest, "
        "and what does not differ from it (paired t over permutations, Holm, "
        f"{stats.LEVEL:.0%}); what is chosen in hindsight, after each permutation, takes no part.",
        "", _errors(cells, rows, columns), "",
    ]  # fmt: skip
    if bounds:
        headings = ["", "data set", "rounds", "mistakes", "by", "bound", "minimum in hindsight"]
        below = sum(float(line[5]) < float(line[2]) for line in bounds)
        parts += [
            "Mistakes beside what the theorems allow, the means for those that draw. A bound says "
            f"something only below the number of rounds: {below} of these {len(bounds)}. Theorems "
            "5 and 10 are taken as stated, which is less than their proofs give: docs/errata.md.",
            "", markdown_table(headings, bounds, left=2), "",
        ]  # fmt: skip
    if further:
        headings = ["", "data set", "rounds", "of", "by", "at most"]
        parts += [
            "Corollaries, and what theorems 6 and 7 imply for the updates of all kernels. "
            "Corollary 4 is about a beta that is known in hindsight; corollary 9 has the batch "
            "problem (1) in place of the minimum of theorem 8: the same, says theorem 1.", "",
            markdown_table(headings, further, left=2), "",
        ]  # fmt: skip
    seconds = [
        [row, *(f"{cells[row, c].seconds:.3g}" if (row, c) in cells else "" for c in columns)]
        for row in rows
        if row not in HINDSIGHT
    ]
    parts += ["Seconds a permutation on one thread, as many at a time as there are cores.", ""]
    parts += [markdown_table(["", *columns], seconds, left=1), ""]
    parts += [f"![{path.stem}]({path.name})\n" for path in drawn]
    return "\n".join(parts)


def _errors(
    cells: Mapping[tuple[str, str], Line], rows: Sequence[str], columns: Sequence[str]
) -> str:
    """The table of errors, where bold is what a star is in other tables (``stars``)."""
    best = {(row, column) for column in columns for row in _starred(cells, rows, column)}

    def text(row: str, column: str) -> str | Cell:
        line = cells.get((row, column))
        if line is None:
            return ""
        spread = "" if line.std is None else f" ± {100 * line.std:.2f}"
        return Cell(f"{100 * line.mean:.2f}{spread}", bold=(row, column) in best)

    body = [[row, *(text(row, column) for column in columns)] for row in rows]
    return markdown_table(["", *columns], body, left=1)


def _starred(cells: Mapping[tuple[str, str], Line], rows: Sequence[str], column: str) -> list[str]:
    """Rows that share the star of a data set: of all that is not chosen in hindsight."""
    candidates = [row for row in rows if (row, column) in cells and row not in HINDSIGHT]
    if not candidates:
        return []
    rates = [cells[row, column].rates for row in candidates]
    scores = np.full((max(map(len, rates)), len(candidates)), np.nan)
    for place, of_row in enumerate(rates):
        scores[: len(of_row), place] = of_row
    starred = stats.same_as_best(scores).starred
    return [row for row, star in zip(candidates, starred, strict=True) if star]
