"""What every key of a job's configuration may hold, and the check of it.

``omkl.config.settings`` makes of it what was checked; ``omkl.datasets.keys`` has the keys of a
data set, ``omkl.core.hyperparameters`` those of an algorithm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omkl.core.kinds import (
    MAPPING,
    SWITCH,
    Kind,
    check_section,
    is_number,
    is_writable,
    number,
    one_of,
    or_null,
    shown,
    whole,
    word_of,
)
from omkl.core.learner import PRECISIONS
from omkl.datasets import keys
from omkl.datasets.base import checked_name
from omkl.datasets.keys import TASKS, check_keys
from omkl.federated.privacy import UNITS
from omkl.federated.split import HOLDERS, SCHEMES

INTERVAL = ("interval", "interval_rate")
MOST_LAM = 1e100  # times the rounds it stays far from where numbers end
DEEPEST, MOST_BITS = 20, 4096  # of a configuration: levels, and bits of a whole number in it

SECTIONS = ("algorithm", "dataset", "kernels", "federation", "stream", "regret")
NAME = Kind(lambda value: isinstance(value, str), "a name")
SHARE = Kind(lambda value: is_number(value) and 0 < value < 1, "a number between 0 and 1")
SIZE = Kind(lambda value: is_number(value) and 0 < value <= 1e100, "a number above 0 up to 1e100")

# What the keys of conf/config.yaml may hold; omkl.datasets.keys says it of a data set's. Bounds
# leave what can be meant: omkl.experiment.memory looks at what they take together.
KINDS: dict[str, Kind] = {
    **dict.fromkeys(SECTIONS, MAPPING),
    "task": or_null(one_of(*TASKS)),
    "D": or_null(whole(1, 10**6)),
    "precision": one_of(*PRECISIONS),
    "seeds": whole(1, 10_000),
    "seed": whole(0, 2**63 - 1),
    "clients": or_null(whole(1, 100_000)),
    "max_upload": or_null(whole(1, 10**7)),
    "clients_per_round": or_null(whole(1, 100_000)),
    "interval": or_null(SHARE),
    "interval_rate": or_null(SHARE),
    "threads": or_null(whole(1, 1_024)),
    "block": whole(1, 10**6),
    "outputs": word_of("the folder that results go to"),
    "figures": SWITCH,
    "predictions": or_null(SWITCH),
    "model": SWITCH,
    "resume": or_null(word_of("the folder of a run with model=true")),
    "tracking": one_of("mlflow", "none"),
    "force": SWITCH,
    "fail_fast": SWITCH,
}
STREAM: dict[str, Kind] = keys.STREAM | {
    "scaling": or_null(keys.STREAM["scaling"]),
    "order": or_null(keys.STREAM["order"]),
}
REGRET: dict[str, Kind] = {
    "ridge_features": SWITCH,
    "kernel_ridge": SWITCH,
    "lam": number(0, MOST_LAM),
    "max_rounds": whole(0),
    "kernel_ridge_rounds": whole(0),
    "mistake_bound": SWITCH,
}
ROBUST: dict[str, Kind] = {
    "max_change": or_null(SIZE),
    "max_loss": or_null(SIZE),
    "trim": number(0, 0.5),
}
MOST_EPSILON = 1e6  # far above what hides anything; the accountant's arithmetic holds to there
PRIVACY: dict[str, Kind] = {
    "epsilon": or_null(
        Kind(
            lambda value: is_number(value) and 1e-3 <= value <= MOST_EPSILON,
            f"a number from 0.001 to {MOST_EPSILON:,.0f}",
        )
    ),
    "delta": Kind(
        lambda value: is_number(value) and 1e-100 <= value < 1, "a number of 1e-100 up to 1"
    ),
    "unit": one_of(*UNITS),
    "clip": SIZE,
    "clip_losses": SIZE,
}
# Sections of a federation that runs from before them lack.
EXCHANGE: dict[str, dict[str, Kind]] = {"robust": ROBUST, "privacy": PRIVACY}
BY_SITE: dict[str, Kind] = {"home": whole(1), "away": whole(0)}


def check_sections(config: Mapping[str, Any]) -> None:
    """ValueError for what is no configuration, so that not even a failed run of it has a name."""
    check_section("", config, {key: KINDS[key] for key in (*SECTIONS, "outputs")})
    for key, value in _leaves(config):
        if not isinstance(value, bool | int | float | str | None):
            raise ValueError(f"{key}={shown(value)} is no text, number, switch, list or mapping")
        if isinstance(value, int) and value.bit_length() > MOST_BITS:
            raise ValueError(f"{key} is a whole number of more than {MOST_BITS:,} bits")
    if told := NAME.refusal("algorithm.name", config["algorithm"].get("name")):
        raise ValueError(told)
    if "name" not in config["dataset"]:
        raise ValueError("dataset.name is missing; it is a name")


def _leaves(config: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """What is no mapping and no list, with its key; ValueError where a key is no text."""
    if key.count(".") > DEEPEST:
        raise ValueError(f"{key} is nested more than {DEEPEST} deep")
    if not isinstance(config, Mapping | list | tuple):
        yield key, config
        return
    pairs = config.items() if isinstance(config, Mapping) else enumerate(config)
    for name, below in pairs:
        if isinstance(config, Mapping) and not isinstance(name, str):
            raise ValueError(f"{key} has the key {shown(name)}, and keys are words")
        yield from _leaves(below, f"{key}.{name}" if key else str(name))


def check(config: Mapping[str, Any]) -> None:
    """Kinds of what belongs to no algorithm."""
    check_sections(config)
    checked_name("dataset.name", config["dataset"]["name"])
    for key, value in _leaves(config):
        for text in (key, value):
            if isinstance(text, str) and not is_writable(text):
                raise ValueError(f"{shown(key)}={shown(value)} holds what no file can")
    check_section("", config, KINDS, optional=("task", "clients_per_round", *INTERVAL))
    if told := or_null(NAME).refusal("kernels.name", config["kernels"].get("name")):
        raise ValueError(told)
    check_section("stream", config["stream"], STREAM, optional=("lags", "follow"))
    check_section("regret", config["regret"], REGRET)
    for section, kinds in EXCHANGE.items():
        if section in config:
            check_section(section, config[section], kinds)
    check_keys(config["dataset"])
    if config["dataset"].get("task") is None:
        raise ValueError(f"dataset.task is missing; it is {one_of(*TASKS).words}")
    if config["seed"] + config["seeds"] > 2**63:
        raise ValueError(f"seed={config['seed']} is too large: seeds are below 2^63")
    given = config["federation"]
    scheme = one_of("none", *SCHEMES, HOLDERS)
    if told := scheme.refusal("federation.name", given.get("name")):
        raise ValueError(told)
    if given["name"] != "none":
        kinds = {"name": scheme, "rounds": or_null(whole(2))}
        kinds |= BY_SITE if given["name"] == "by_site" else {}
        check_section("federation", given, kinds)
    if given["name"] != "none" and config["precision"] != "float64":
        raise ValueError(
            f"precision={config['precision']!r}: a federation computes in float64, which is what "
            "is sent"
        )
