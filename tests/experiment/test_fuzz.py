"""Settings that nobody would write: a job that fits the machine, or an error that names a key.

Never another exception, a hang or much memory. ``make fuzz`` tries thousands, others each time.
"""

import contextlib
import copy
import functools
import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omkl.config.schema import read
from omkl.datasets import DataError
from omkl.experiment import memory
from omkl.experiment import run as runner
from omkl.runs import run_folder, writing
from omkl.utils.wording import plain
from tests.compositions import mapping

CASES = int(os.environ.get("OMKL_FUZZ", "300"))
MOST_BYTES = 2 * 10**8  # of the models that are let through, which is what is tried here
QUICK_ROWS = 10**5  # of a stream that is read whole within the time of a case
BASES: tuple[tuple[str, ...], ...] = (
    ("algorithm=gf", "algorithm.M=3"),
    ("algorithm=sfg_r",),
    ("algorithm=amkl_aks",),
    ("algorithm=adaraker",),
    ("algorithm=omkl_b",),
    ("algorithm=ie_gp",),
    ("algorithm=omkc_sua_o", "task=classification"),
    ("algorithm=pof_mkl", "federation=iid", "clients=3"),
    ("algorithm=perfedavg", "federation=in_turn", "clients=3"),
    (
        "dataset=file", "dataset.target=y", "federation=by_site", "algorithm=vm_kofl", "clients=2",
        "+dataset.sites=b", "federation.home=3", "federation.away=1",
    ),
    ("dataset=file", "dataset.target=y"),
)  # fmt: skip
fuzz = settings(
    max_examples=CASES,
    derandomize="OMKL_FUZZ" not in os.environ,
    deadline=20_000,
    database=None,
    suppress_health_check=list(HealthCheck),
)

JUNK = (
    None, True, False, 0, 1, -1, 2, 3.0, 0.5, 1e-320, -1e300, float("nan"), float("inf"),
    10**3, 10**9, 2**31, 2**63, -(2**63), 10**30, 10**5000,
    "", " ", "null", "x", "é", "\ud800", "\0", "../../x", "0.1", "1e400", "1/sqrt(T)", "1/t^1e9",
    "a.csv", "callback", "none", [], [1, 2], ["a"], [None], [[]], {}, {"a": 1}, {1: 2}, {"name": 5},
    {"family": "gaussian"}, {"family": "gaussian", "bandwidth": 1e99}, object(), b"x",
)  # fmt: skip
# What could be meant, by the type of what stands there.
ALIKE: dict[type, tuple[Any, ...]] = {
    bool: (True, False),
    int: (0, 1, 2, 3, 5, 20, 50, 10**3, 10**6, 10**9),
    float: (0.0, 1e-12, 0.01, 0.5, 1.0, 2.0, 1e6, 1e99),
    str: (
        "none", "columns", "whole", "file", "shuffled", "data", "regression", "classification",
        "error", "mean", "drop", "0.5/sqrt(t)", "1/T", "gaussian", "cauchy", "laplacian",
        "polynomial", "linear", "iid", "consecutive", "column", "y", "a", "1-2", "omkl_aks", "auto",
    ),
    type(None): (True, 1, 2, 7, 0.5, "b", "columns", "none", "shuffled", "classification", [1, 2]),
}  # fmt: skip
MISSING = object()  # takes the key away
junk = st.one_of(
    st.sampled_from(JUNK), st.integers(), st.floats(), st.text(max_size=6), st.just(MISSING)
)


def alike(n: int) -> Callable[[type], Any]:
    return lambda kind: (some := ALIKE.get(kind, JUNK))[n % len(some)]


change = st.tuples(
    st.integers(0, 10**6),
    st.integers(0, 4).flatmap(lambda n: st.integers(0, 10**6).map(alike) if n else junk),
)


