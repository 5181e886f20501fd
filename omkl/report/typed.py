"""What was typed to get a run: the settings in which it differs from the YAML files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from omkl import conf
from omkl.runs.config_file import flattened, override_text
from omkl.runs.run_folder import ERROR_RATE, NEUTRAL, Run, measure

GROUPS = ("algorithm", "dataset", "kernels", "federation")
FEATURES = 50  # D where it is null, as its comment in config.yaml says


def differences(run: Run) -> dict[str, Any]:
    """Settings by their dotted names that are others than the YAML files say.

    What config.yaml leaves open (null) counts as what its comment there says.
    """
    config = {key: value for key, value in run.config.items() if key not in NEUTRAL}
    given = conf.read(conf.main_file())
    found: dict[str, Any] = {}
    for group in GROUPS:
        chosen = config.pop(group, None)
        if isinstance(chosen, Mapping) and chosen.get("name"):
            found |= _different(chosen, _entry(group, str(chosen["name"])), f"{group}.")
    for name, value in flattened(config):
        default = _at(given, name)
        if default is None and value is not None:
            default = _left_open(run, name, value)
        if not _same(value, default):
            found[name] = value
    return found


def _left_open(run: Run, name: str, value: Any) -> Any:
    """What a setting is where config.yaml says null; ``value`` is what it came to."""
    if name == "D":
        return FEATURES
    if name == "stream.scaling":
        return "columns" if "path" in (run.config.get("dataset") or ()) else "whole"
    if name == "stream.order":
        return "shuffled" if measure(run.result) is ERROR_RATE else "file"
    return value if name == "task" else None


def _entry(group: str, name: str) -> dict[str, Any]:
    if name not in conf.names(group):  # a stranger's may be the path of another file
        return {}
    try:
        return conf.entry(group, name)
    except (LookupError, ValueError):  # of a folder beside, or another version's
        return {}


def _different(chosen: Mapping[str, Any], said: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    if not said:
        return {}
    return {
        f"{prefix}{name}": value
        for name, value in flattened(chosen)
        if name not in ("name", "module") and not _same(value, _at(said, name))
    }


def _at(tree: Any, name: str) -> Any:
    for part in name.split("."):
        tree = tree.get(part) if isinstance(tree, Mapping) else None
    return tree


def _same(value: Any, default: Any) -> bool:
    if value == default:
        return True
    try:
        return float(value) == float(default)
    except (TypeError, ValueError):
        return str(value) == str(default)


def choices(run: Run, groups: Iterable[str]) -> list[str]:
    """``kernels=rbf9``, say: what was chosen of these groups and is not the default."""
    given = conf.read(conf.main_file())
    defaults = {k: v for one in given["defaults"] if isinstance(one, dict) for k, v in one.items()}
    found = []
    for group in groups:
        section = run.config.get(group)
        name = section.get("name") if isinstance(section, Mapping) else None
        if name and name not in (defaults.get(group), "own"):
            found.append(f"{group}={name}")
    return found


def command(run: Run) -> str:
    """The command line that computes this run: from YAML files, or from its folder.

    What no YAML file has, an own file or dictionary, its folder has.
    """
    config = run.config
    dataset, kernels = (config.get(group) or {} for group in ("dataset", "kernels"))
    if "path" in dataset or kernels.get("name") == "own":
        place = run.folder.as_posix()
        file = [f"dataset.path={dataset['path']}"] if "path" in dataset else []
        return " ".join(["omkl-run", "--from", *map(shlex.quote, [place, *file])])
    chosen = [f"algorithm={run.result['algorithm']}", f"dataset={run.result['dataset']}"]
    chosen += choices(run, ("kernels", "federation"))
    more = [f"{key}={override_text(value)}" for key, value in differences(run).items()]
    return " ".join(["omkl-run", *map(shlex.quote, [*chosen, *more])])
