"""A suite: streams, learners, peers and the protocol, read from a file and checked once.

A file of conf/benchmark

    version          what its numbers mean: "omkl-bench-1"; another meaning is another version
    title, notes     prose
    task             "regression" or "classification", of streams that name none
    rows             of each stream at most so many
    seeds, peer_seeds    how many repetitions: of our learners, and of peers
    peer_seed        the first seed of peers; that of our learners is 0
    prefix           the first rows, which are learned and tuned on and score for nobody
    first_round      without a prefix: whether the first round is "counted" or "not counted"
    window, fading   of the windowed errors: rows of the sliding one, factor of the fading one
    peers_see        "scaled": inputs as our learners get them; "raw": as they are
    lags             peers are run with each of these numbers of past labels as inputs
    seconds          of a pass of a peer at most
    kernels, D       dictionary and random features per kernel of our learners
    streams          list of mappings, see ``omkl.benchmark.streams``
    learners         list of {name, algorithm, params, grid, lags, kernels, D, task}; of ``grid``,
                     values by name of a parameter, the best on the prefix is taken
    peers            names of ``omkl.benchmark.peers.PEERS``, or "module:function"
    published        list of {stream, learner, source, score: value, ...}: printed beside ours

The trivial forecasters are in every suite: mean, last and ridge of a regression; majority, last
and linear of a classification.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from omkl import algorithms
from omkl.utils import conf
from omkl.utils.constraints import SHARE, one_of, whole

TASKS = ("regression", "classification")
# What sensors do; "none" is the stream as it is. What each is: ``omkl.benchmark.streams``.
FAULTS = (
    "none", "one bad cell", "1 % bad cells", "one bad target", "1 % bad targets", "offset", "unit",
    "frozen", "times ten", "missing cells", "swapped", "zero", "spikes",
)  # fmt: skip
GROUP = "benchmark"
OURS, PEER, TRIVIAL, PUBLISHED = "ours", "peer", "trivial", "published"
# The algorithm of each, by name; of a classification one class against the rest.
TRIVIALS = {
    "regression": {"mean": "mean", "last": "last", "ridge": "ridge"},
    "classification": {"majority": "mean", "last": "last", "linear": "ridge"},
}
REFERENCE = {"regression": "ridge", "classification": "linear"}  # what errors are relative to


class BadSuite(ValueError):
    """A suite says what cannot be; the text names it."""


class Entry(NamedTuple):
    """What learns: a row of a suite's table.

    ``what`` is the name of an algorithm or of a peer, ``grid`` settings of parameters of which
    one is chosen.
    """

    name: str
    kind: str
    tasks: tuple[str, ...]
    what: str
    params: Mapping[str, Any] = {}
    grid: Sequence[Mapping[str, Any]] = ()
    lags: int = 0
    kernels: str = ""
    D: int = 1


@dataclasses.dataclass(frozen=True)
class Suite:
    """A checked suite; fields as in its file."""

    name: str
    version: str
    title: str
    task: str
    streams: list[dict[str, Any]]
    learners: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    peers: list[str] = dataclasses.field(default_factory=list)
    published: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    notes: str = ""
    rows: int = 5000
    seeds: int = 5
    peer_seeds: int = 1
    peer_seed: int = 0
    prefix: int = 0
    first_round: str = "not counted"
    window: int = 200
    fading: float = 0.99
    peers_see: str = "scaled"
    lags: list[int] = dataclasses.field(default_factory=lambda: [0])
    seconds: float = 300.0
    kernels: str = "rbf51_lap25"
    D: int = 50

    def task_of(self, stream: Mapping[str, Any]) -> str:
        return str(stream.get("task", self.task))

    @property
    def tasks(self) -> list[str]:
        """Those that it has streams of."""
        there = {self.task_of(stream) for stream in self.streams}
        return [task for task in TASKS if task in there]

    @property
    def n_unscored(self) -> int:
        """The first rounds, which count for nobody."""
        return self.prefix or int(self.first_round == "not counted")

    def seeds_of(self, entry: Entry) -> list[int]:
        """Those that an entry has to be run with, if it draws anything."""
        if entry.kind == TRIVIAL:
            return [0]
        if entry.kind == PEER:
            return list(range(self.peer_seed, self.peer_seed + self.peer_seeds))
        return list(range(self.seeds))

    def entries(self, task: str) -> list[Entry]:
        """What learns streams of a task: trivial ones, ours, peers."""
        entries = [
            Entry(name, TRIVIAL, (task,), what, kernels=self.kernels)
            for name, what in TRIVIALS[task].items()
        ]
        entries += [entry for entry in map(self._learner, self.learners) if task in entry.tasks]
        for name, lags in itertools.product(self.peers, self.lags):
            peer = name.rpartition(":")[2]
            shown = f"{peer}, {lags} lags" if lags else peer
            entries.append(Entry(shown, PEER, TASKS, name, lags=lags))
        return entries

    def _learner(self, learner: Mapping[str, Any]) -> Entry:
        what = str(learner.get("algorithm", learner["name"]))
        tasks = (algorithms.load(what).task,) if what != "auto" else TASKS
        grid = learner.get("grid") or {}
        return Entry(
            name=str(learner["name"]),
            kind=OURS,
            tasks=(learner["task"],) if "task" in learner else tasks,
            what=what,
            params=learner.get("params") or {},
            grid=[dict(zip(grid, v, strict=True)) for v in itertools.product(*grid.values())]
            if grid
            else (),
            lags=int(learner.get("lags", 0)),
            kernels=str(learner.get("kernels", self.kernels)),
            D=int(learner.get("D", self.D)),
        )

    def as_read(self) -> dict[str, Any]:
        """What ``checked`` makes this suite of."""
        return dataclasses.asdict(self)


CONSTRAINTS = {
    "task": one_of(*TASKS), "rows": whole(10), "seeds": whole(1), "peer_seeds": whole(1),
    "peer_seed": whole(0), "prefix": whole(0), "first_round": one_of("counted", "not counted"),
    "window": whole(2), "fading": SHARE, "peers_see": one_of("scaled", "raw"),
}  # fmt: skip
OF_A_LEARNER = {"name", "algorithm", "params", "grid", "lags", "kernels", "D", "task"}


def names() -> list[str]:
    """The suites of conf/benchmark."""
    return conf.names(GROUP)


def read(name: str, changed: Mapping[str, Any] | None = None) -> Suite:
    """A suite of conf/benchmark by its name, or a file of one's own by its path.

    ``changed`` are values that are typed in place of the file's. Raises BadSuite.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise BadSuite(f"there is no file {path}")
        content = {"name": path.stem} | conf.read(path)
    else:
        if name not in names():
            raise BadSuite(f"there is no suite {name}; there are: {', '.join(names())}")
        content = {"name": name} | conf.entry(GROUP, name)
    return checked(content | dict(changed or {}))


