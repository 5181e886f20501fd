"""A forged model is refused, or learns nonsense; it never crashes, hangs or ends in a traceback.

Compiled code checks no bounds, so each forged file is loaded and used in a forked process.
``OMKL_FUZZ=20000 pytest tests/online/test_forged_models.py`` tries that many files of all
algorithms together, each in a process of its own.
"""

import collections
import functools
import gc
import io
import os
import select
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import omkl
from omkl import algorithms
from omkl.online.model_file import ModelError

CASES = int(os.environ.get("OMKL_FUZZ", "420"))
LONG = "OMKL_FUZZ" in os.environ
AT_ONCE = 1 if LONG else 100  # files of a process
PATIENCE = 20.0  # seconds for one file
N_ROWS, D = 90, 2
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, D))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=N_ROWS)
WHOLE = (-1, 1, 2, 16, 17, 64, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**31), -(2**63))
REAL = (np.nan, np.inf, -np.inf, -1.0, 0.0, 3.0, 1e18, -1e18, 1e300, -1e300, 5e-324)


class Subject(NamedTuple):
    """A saved learner or panel, the function that loads it, and the one that uses it."""

    file: bytes
    load: Callable[[Path], Any]
    use: Callable[[Any], None]


def use_learner(learner: Any) -> None:
    y = np.array(learner.classes)[(Y > 0).astype(int)] if learner.classes else Y
    y = np.stack([Y] * len(learner.outputs), axis=1) if learner.outputs else y
    learner.predict(X[:3])
    learner.learn_one(X[1], y[1])
    learner.partial_fit(X[:40], y[:40])
    for x, label in zip(X[40:44], y[40:44], strict=True):
        learner.predict_one(x)
        learner.learn_one(x, label)
    if learner.settings.interval is not None:
        learner.predict_interval(X[:3])
    learner.experts(X[0])
    learner.file()


def use_panel(panel: Any) -> None:
    series = np.arange(40) % 5
    panel.predict(X[:5], series[:5])
    panel.partial_fit(X[:40], Y[:40], series)
    panel.content()


