"""The run of a federation, from what its clients measured: as a job that has ended.

Its run folder has the keys of a federated run (``omkl.experiment.federation``) that do not need
anybody's rows: ``regret`` has ``clients`` alone, and there is nothing in hindsight. The mse is in
units of the target; kernels, weights and communication are as the server knows them. Curves begin
with the first round that any client has a score of. Besides: ``events``, how many messages did not
count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from omkl.core.weights import normalised
from omkl.datasets.base import RowCount
from omkl.experiment.federation import COMPARATOR, communication, over_clients
from omkl.experiment.job import Computed, Timing, kernel_curves, reported
from omkl.experiment.metrics import Recorder, label_cost
from omkl.federated.protocol import Plan
from omkl.federation.coordinator import Coordinator


class NothingMeasured(ValueError):
    """No number of a client is there that a run could be made of."""


class HeldRows(NamedTuple):
    """What is known of rows that nobody but their owners has seen."""

    n_inputs: int
    provenance: dict[str, Any]
    missing: Mapping[str, int] = MappingProxyType({})
    far_out: Mapping[str, float] = MappingProxyType({})
    target_sorted: bool = False
    row_count: RowCount | None = None


@dataclass(frozen=True, eq=False)
class HeldJob(Plan):
    """A federation of parties apart as a job of ``omkl.experiment``."""

    stream: HeldRows


def job_of(coordinator: Coordinator) -> HeldJob:
    terms, plan = coordinator.terms, coordinator.plan
    provenance = {
        "files": [],
        "holders": terms.identity,
        "target": terms.target,
        "inputs": list(terms.inputs),
        "scaling": {"kind": terms.scaling, "bounds": terms.bounds},
    }
    return HeldJob(**vars(plan), stream=HeldRows(plan.n_inputs, provenance))


def computed(coordinator: Coordinator) -> Computed:
    """The numbers of result.json and the curves of a federation that has ended."""
    job, plan, measured = job_of(coordinator), coordinator.plan, coordinator.measured()
    errors, regrets = measured.squared_error, measured.regret
    T = len(errors)
    recorder = Recorder(1)
    recorder.add(np.zeros((1, T)))
    scored = (~np.isnan(errors)).sum(axis=0)
    heard = ~np.isnan(regrets).all(axis=0)
    if not scored.any() or not heard.any():
        raise NothingMeasured("no client has measured anything")
    rounds = recorder.curve()[0]
    rounds = rounds[rounds > np.flatnonzero(~np.isnan(errors).all(axis=1))[0]]
    client_mse = np.nansum(errors, axis=0) / np.maximum(scored, 1)
    mse = np.array([client_mse[scored > 0].mean()])
    client_regret = np.where(heard, _last_known(regrets), math.nan)
    curves = {
        "t": rounds,
        "mse": _running_mse(errors)[None, rounds - 1],
        "client_mse": np.where(scored > 0, client_mse, math.nan)[None],
        "client_sent": coordinator.sent[None],
        "client_rounds": (~np.isnan(regrets)).sum(axis=0),
        "client_name": np.array(coordinator.members.names()),
        "change_rounds": np.zeros(0, dtype=np.int64),
        "client_regret": client_regret[None, -1],
        "regret_clients": client_regret[:, heard].mean(axis=1)[None, rounds - 1],
    }
    if plan.used:
        curves |= {
            "weights": _weights(coordinator)[None],
            "sent_kernels": coordinator.used[None],
            **kernel_curves(plan.used),
        }
    served = int(curves["client_rounds"].sum())
    but_the_first = (
        " but the first of each client" if coordinator.terms.scaling == "columns" else ""
    )
    fields: dict[str, Any] = {
        "n_rounds": T,
        "n_kernels": len(plan.used),
        "deterministic": False,
        "max_squared_error": float(np.nanmax(errors)),
        "max_kernel_squared_error": None,
        "max_norm": None,
        "kernels_per_round": float(len(plan.used)),
        **label_cost(mse, np.array([served]), served),
        "mse_over": f"all rounds{but_the_first}",
        "regret": {"clients": over_clients(COMPARATOR, client_regret[-1:, heard])},
        "federated": communication(
            plan,
            coordinator.server.state,
            coordinator.sent.astype(float),
            curves["client_rounds"],
            float(max(curves["client_rounds"].mean(), 1.0)),
            served,
            coordinator.server.most_numbers,
        ),
        "events": len(coordinator.server.events),
    }
    timing = Timing(measured.seconds, [measured.seconds], 1)
    return Computed(reported(job, mse, timing, **fields), curves)


def _running_mse(errors: np.ndarray) -> np.ndarray:
    """(T,) mean over the clients, of those that have a score, of each one's mean so far."""
    counts = np.cumsum(~np.isnan(errors), axis=0)
    means = np.nancumsum(errors, axis=0) / np.maximum(counts, 1)
    there = counts > 0
    return (means * there).sum(axis=1) / np.maximum(there.sum(axis=1), 1)


def _last_known(values: np.ndarray) -> np.ndarray:
    """(T, K) with the number before it in place of a NaN, 0 before the first."""
    rounds = np.where(np.isnan(values), -1, np.arange(len(values))[:, None])
    last = np.maximum.accumulate(rounds, axis=0)
    carried = np.take_along_axis(values, np.maximum(last, 0), axis=0)
    return np.where(last < 0, 0.0, carried)


def _weights(coordinator: Coordinator) -> np.ndarray:
    """(N,) as the server knows them: equal ones where clients keep theirs."""
    state = coordinator.server.state
    n_kernels = len(state.model.theta)
    weights: np.ndarray = np.full(n_kernels, 1.0 / n_kernels)
    return normalised(state.log_w) if len(state.log_w) else weights
