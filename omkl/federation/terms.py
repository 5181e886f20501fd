"""What the server of a federation tells every client, and what follows from it.

It names the columns, their bounds where there are any, and all settings; no row of anybody.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from omkl.config import settings as experiment_settings
from omkl.config.compose import compose
from omkl.experiment.federation import choose_learner
from omkl.federated.parties import Client, Server
from omkl.federated.protocol import Plan
from omkl.federated.split import HOLDERS
from omkl.online.settings import input_names

SCALINGS = ("columns", "bounds", "none")
FORMAT = 1
WORDS = ("dataset=file", f"federation={HOLDERS}", "seeds=1")  # where clients have the files
ENDLESS = np.iinfo(np.int64).max  # rounds of a client whose rows nobody has counted


class Terms(NamedTuple):
    """What all agree on.

    identity   of this federation: no other has it, and a client of one joins no other
    config     the composed configuration
    inputs     names of the columns, in the order of x
    bounds     [low, high] by column, of the inputs and of the target; {} without
    scaling    "columns": each client standardises by what it has seen; "bounds": by those given;
               "none": rows are taken as they are
    n_rounds   T; None: until every client is done
    measured   whether clients tell their squared errors and regrets
    """

    identity: str
    config: dict[str, Any]
    inputs: tuple[str, ...]
    target: str
    bounds: dict[str, list[float]]
    scaling: str
    n_clients: int
    n_rounds: int | None
    measured: bool = True

    def text(self) -> str:
        """As JSON, which ``read_terms`` reads."""
        return json.dumps({"format": FORMAT, **self._asdict()}, allow_nan=False)


def read_terms(text: str) -> Terms:
    """The terms that a server sent; ValueError for what is none, or for settings that name code."""
    try:
        fields = json.loads(text)
        if fields.pop("format") != FORMAT:
            raise ValueError("it is another version of omkl that the server runs")
        fields["inputs"] = input_names(list(fields["inputs"]))
        terms = Terms(**fields)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"these are no terms of a federation: {error!r}") from None
    for key in _modules_in(terms.config):
        raise ValueError(
            f"the server's settings name a module ({key}), which would be imported here: a client "
            "runs nothing but omkl's own code"
        )
    return terms


def _modules_in(config: Any) -> list[str]:
    if not isinstance(config, Mapping):
        return []
    here = [f"module={value}" for key, value in config.items() if key == "module" and value]
    return here + [key for below in config.values() for key in _modules_in(below)]


def make_terms(
    overrides: Sequence[str],
    inputs: int | Sequence[str],
    target: str,
    bounds: Mapping[str, Sequence[float]] | None = None,
    scaling: str | None = None,
    measured: bool = True,
) -> Terms:
    """The terms of a new federation, from words of omkl-run: ValueError says what is missing.

    ``scaling`` None: "bounds" where they are given, else "columns".
    """
    config = compose([*overrides, *(word for word in WORDS if word not in overrides)])
    names = input_names(inputs)
    if config["clients"] is None:
        raise ValueError("how many clients? Set clients=K")
    if target in names:
        raise ValueError(f"target={target} is one of the inputs: {', '.join(names)}")
    identity = secrets.token_hex(8)
    config["dataset"] |= {
        "name": f"{HOLDERS}-{identity[:8]}",
        "title": "files of their holders",
        "path": HOLDERS,
        "target": target,
        "inputs": list(names),
    }
    limits = _checked_bounds(bounds or {}, (*names, target))
    scaling = scaling or ("bounds" if limits else "columns")
    if scaling not in SCALINGS:
        raise ValueError(f"scaling={scaling} is none of {', '.join(SCALINGS)}")
    if (scaling == "bounds") != bool(limits):
        raise ValueError(f"scaling={scaling} and bounds do not go together")
    config["stream"] |= {"scaling": "none" if scaling == "none" else "columns"}
    rounds = config["federation"]["rounds"]
    n_clients = int(config["clients"])
    terms = Terms(identity, config, names, target, limits, scaling, n_clients, rounds, measured)
    plan_of(terms)
    return terms


def _checked_bounds(
    bounds: Mapping[str, Sequence[float]], columns: Sequence[str]
) -> dict[str, list[float]]:
    if bounds and set(bounds) != set(columns):
        raise ValueError(f"bounds are of {', '.join(bounds)}; the columns are {', '.join(columns)}")
    limits = {}
    for name, pair in bounds.items():
        try:
            low, high = (float(number) for number in pair)
        except (TypeError, ValueError):
            raise ValueError(f"bounds of {name} are two numbers; got {pair!r}") from None
        if not (np.isfinite([low, high]).all() and low < high):
            raise ValueError(f"bounds of {name} are [low, high] with low < high; got {pair!r}")
        limits[name] = [low, high]
    return limits


def _require_private(terms: Terms) -> None:
    """ValueError where noise would not hide what it is to hide."""
    if terms.measured:
        raise ValueError(
            "privacy.epsilon hides nothing where clients tell their squared errors, which carry "
            "no noise: set measured=false"
        )
    if terms.n_rounds is None:
        raise ValueError(
            "privacy.epsilon needs to know how many messages there will be: set federation.rounds=T"
        )


def plan_of(terms: Terms) -> Plan:
    """What follows from the terms; ValueError names the setting that is wrong."""
    settings = experiment_settings.read(terms.config)
    values = settings.algorithm.params
    with_T = [key for key, v in values.items() if isinstance(v, str) and "T" in v]
    if with_T and terms.n_rounds is None:
        raise ValueError(
            f"algorithm.{with_T[0]}={values[with_T[0]]} needs the number of rounds T, which nobody "
            "knows: set federation.rounds=T, or write the schedule in t"
        )
    lengths = np.full(terms.n_clients, terms.n_rounds or ENDLESS, dtype=np.int64)
    chosen = choose_learner(settings, terms.n_rounds, len(terms.inputs), lengths)
    if settings.safeguards.privacy is not None:
        _require_private(terms)
    return replace(chosen, settings=chosen.settings.resolved(D=chosen.D, n_clients=terms.n_clients))


def warm_up(plan: Plan) -> None:
    """Compile, or load what was compiled, before anybody waits for an answer."""
    server, client = Server(plan, plan.settings.seed), Client(plan, plan.settings.seed, 0)
    server.receive(client.play(server.broadcast(), np.zeros(plan.n_inputs), 0.0).update)
    server.finish()