def checked(content: Mapping[str, Any]) -> Suite:
    """A suite from what its file says. Raises BadSuite, which names what is wrong."""
    fields = {field.name: field for field in dataclasses.fields(Suite)}
    if unknown := sorted(set(content) - set(fields)):
        raise BadSuite(f"a suite has no {', '.join(unknown)}; it has: {', '.join(fields)}")
    needed = ("name", "version", "title", "task", "streams")
    if missing := [name for name in needed if not content.get(name)]:
        raise BadSuite(f"a suite has to say: {', '.join(missing)}")
    streams = [*itertools.chain.from_iterable(map(_with_faults, content["streams"]))]
    suite = Suite(**{**content, "streams": streams})
    for key, rule in CONSTRAINTS.items():
        if refusal := rule.refusal(key, getattr(suite, key)):
            raise BadSuite(f"{suite.name}: {refusal}")
    if suite.peers_see == "raw" and any(suite.lags):
        raise BadSuite(f"{suite.name}: lags are standardised, so peers_see=raw has lags=[0] alone")
    _check_lists(suite)
    return suite


def _with_faults(stream: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A stream with ``faults: true`` once for each of FAULTS; any other as it is."""
    plain = {key: value for key, value in stream.items() if key != "faults"}
    if not stream.get("faults") or "name" not in stream:
        return [plain]
    return [{**plain, "name": f"{stream['name']}: {fault}", "fault": fault} for fault in FAULTS]


def _check_lists(suite: Suite) -> None:
    for stream in suite.streams:
        if not {"name", "from"} <= set(stream):
            raise BadSuite(f"{suite.name}: a stream has a name and from: {stream}")
    for learner in suite.learners:
        if "name" not in learner or set(learner) - OF_A_LEARNER:
            keys = ", ".join(sorted(OF_A_LEARNER))
            raise BadSuite(f"{suite.name}: a learner has a name, and of {keys}: {learner}")
        if learner.get("grid") and not suite.prefix:
            raise BadSuite(
                f"{suite.name}: {learner['name']} has a grid and there is no prefix to choose on"
            )
    try:
        tables = {task: [entry.name for entry in suite.entries(task)] for task in suite.tasks}
    except (ImportError, LookupError, ValueError) as error:
        raise BadSuite(f"{suite.name}: {error}") from None
    for called in ([s["name"] for s in suite.streams], *tables.values()):
        if twice := sorted({name for name in called if called.count(name) > 1}):
            raise BadSuite(f"{suite.name}: two are called {', '.join(twice)}")
