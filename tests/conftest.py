"""Shared fixtures, and how tests run side by side (``make test``).

Compiling learners is most of a session's work, and workers share what is kept on disk. So that
nothing is compiled twice, tests that are parametrised by a learner stay together and come first,
with those of all learners whose functions are made of the same: a process has the pieces that
their code shares. All others stay together by file, files with slow tests before the rest.
"""

import collections
import contextlib
import functools
import gc
import io
import json
import os
import re
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any
from zlib import crc32

import hypothesis
import numpy as np
import pytest

from omkl.runs.run_folder import CHECKSUMS, Run
from omkl.utils import outside
from omkl.utils.disk import sha256_of

MOST_WORKERS = 4


def pytest_configure(config: pytest.Config) -> None:
    own_surroundings()
    if others := {point.package for point in outside.entry_points().values()}:
        raise pytest.UsageError(
            f"the tests are of omkl alone, and algorithms of {', '.join(sorted(others))} are "
            "installed beside it: pip uninstall these, or test in another environment"
        )
    if not os.access(config.rootpath, os.W_OK):  # somebody else's checkout
        hypothesis.settings.register_profile("no database", database=None)
        hypothesis.settings.load_profile("no database")
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None):
        # What workers inherit: threads of linear algebra that wait for a core wait busily.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def own_surroundings() -> None:
    """Take nothing from whoever starts the tests: signals, umask, locale, width, home, network.

    Processes that tests start inherit all of it. The cache of machine code stays where it is, if it
    can be written: without it every session would compile for minutes.
    """
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),  # ignored below nohup and in background jobs
        (signal.SIGTERM, signal.SIG_DFL),
    ):
        signal.signal(number, handler)
    os.umask(0o022)
    os.environ.setdefault("XDG_CACHE_HOME", cache_folder())
    if "OMKL_TEST_HOME" not in os.environ:
        os.environ["OMKL_TEST_HOME"] = tempfile.mkdtemp(prefix="omkl-home-")
    home = os.environ["OMKL_TEST_HOME"]
    nowhere = "http://127.0.0.1:9"  # the port that discards
    os.environ |= {
        "HOME": home, "TZ": "UTC", "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "COLUMNS": "80",
        "TERM": "dumb", "http_proxy": nowhere, "https_proxy": nowhere,
        "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere,
        "no_proxy": "127.0.0.1,localhost", "NO_PROXY": "127.0.0.1,localhost",
    }  # fmt: skip
    # Tests of real data find it where the caller has it; workers are asked for it by this name.
    os.environ.setdefault("OMKL_TEST_DATA", os.environ.pop("OMKL_DATA_DIR", ""))
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "LINES", "PYTHONUTF8"):
        os.environ.pop(name, None)
    time.tzset()


def read_csv(file):
    """A table whose numbers are read as omkl reads them, to the last bit, by any pandas."""
    import pandas as pd

    from omkl.datasets.read import precision

    return pd.read_csv(file, **precision())


def cache_folder() -> str:
    """The user's cache folder, or another one where that cannot be written."""
    own = Path(os.path.expanduser("~")) / ".cache"
    with contextlib.suppress(OSError):
        own.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=own):
            return str(own)
    return str(Path(tempfile.gettempdir()) / f"omkl-cache-{os.getuid()}")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and "OMKL_TEST_HOME" in os.environ:
        shutil.rmtree(os.environ.pop("OMKL_TEST_HOME"), ignore_errors=True)


@pytest.fixture(autouse=True)
def no_data(request, monkeypatch, tmp_path_factory):
    """No data folder but an empty one, unless a test is marked as one of real data."""
    from omkl.datasets import catalogue

    if request.node.get_closest_marker("real_data") is None:
        empty = tmp_path_factory.getbasetemp() / "no-data"
        empty.mkdir(exist_ok=True)
        monkeypatch.setattr(catalogue, "project_root", lambda: empty / "project")
    elif folder := os.environ["OMKL_TEST_DATA"]:
        monkeypatch.setenv("OMKL_DATA_DIR", folder)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    from omkl.utils.threads import usable_cores

    return min(usable_cores(), MOST_WORKERS)  # one more takes longer: each compiles pieces again


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A worker takes a group at a time.

    ``--dist loadgroup`` of xdist 3.8 adds the groups to the ids of tests in a way that pytest 9.2
    no longer knows: every test is then a group of its own, and each worker compiles everything.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        put_in_order(items)
    if gone := [name for name in sorted(NOT_QUICK) if not (config.rootpath / name).is_file()]:
        raise pytest.UsageError(f"NOT_QUICK of tests/conftest.py names {gone}, which are not there")
    for item in items:
        if item.nodeid.partition("::")[0] in NOT_QUICK:
            item.add_marker("slow")