@functools.cache
def composed(number: int, folder: Path) -> dict[str, Any]:
    own = [] if "dataset=file" in BASES[number] else ["dataset.rows=60"]
    own += [f"++dataset.path={folder / 't.csv'}"] if not own else []
    common = ("kernels=gaussian17", "D=4", "seeds=1", "tracking=none", "figures=false")
    return mapping([*BASES[number], *own, *common, f"outputs={folder / 'out'}"])


def places(tree: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all settings, sections and lists among them."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    found = []
    for key, below in pairs:
        found.append((*above, key))
        if isinstance(below, dict | list):
            found += places(below, (*above, key))
    return found


def put(config: dict[str, Any], place: tuple[Any, ...], value: Any) -> bool:
    """Change a setting; False where an earlier change has taken its section away."""
    section: Any = config
    try:
        for key in place[:-1]:
            section = section[key]
        if callable(value):
            value = value(type(section[place[-1]]))
        if place[-1] == "rows" and type(value) is int and value <= 10**9:
            value = min(value, QUICK_ROWS)
        if value is MISSING:
            del section[place[-1]]
        else:
            section[place[-1]] = value
    except (KeyError, IndexError, TypeError):
        return False
    return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table; more than 4 GB are refused by the system while it is used."""
    before, place = Path.cwd(), tmp_path_factory.mktemp("settings")
    rows = [f"{k * k % 11},{k % 7},{k % 5}" for k in range(60)]
    (place / "t.csv").write_text("\n".join(["a,b,y", *rows, ""]))
    os.makedirs(place / "a" / "b" / "here")
    os.chdir(place / "a" / "b" / "here")  # outputs may become a relative path
    runner.prepare(read(composed(0, place))).warm_up()  # what is compiled counts for no case
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (held + 4 * 10**9, hard))
    yield place
    os.chdir(before)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@fuzz
@given(
    number=st.integers(0, len(BASES) - 1),
    changes=st.one_of(change.map(lambda one: [one]), st.lists(change, max_size=3)),
)
def test_settings(folder, number, changes):
    config = copy.deepcopy(composed(number, folder))
    known = places(config)
    chosen = [(known[n % len(known)], value) for n, value in changes]
    touched = [place for place, value in chosen if put(config, place, value)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "usable_bytes", lambda: MOST_BYTES)
        try_out(config, known, touched)


def try_out(config: dict[str, Any], known: list[Any], touched: list[Any]) -> None:
    """Prepare a job; ``touched`` are those of its ``known`` settings that were changed."""
    try:
        job = runner.prepare(read(config))
    except ValueError as error:
        if not touched:
            raise
        assert isinstance(error, DataError) or type(error) is ValueError, "a library's own"
        told = str(error)
        names = {str(key) for place in touched for key in place}
        # Or the other of two that do not fit, or what the data show: that few rows are left, say.
        names |= {".".join(map(str, place)) for place in known if len(place) > 1}
        names |= {f"{key}=" for key, *below in known if not below} | {"'y'", "rows"}
        assert any(name in told for name in names), (touched, told)
        assert len(told) < 5000 and "Traceback" not in told and told.encode(), told
        require_the_same_failure(config, told)
        return
    assert json.loads(run_folder.config_text(job.settings.content()))
    assert writing.folder_of(job.settings, "0").is_relative_to(job.settings.outputs)
    sizes = (
        job.D * len(job.dictionary),
        len(job.seeds),
        job.stream.n_inputs,
        job.stream.n_rounds or 0,
    )
    here = ("outputs",) not in touched
    if job.settings.algorithm.name == "gf" and here and np.all(np.less(sizes, (1000, 4, 50, 100))):
        job.warm_up()
        with contextlib.suppress(FloatingPointError, DataError):
            assert np.isfinite(job.compute().result["mse"]).all()


def require_the_same_failure(config: dict[str, Any], told: str) -> None:
    """A run returns what it is told, unless a setting is refused before."""
    try:
        settings = read(config)
    except ValueError as refused:
        assert str(refused) == told
    else:
        error = runner.run(settings).run.result["error"]
        assert error["message"] == plain(told) and error["traceback"] is None
