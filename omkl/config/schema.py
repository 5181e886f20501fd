"""The schema of a configuration: what each setting may be.

``check`` looks at a composed configuration before anything is opened, and ``omkl.config.settings``
makes typed settings of what passes. ``omkl.datasets.schema`` has the settings of a data set, and
the annotations of ``Params`` have those of an algorithm (``omkl.core.hyperparameters``). What
settings are for is in ``omkl.config.reference``, which a prompt can read without NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omkl.core.frequencies import FEATURES
from omkl.datasets.base import checked_name
from omkl.datasets.schema import STREAM, TASKS, check_dataset
from omkl.federated.exchange import GRAPHS
from omkl.federated.privacy import UNITS
from omkl.federated.split import SCHEMES
from omkl.utils.constraints import (
    MAPPING,
    SHARE,
    SWITCH,
    Constraint,
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

MOST_LAM = 1e100  # times the rounds it stays far from where numbers end
MOST_EPSILON = 1e6  # far above what hides anything; the accountant's arithmetic holds to there
DEEPEST, MOST_BITS = 20, 4096  # of a configuration: levels, and bits of a whole number in it

GROUPS = ("algorithm", "dataset", "kernels", "federation")
NAME = Constraint(lambda value: isinstance(value, str), "a name")
SIZE = Constraint(
    lambda value: is_number(value) and 0 < value <= 1e100, "a number above 0 up to 1e100"
)
EPSILON = Constraint(
    lambda value: is_number(value) and 1e-3 <= value <= MOST_EPSILON,
    f"a number from 0.001 to {MOST_EPSILON:,.0f}",
)
DELTA = Constraint(
    lambda value: is_number(value) and 1e-100 <= value < 1, "a number of 1e-100 up to 1"
)


# The settings of conf/config.yaml, in its order; below a section their keys are section.key.
# Bounds leave what can be meant: omkl.experiment.memory looks at what they take together.
SETTINGS: dict[str, Constraint] = {
    "task": or_null(one_of(*TASKS)),
    "D": or_null(whole(1, 10**6)),
    "features": one_of(*FEATURES),
    "seeds": whole(1, 10_000),
    "seed": whole(0, 2**63 - 1),
    "interval": or_null(SHARE),
    "interval_rate": or_null(SHARE),
    "clients": or_null(whole(1, 100_000)),
    "max_upload": or_null(whole(1, 10**7)),
    "clients_per_round": or_null(whole(1, 100_000)),
    "robust.max_change": or_null(SIZE),
    "robust.max_loss": or_null(SIZE),
    "robust.trim": number(0, 0.5),
    "privacy.epsilon": or_null(EPSILON),
    "privacy.delta": DELTA,
    "privacy.unit": one_of(*UNITS),
    "privacy.clip": SIZE,
    "privacy.clip_losses": SIZE,
    "exchange.graph": or_null(one_of(*GRAPHS)),
    "exchange.edges": SHARE,
    "exchange.every": whole(1, 10**6),
    "exchange.bits": or_null(whole(2, 32)),
    "stream.limit": STREAM["limit"],
    "stream.scaling": or_null(STREAM["scaling"]),
    "stream.lags": STREAM["lags"],
    "stream.delay": STREAM["delay"],
    "stream.horizon": STREAM["horizon"],
    "stream.order": or_null(STREAM["order"]),
    "regret.ridge_features": SWITCH,
    "regret.kernel_ridge": SWITCH,
    "regret.lam": number(0, MOST_LAM),
    "threads": or_null(whole(1, 1_024)),
    "block": or_null(whole(1, 10**6)),
    "outputs": word_of("the folder that results go to"),
    "figures": Constraint(lambda x: isinstance(x, bool) or x == "pdf", "true, false or pdf"),
    "predictions": or_null(SWITCH),
    "model": SWITCH,
    "tracking": one_of("auto", "mlflow", "none"),
    "force": SWITCH,
    "fail_fast": SWITCH,
}

BY_SITE = {"home": whole(1), "away": whole(0)}


def constraints(section: str = "") -> dict[str, Constraint]:
    """Those of a section by key, or of the settings that are in none."""
    parted = [(key.rpartition("."), rule) for key, rule in SETTINGS.items()]
    return {key: rule for (above, _, key), rule in parted if above == section}


def sections() -> list[str]:
    """The sections with settings that all runs have in common."""
    return list(dict.fromkeys(key.partition(".")[0] for key in SETTINGS if "." in key))


def check_nameable(config: Mapping[str, Any]) -> None:
    """ValueError for what is no configuration, so that not even a failed run of it has a name."""
    parts = dict.fromkeys((*GROUPS, "stream", "regret"), MAPPING)
    check_section("", config, parts | {"outputs": SETTINGS["outputs"]})
    for key, value in _leaves(config):
        if not isinstance(value, bool | int | float | str | None):
            raise ValueError(f"{key}={shown(value)} is no text, number, switch, list or mapping")
        if isinstance(value, int) and value.bit_length() > MOST_BITS:
            raise ValueError(f"{key} is a whole number of more than {MOST_BITS:,} bits")
    if refusal := NAME.refusal("algorithm.name", config["algorithm"].get("name")):
        raise ValueError(refusal)
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
    """ValueError that names the first setting that cannot be, and what it may be.

    An algorithm's parameters are checked when its learner is made.
    """
    check_nameable(config)
    checked_name("dataset.name", config["dataset"]["name"])
    for key, value in _leaves(config):
        for text in (key, value):
            if isinstance(text, str) and not is_writable(text):
                raise ValueError(f"{shown(key)}={shown(value)} holds what no file can")
    check_section("", config, constraints())
    if refusal := or_null(NAME).refusal("kernels.name", config["kernels"].get("name")):
        raise ValueError(refusal)
    for section in sections():
        check_section(section, config.get(section), constraints(section))
    check_dataset(config["dataset"])
    if config["dataset"].get("task") is None:
        raise ValueError(f"dataset.task is missing; it is {one_of(*TASKS).words}")
    if config["seed"] + config["seeds"] > 2**63:
        raise ValueError(f"seed={config['seed']} is too large: seeds are below 2^63")
    federation = config["federation"]
    scheme = one_of("none", *SCHEMES)
    if refusal := scheme.refusal("federation.name", federation.get("name")):
        raise ValueError(refusal)
    if federation["name"] == "none":
        return
    allowed = {"name": scheme, "rounds": or_null(whole(2))}
    allowed |= BY_SITE if federation["name"] == "by_site" else {}
    check_section("federation", federation, allowed)
