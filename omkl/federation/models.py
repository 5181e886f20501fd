"""What a federation has learned, as a learner of the Python API: ``omkl.load_learner``.

It predicts as the party that keeps it would in the next round, and learns on by itself as Raker
does, which takes the same steps: theta of every kernel by its own loss, weights by the losses.
"""

from __future__ import annotations

import numpy as np

from omkl.core.representations.random_features import whole_packs
from omkl.federated.parties import Client, Server
from omkl.federated.protocol import Plan
from omkl.federation.rows import Units
from omkl.federation.terms import Terms
from omkl.online import model_file, settings
from omkl.online.learner import OnlineLearner

FAR = -1e4  # the logarithm of a weight that counts for nothing


def client_model(terms: Terms, plan: Plan, party: Client, units: Units, t: int) -> bytes | None:
    """``model.npz`` of a client after round t, in the units of its rows; None for a network."""
    if not plan.used:
        return None
    state, server = party.state._asdict(), party.server
    n_kernels = len(plan.used)
    theta, log_w = server.model.theta, server.log_w
    if "log_w" in state:  # its own
        log_w = state["log_w"][0]
    elif len(server.announced):  # the kernel that the server named last
        named = server.announced[0]
        log_w = np.full(n_kernels, FAR)
        log_w[named] = 0.0
        if "theta" in state:  # all but the one that the server sent are the client's own
            theta = state["theta"][0].copy()
            theta[named] = server.model.theta[named]
    return _content(terms, plan, theta, log_w, units, t)


def server_model(terms: Terms, plan: Plan, server: Server, t: int) -> bytes | None:
    """``model.npz`` of the server, which knows the clients' weights only where they send losses.

    Without them kernels count the same. Where clients scale by what they see, the model is in
    these units: inputs and target with mean 0 and deviation 1.
    """
    if not plan.used:
        return None
    units = Units(terms) if terms.scaling == "bounds" else None
    state = server.state
    return _content(terms, plan, state.model.theta, state.log_w, units, t)


def _content(
    terms: Terms,
    plan: Plan,
    theta: np.ndarray,
    log_w: np.ndarray,
    units: Units | None,
    t: int,
) -> bytes:
    algorithm = plan.settings.algorithm.params
    scaled = units is not None and terms.scaling != "none"
    made = settings.read(
        "raker",
        inputs=terms.inputs,
        kernels=_kernels(plan),
        task="regression",
        classes=None,
        params={"eta": algorithm["eta"], "lam": algorithm.get("lam", 0.0)},
        D=plan.D,
        seed=plan.settings.seed,
        scaling="columns" if scaled else "none",
        lags=0,
        horizon=terms.n_rounds,
        interval=None,
        interval_rate=None,
    )
    arrays = OnlineLearner(made).arrays()
    model = "learner.0.state.model"
    arrays[f"{model}.theta"] = whole_packs(theta)
    arrays[f"{model}.norm2"] = np.square(theta).sum(axis=1)
    arrays["learner.0.state.log_w"] = (log_w if len(log_w) else np.zeros(len(theta))).copy()
    arrays["learner.0.t"] = np.array([t])
    if scaled:
        assert units is not None
        moments = units.arrays()
        arrays |= {name: a for name, a in moments.items() if name.startswith("columns.")}
        arrays |= {n: a for n, a in moments.items() if n.startswith("labels.")}
    return model_file.content(made, arrays)


def _kernels(plan: Plan) -> dict[str, object]:
    """The kernels that were learned with, as a YAML of ``conf/kernels`` holds them."""
    if plan.used == plan.dictionary:
        return dict(plan.settings.kernels)
    families = [{"family": k.family, "bandwidth": k.bandwidth} for k in plan.used]
    return {"name": "used", "parts": families}
