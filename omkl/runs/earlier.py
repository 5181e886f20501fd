"""What earlier starts have left in place of a run: a finished result, or something else."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from omkl import disk
from omkl.runs import folder as run_folder
from omkl.runs.folder import Run
from omkl.runs.provenance import settings_sha256, sha256_by_name
from omkl.runs.writing import folder_of

_DIGITS_BEFORE = 8  # of the keys in the first names of folders


class Earlier(NamedTuple):
    """The finished run of these very settings, if there is one, and what the user should know."""

    run: Run | None
    notes: list[str]


def find(config: Mapping[str, Any]) -> Earlier:
    """Look for the run of a resolved configuration; what killed processes left there is removed.

    What is damaged, or of other settings, is told and not believed. The folder of an earlier
    version, whose name had a shorter key, is renamed.
    """
    folder = folder_of(config)
    disk.remove_leftovers(folder)
    notes = _upgrade(folder, config)
    run = Run(folder)
    try:
        problem = run.problem
    except (FileNotFoundError, NotADirectoryError):
        return Earlier(None, notes)
    if problem is not None:
        return Earlier(None, [*notes, f"{folder.name} is damaged ({problem}): computed anew"])
    if not run.complete:
        return Earlier(None, notes)
    if run.result.get("settings_sha256") != settings_sha256(config):
        why = f"{folder.name} holds the results of other settings: computed anew"
        return Earlier(None, [*notes, why])
    return Earlier(run, notes)


def _upgrade(folder: Path, config: Mapping[str, Any]) -> list[str]:
    """Rename the folder that these settings had in an earlier version, if it is theirs."""
    sha256, by_name = settings_sha256(config), sha256_by_name(config)
    stem = folder.name.removesuffix(sha256[: run_folder.KEY_DIGITS])
    keys = by_name[: run_folder.KEY_DIGITS], by_name[:_DIGITS_BEFORE]
    found = [old for key in keys if (old := folder.with_name(stem + key)) != folder]
    found = [old for old in found if (old / "result.json").exists()]
    if folder.exists() or not found:
        return []
    old = found[0]
    # Another process may be at the same: who comes second finds the old name gone.
    with contextlib.suppress(FileNotFoundError), disk.alone(old):
        run = Run(old)
        if run.problem is not None:
            return [f"{old.name}, the name of an earlier version, is damaged ({run.problem}): left"]
        if settings_sha256(run.config) != sha256:
            return [f"{old.name} is of other settings, whose key then was the same: left"]
        names = {"key": sha256[: run_folder.KEY_DIGITS], "settings_sha256": sha256}
        try:
            old.rename(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return [f"{old.name} is left: another process computes {folder.name}"]
        run_folder.write_result(folder, run.content | names)
        note = f"{old.name}, the name of an earlier version, is now {folder.name}"
        if (Path(config["outputs"]) / "mlflow.db").exists():
            note += "; `omkl-report rebuild-tracking` takes the old name out of the MLflow view"
        return [note]
    return []