def put_in_order(items: list[pytest.Item]) -> None:
    """Groups that compile first, then those with the most slow tests."""
    groups = {item.nodeid: group_of(item.nodeid) for item in items}
    n_slow: collections.Counter[str] = collections.Counter()
    for item in items:
        if slow := item.get_closest_marker("slow"):
            n_slow[groups[item.nodeid]] += slow.args[0] if slow.args else 1
    first = {group: n for n, group in reversed(list(enumerate(groups.values())))}

    def place(item: pytest.Item) -> tuple[bool, int, int]:
        group = groups[item.nodeid]
        compiles = group in families().values()
        return not compiles, 0 if compiles else -n_slow[group], first[group]

    items.sort(key=place)


# Files that take seconds as a whole, and that ``make test-quick`` leaves out.
NOT_QUICK = {
    f"tests/{name}.py"
    for name in (
        "algorithms/test_active", "algorithms/test_auto",
        "algorithms/test_paper_steps", "benchmarks/test_bench",
        "benchmarks/test_suites", "commands/test_cli", "commands/test_sweep",
        "core/test_compiled", "core/test_linalg", "core/test_no_jit",
        "experiment/test_classification", "experiment/test_fuzz", "experiment/test_kept_model",
        "federated/test_own_rows", "federated/test_runs",
        "online/test_river", "online/test_sklearn", "test_gallery", "test_tracking",
    )
}  # fmt: skip


def pytest_collection_finish() -> None:
    """Look for garbage less often: compiling makes objects by the million, few of them in cycles.

    By Python's own thresholds a tenth of a session's work is to look at objects that stay.
    """
    gc.freeze()
    gc.set_threshold(250_000, 20, 50)


def group_of(nodeid: str) -> str:
    """What a test stays together with: the family of the learner it is for, or its file."""
    file, _, test = nodeid.partition("::")
    words = re.findall(r"[\w/]+", test.partition("[")[2])
    return next((families()[word] for word in words if word in families()), file)


@functools.cache
def families() -> dict[str, str]:
    """What the functions of a learner are made of, by the learner's name."""
    from omkl import algorithms, federated

    central = {name: algorithms.load(name).representation.name for name in algorithms.names()}
    return central | dict.fromkeys(federated.names(), "federated")


def catalogued(name: str) -> dict[str, Any]:
    """The catalogue's entry of a data set; skips the test where its file is in no data folder."""
    from omkl.datasets import catalogue

    entry = catalogue.entry(name)
    if catalogue.locate(entry["file"]) is None:
        pytest.skip(f"{entry['file']} is in no data folder; runs where the data are found")
    return entry


def rows_of(
    dataset: str, order: str = "file", scaling: str = "whole", **columns
) -> tuple[np.ndarray, np.ndarray]:
    """X, y of all rows, scaled as the papers scale; the columns of the catalogue or others."""
    from omkl.datasets import open_stream

    rows = {"limit": None, "scaling": scaling, "order": order}
    stream = open_stream(catalogued(dataset) | columns, rows, seed=0)
    return next(stream.blocks(stream.n_rounds))


def change(folder: Path, arrays: dict | None = None, **result) -> Run:
    """Overwrite arrays of a run's curves.npz and entries of its result.json."""
    if arrays:
        np.savez(folder / "curves.npz", **{**Run(folder).curves, **arrays})
    if result:
        path = folder / "result.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | result))
    return seal(folder)


def configure(folder: Path, **config) -> Run:
    """Overwrite entries of a run's config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return seal(folder)


def seal(folder: Path) -> Run:
    """Write the checksums of a run folder whose files were changed."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    lines = [f"{sha256_of(path)}  {path.name}\n" for path in files if path.name != CHECKSUMS]
    (folder / CHECKSUMS).write_text("".join(lines))
    return Run(folder)


