"""What a run comes from: the key of its settings, the stamp of code and data, the machine."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from omkl.runs import run_folder, schema
from omkl.utils import outside, sources
from omkl.utils.conf import PROSE
from omkl.utils.threads import usable_cores
from omkl.utils.version import __version__

# What computes numbers or reads them from files.
COMPUTING = ("python", "numpy", "numba", "scipy", "pandas", "pyarrow", "python-calamine")


def settings_sha256(config: Mapping[str, Any]) -> str:
    """64 hex digits naming the settings that can change a number.

    Without the compiler numbers differ in their last bits, and by more in what they decide. An own
    file is named by what it holds and by the kind of it, under any name.
    """
    dataset = without_prose(config["dataset"])
    if {"path", "sha256"} <= dataset.keys():
        kind = PurePath(str(dataset["path"]).lower().removesuffix(".gz")).suffix
        dataset |= {"name": "", "path": kind}
    compiled = {} if sources.are_compiled() else {"compiled": False}
    return run_folder.settings_sha256({**config, "dataset": dataset, **compiled})


class Identity(NamedTuple):
    """What result.json calls a run: its key, names as typed, and the algorithm's parameters."""

    key: str
    settings_sha256: str
    algorithm: str
    dataset: str
    kernels: str
    params: dict[str, Any]


def identity_of(config: Mapping[str, Any]) -> Identity:
    params = dict(config["algorithm"])
    algorithm = params.pop("name")
    params.pop("module", None)
    kernels = config["kernels"].get("name", "own")
    sha256 = settings_sha256(config)
    key, dataset = sha256[: run_folder.KEY_DIGITS], config["dataset"]["name"]
    return Identity(key, sha256, algorithm, dataset, kernels, params)


def without_prose(described: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in described.items() if key not in PROSE}


@functools.cache
def sources_digest(learners: tuple[str, ...] | None = None) -> str:
    """Of all sources that can change a number; of algorithms, those that ``learners`` are made of.

    ``learners`` are modules of the package; None: every algorithm counts. The libraries that
    compute or read numbers count by their versions.
    """
    libraries = versions()
    text = (
        f"{sources.fingerprint()} compiled: {sources.are_compiled()} "
        f"{[libraries[n] for n in COMPUTING]}"
    )
    return hashlib.sha256(f"{text} {code_of(learners)}".encode()).hexdigest()


def code_of(learners: tuple[str, ...] | None = None) -> dict[str, str]:
    """Sixteen hex digits naming the sources that all runs share, and those of the learner alone.

    Unlike the stamp they say nothing of data, libraries or the machine: whoever compares runs sees
    which are of one code. ``learners`` as in ``sources_digest``.
    """
    shared = sources.files(without=(*sources.VIEWS, *sources.ALGORITHMS))
    every = sources.files(sources.ALGORITHMS)
    of_learner = every if learners is None else sources.files_of(learners)
    digests = {}
    for name, files in (("shared", shared), ("learner", of_learner)):
        digest = hashlib.sha256()
        sources.add_to(digest, files)
        digests[name] = digest.hexdigest()[: run_folder.KEY_DIGITS]
    return digests


def edited(modules: Mapping[str, str]) -> str:
    """Why a result of this process has no stamp: sources that are not as they were imported.

    ``modules`` are those outside the package that the result comes from. "" where all are.
    """
    names = [*sources.edited(), *outside.edited(modules)]
    if not names:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return (
        f"sources were edited since this process imported them ({', '.join(names[:3])}{more}): "
        "nothing of it is kept for later starts, which compute anew"
    )


def numbers_stamp(
    provenance: Mapping[str, Any],
    modules: Mapping[str, str],
    learners: tuple[str, ...] | None = None,
) -> str:
    """Sixteen hex digits naming the code and the data that a result comes from.

    ``modules`` are those outside the package and their digests; ``learners`` as in
    ``sources_digest``.
    """
    data = without_prose(provenance)
    data["files"] = [{**file, "name": None} for file in data.get("files", ())]
    named = {"provenance": data, "modules": dict(modules)}
    text = sources_digest(learners) + run_folder.settings_sha256(named)
    return hashlib.sha256(text.encode()).hexdigest()[: run_folder.KEY_DIGITS]


@functools.cache
def versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"omkl": __version__, "python": platform.python_version()}
    found |= {name: version(name) for name in (*COMPUTING[1:], "omegaconf", "hydra-core")}
    with contextlib.suppress(PackageNotFoundError):  # an extra
        found["mlflow"] = version("mlflow")
    return found


@functools.cache
def machine() -> dict[str, Any]:
    return {"processor": _processor(), "cores": usable_cores(), "system": platform.system()}


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
        return next(x.split(":", 1)[1].strip() for x in text.splitlines() if "model name" in x)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


# What of a checkout can change a run, or how it is started.
_WATCHED = ("omkl", "conf", "pyproject.toml", "requirements.lock")
CHANGES = "changes.diff"  # in a run folder: how the checkout differed from its commit
MOST_CHANGES = 2**18  # characters of it; of a longer one only the digest is kept


@functools.cache
def commit() -> str | None:
    """The checkout's commit, with a + when it has changes; None outside a checkout."""
    head = _git("describe", "--always", "--abbrev=10", "--exclude=*")
    return None if head is None else head.strip() + ("+" if changes() else "")


@functools.cache
def changes() -> str:
    """How the checkout differs from its commit, files that git does not know among it; or ""."""
    if (changed := _git("diff", "HEAD", "--", *_WATCHED)) is None:
        return ""
    new = _git("ls-files", "--others", "--exclude-standard", "--", *_WATCHED) or ""
    for name in new.splitlines():
        if name.endswith((".py", ".yaml")) and not Path(name).name.startswith("."):
            with contextlib.suppress(OSError, UnicodeError):
                text = (sources.PACKAGE.parent / name).read_text(encoding="utf-8")
                changed += f"new file {name}\n{text}"
    return changed


def _git(*arguments: str) -> str | None:
    """What git says of the checkout; None where there is none, or no git."""
    root = sources.PACKAGE.parent
    if not (root / ".git").exists():
        return None
    try:
        completed = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return completed.stdout.decode(errors="replace")


def surroundings() -> dict[str, Any]:
    """What result.json says besides of where a run comes from, to be read in a year.

    ``lock`` is the sha256 of the versions that a checkout was set up with, ``changes`` that of
    ``changes.diff``, ``machine_code`` names compiler, processor and compiled sources, and ``typed``
    is the command line. What there is none of is null.
    """
    lock = sources.PACKAGE.parent / "requirements.lock"
    program = Path(sys.argv[0]).name if sys.argv else ""
    typed = shlex.join([program, *sys.argv[1:]]) if program.startswith("omkl-") else None
    return {
        "lock": schema.sha256_of(lock.read_bytes()) if lock.is_file() else None,
        "changes": schema.sha256_of(changes()) if changes() else None,
        "machine_code": sources.fingerprint(),
        "typed": typed and "".join(c if c.isprintable() else "?" for c in typed),
    }
