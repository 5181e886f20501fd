"""``omkl-run --from FOLDER``: the settings of a finished run as overrides, to be typed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omkl.runs.config_file import PROSE, flattened, override_text
from omkl.utils import conf

OPTION = "--from"
GROUPS = ("algorithm", "dataset", "kernels", "federation")
KEPT = ("model", "predictions")  # of the neutral settings: what a run leaves besides


def expanded(arguments: Sequence[str]) -> list[str]:
    """The arguments with ``--from FOLDER`` replaced by the settings of that run.

    What is typed besides counts more.

    Raises
    ------
    ValueError
        Where no folder is named, or it is no whole run folder.
    """
    left = list(arguments)
    places = [n for n, text in enumerate(left) if text.partition("=")[0] == OPTION]
    if not places:
        return left
    place = places[0]
    _, equals, folder = left.pop(place).partition("=")
    if not equals:
        if place == len(left) or left[place].startswith("-") or "=" in left[place]:
            raise ValueError(f"{OPTION} FOLDER: name the folder of a run")
        folder = left.pop(place)
    if len(places) > 1:
        raise ValueError(f"{OPTION} is given twice: a run begins from one")
    typed = {text.lstrip("+~").partition("=")[0] for text in left if not text.startswith("-")}
    return [*left[:place], *_overrides(_config_of(Path(folder).expanduser()), typed), *left[place:]]


def _config_of(folder: Path) -> Mapping[str, Any]:
    from omkl.runs.checksum import CorruptFileError
    from omkl.runs.run_folder import Run  # NumPy, which a prompt does not wait for

    run = Run(folder)
    try:
        problem = run.problem
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{OPTION} {folder}: there is no run folder") from None
    except CorruptFileError as error:
        problem = str(error)
    if problem is not None:
        raise ValueError(f"{OPTION} {folder}: the run is damaged ({problem})")
    return run.config


def _overrides(config: Mapping[str, Any], typed: set[str]) -> list[str]:
    """A choice per group and an override per setting, but for those that are typed."""
    from omkl.runs.run_folder import NEUTRAL

    config = {k: v for k, v in config.items() if k not in NEUTRAL or k in KEPT}
    of_user = "path" in config["dataset"]  # a file of the user's
    if config["federation"]["name"] == "column":  # which says how many clients there are
        config.pop("clients", None)
    overrides = []
    for group in GROUPS:
        section = config.get(group)
        if not isinstance(section, Mapping) or group in typed:
            config.pop(group, None)
            continue
        name = "file" if group == "dataset" and of_user else section.get("name")
        if name and name != "own":
            overrides.append(f"{group}={name}")
        entry = conf.entry(group, name) if name in conf.names(group) else {}
        if group == "kernels" and entry.get("parts") == section.get("parts"):
            config.pop("kernels")  # else it would be a dictionary of one's own
    for key, value in flattened(config):
        group, _, field = key.partition(".")
        described = group == "dataset" and field in PROSE
        # The group is chosen by its name; a file of the user's by what it holds.
        looked_up = (field == "name" and group in GROUPS) or (of_user and key == "dataset.sha256")
        if key not in typed and not described and not looked_up:
            overrides.append(f"++{key}={override_text(value)}")
    return overrides