def make_run_folder(
    outputs: Path,
    algorithm: str = "raker",
    dataset: str = "airfoil",
    key: str = "00000000",
    n_rounds: int = 400,
    n_seeds: int = 3,
    level: float = 0.03,
    failed: bool = False,
    params: dict | None = None,
) -> Path:
    """A run folder in the format of ``omkl.runs.run_folder`` with invented numbers."""
    rng = np.random.default_rng(crc32(f"{algorithm} {dataset}".encode()))
    place = "failures" if failed else "runs"
    folder = outputs / place / dataset / f"{algorithm}-{key}-feedbeef"
    folder.mkdir(parents=True)
    params = params or {"eta": "0.1/sqrt(t)", "lam": 1e-3}
    given = {"name": algorithm, "lam": 0.001, **params}
    config = {"algorithm": given, "dataset": {"name": dataset}, "regret": {"lam": 0.001}}
    config |= {"D": 50, "seeds": n_seeds, "seed": 0}
    (folder / "config.json").write_text(json.dumps(config))
    base = {
        "status": "failed" if failed else "complete", "key": key, "algorithm": algorithm,
        "dataset": dataset, "kernels": "rbf51_lap25", "params": params, "commit": "abc1234",
        "started": "2026-01-01T00:00:00+00:00", "versions": {"omkl": "0.1.0", "numpy": "2.4.6"},
        "machine": {"processor": "test", "cores": 2}, "stamp": "feedbeef",
    }  # fmt: skip
    if failed:
        base["error"] = {
            "type": "ValueError",
            "message": "algorithm.M=90 is larger than N=76",
            "traceback": "Traceback (most recent call last): ...",
        }
        (folder / "result.json").write_text(json.dumps(base))
        seal(folder)
        return folder
    t = np.arange(1, n_rounds + 1)
    squared = level * rng.exponential(size=(n_seeds, n_rounds)) * (1 + 5 / np.sqrt(t))
    mse = np.cumsum(squared, axis=1) / t
    family = np.array(["gaussian"] * 51 + ["laplacian"] * 25)
    bandwidth = np.concatenate(
        [10.0 ** ((2 * np.arange(1, 52) - 52) / 25), 10.0 ** ((np.arange(1, 26) - 13) / 6)]
    )
    weights = rng.dirichlet(np.full(76, 0.3), size=n_seeds)
    usage = rng.integers(0, n_rounds, size=(n_seeds, 76))
    regret = np.cumsum(squared - 0.6 * level, axis=1)
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer, t=t, mse=mse, labels=np.tile(t, (n_seeds, 1)), regret_ridge_features=regret,
        weights=weights, usage=usage, kernel_family=family, kernel_bandwidth=bandwidth,
        change_rounds=np.array([], dtype=np.int64),
    )  # fmt: skip
    (folder / "curves.npz").write_bytes(buffer.getvalue())
    base |= {
        "stream": {"name": dataset, "target": "y", "scaling": {"kind": "whole"}},
        "n_rounds": n_rounds,
        "n_inputs": 5,
        "n_kernels": 76,
        "D": 50,
        "max_squared_error": float(squared.max()),
        "max_kernel_squared_error": float(1.2 * squared.max()),
        "max_norm": 1.0,
        "deterministic": False,
        "seeds": list(range(n_seeds)),
        "mse": mse[:, -1].tolist(),
        "mse_mean": float(mse[:, -1].mean()),
        "mse_std": float(mse[:, -1].std(ddof=1)) if n_seeds > 1 else None,
        "kernels_per_round": 76.0,
        "labels": float(n_rounds),
        "labels_per_seed": [n_rounds] * n_seeds,
        "al_efficiency": 1.0,
        "al_efficiency_std": 0.0 if n_seeds > 1 else None,
        "seconds": 0.5,
        "seconds_per_seed": [0.2] * n_seeds,
        "threads": 1,
        "regret": {
            "ridge_features": {
                "label": "best kernel in hindsight (ridge regression on its random features)",
                "mean": float(regret[:, -1].mean()),
                "std": float(regret[:, -1].std(ddof=1)) if n_seeds > 1 else None,
            },
            "kernel_ridge": {
                "label": "best kernel in hindsight (kernel ridge regression)",
                "skipped": "a kernel matrix of 40000 rows takes 12207 MiB",
            },
        },
    }
    (folder / "result.json").write_text(json.dumps(base))
    seal(folder)
    return folder


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory):
    """The tests copy this one: MLflow takes 2 s to make one."""
    pytest.importorskip("mlflow", reason="MLflow is an extra")
    from omkl.report import tracking

    outputs = tmp_path_factory.mktemp("empty")
    with tracking._client(outputs):
        pass
    return outputs / "mlflow.db"


@pytest.fixture
def run_folder_maker():
    return make_run_folder