def learner_of(name: str, n: int = N_ROWS, **given: Any) -> Subject:
    y: Any = Y
    if algorithms.load(name).task == "classification" or "classes" in given:
        given = {"classes": ("no", "yes"), **given}
        y = np.array(given["classes"])[(Y > 0).astype(int)]
    if given.get("outputs"):
        y = np.stack([Y] * given["outputs"], axis=1)
    learner = omkl.learner(name, inputs=D, **given)
    use_learner(learner)  # compiles here what the forks use
    learner = omkl.learner(name, inputs=D, **given)
    for _ in range(-(-n // N_ROWS)):
        learner.partial_fit(X, y)
    for x in X[:3]:  # whose targets are still to come
        learner.predict_one(x)
    return Subject(learner.file(), omkl.load_learner, use_learner)


def panel_of(**given: Any) -> Subject:
    panel = omkl.panel(interval=0.9, **given)
    panel.partial_fit(X, Y, np.arange(N_ROWS) % 5)
    use_panel(panel)
    return Subject(panel.content(), omkl.load_panel, use_panel)


SMALL = {"kernels": "gaussian17", "D": 4}
# Each makes a subject.
SUBJECTS: dict[str, Callable[[], Subject]] = {
    "gf": lambda: learner_of("gf", interval=0.9, lags=2, **SMALL),
    "sfg": lambda: learner_of("sfg", **SMALL),
    "sfg_r": lambda: learner_of("sfg_r", **SMALL),
    "adaraker": lambda: learner_of("adaraker", **SMALL),
    "auto": lambda: learner_of("auto", 600, interval=0.9),
    "auto_classifier": lambda: learner_of("auto_classifier"),
    "panel": panel_of,
}
if LONG:
    SUBJECTS |= {
        name: functools.partial(learner_of, name, horizon=1000, **SMALL)
        for name in algorithms.names()
        if name not in SUBJECTS
    }
    SUBJECTS |= {
        "auto of three classes": lambda: learner_of("auto", 600, classes=("a", "b", "c")),
        "auto with two outputs": lambda: learner_of("auto", 600, outputs=2),
        "gf with intervals of one rate": lambda: learner_of(
            "gf", interval=0.9, interval_rate=0.01, **SMALL
        ),
        "panel of ridges": lambda: panel_of(algorithm="ridge", share_scaling=True),
    }
NAMES = list(SUBJECTS)


def forged(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The array with one number, some or all of them replaced, or of another shape or type."""
    changed = array.copy()
    values: tuple[Any, ...] = REAL if array.dtype.kind == "f" else WHOLE
    if array.dtype.kind == "b":
        return ~changed
    kind = rng.integers(10)
    if kind == 0 or not array.size:
        return np.append(changed.ravel(), changed.ravel()[:1])
    if kind == 1:
        return changed.astype(rng.choice(["float32", "int32", "int64", "float64", "uint64"]))
    if kind == 2:
        return rng.permutation(changed.ravel()).reshape(array.shape)
    value = values[rng.integers(len(values))]
    if kind == 3:
        value = rng.integers(-100, 100)
    value = np.array(value).astype(array.dtype)
    if kind == 4:
        changed[...] = value
    elif kind < 7:
        changed.flat[rng.integers(array.size)] = value
    else:
        changed.flat[[0, -1][kind % 2]] = value
    return changed


def cases_of(subject: Subject, n: int) -> Iterator[tuple[str, bytes]]:
    """Forged files, each with a description. Every other one has forged whole numbers."""
    arrays = dict(np.load(io.BytesIO(subject.file)))
    del arrays["settings"]
    whole = [name for name, array in arrays.items() if array.dtype.kind == "i"]
    rng = np.random.default_rng(n)
    settings = np.load(io.BytesIO(subject.file))["settings"]
    for k in range(n):
        names = whole if k % 2 and whole else list(arrays)
        chosen = rng.choice(names, rng.integers(1, 4))
        changes = {str(name): forged(arrays[name], rng) for name in chosen}
        file = io.BytesIO()
        np.savez(file, settings=settings, **(arrays | changes))
        told = ", ".join(f"{name} {array.dtype} {array}" for name, array in changes.items())
        yield told, file.getvalue()


def outcome(subject: Subject, path: Path, file: bytes) -> str:
    """What becomes of a file, in a word, or a traceback."""
    path.write_bytes(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            learner = subject.load(path)
        except ModelError:
            return "refused"
        except Exception:
            return traceback.format_exc()
        try:
            subject.use(learner)
        except FloatingPointError:
            return "diverges"
        except Exception:
            return traceback.format_exc()
    return "learns"


def in_forks(work: Callable[[int], str], n: int) -> Iterator[str]:
    """Outcomes of work(0), ..., work(n - 1), in forks that go on until one dies or hangs."""
    done = 0
    while done < n:
        reader, writer = os.pipe()
        with warnings.catch_warnings():  # the child starts no thread, and waits for none
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if not child:
            try:
                for k in range(done, min(n, done + AT_ONCE)):
                    os.write(writer, work(k)[-3000:].replace("\n", "\t").encode() + b"\n")
            finally:
                os._exit(0)
        os.close(writer)
        begun = b""
        while ready := select.select([reader], [], [], PATIENCE)[0]:
            if not (part := os.read(reader, 2**16)):
                break
            *lines, begun = (begun + part).split(b"\n")
            done += len(lines)
            yield from (line.decode().replace("\t", "\n") for line in lines)
        if not ready:
            os.kill(child, signal.SIGKILL)
        os.close(reader)
        if status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            done += 1
            yield f"dies of {signal.Signals(-status).name}" if ready else "hangs"


@pytest.mark.parametrize("name", NAMES)
def test_a_forged_model_is_refused_or_learns(name, tmp_path):
    subject = SUBJECTS[name]()
    with np.errstate(invalid="ignore"):
        cases = list(cases_of(subject, CASES // len(NAMES)))
    gc.freeze()
    found = in_forks(lambda k: outcome(subject, tmp_path / "model.npz", cases[k][1]), len(cases))
    outcomes = list(found)
    gc.unfreeze()
    print(name, dict(collections.Counter(word.split("\n")[0] for word in outcomes)))
    wrong = [
        f"{told[:500]}: {word}"
        for (told, _), word in zip(cases, outcomes, strict=True)
        if word not in ("refused", "diverges", "learns")
    ]
    assert not wrong, "\n".join(wrong[:5])
    assert "refused" in outcomes and "learns" in outcomes
