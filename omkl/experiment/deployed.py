"""Define the client and server apps of a deployed Flower federation (``docs/federation-app``).

``federated.flower`` runs the rounds. All clients and the server have the same ``Terms``. This
module converts the terms to settings of ``omkl-run``. It saves the model of each client and of the
server as a file for ``omkl.load_learner``. A learner that is loaded from such a file makes the
predictions that the client or server would make in the next round. It learns further rows like
Raker: the loss of each kernel updates the parameters theta and the weight of this kernel.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import numpy as np

from omkl.config.compose import Composer
from omkl.config.settings import complete
from omkl.core.representations.random_features import whole_packs
from omkl.experiment.federation import choose_learner
from omkl.federated import flower
from omkl.federated.own_rows import DataOwner, Terms, Units
from omkl.federated.protocol import Plan
from omkl.online import model_file
from omkl.online import settings as learner_settings
from omkl.online.learner import OnlineLearner

if TYPE_CHECKING:
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp

ENDLESS = np.iinfo(np.int64).max  # rounds of a client with an unknown number of rows
NO_WEIGHT = -1e4  # logarithm of a weight of 0
OF_THE_DATA = ("dataset", "federation=", "stream", "seeds", "force")  # settings that are refused


def client_app() -> ClientApp:
    """Return the app of every client."""
    return flower.client_app(plan_of, client_model)


def server_app() -> ServerApp:
    """Return the app of the server."""
    return flower.server_app(plan_of, server_model)


def plan_of(terms: Terms) -> Plan:
    """Return the plan of a federation from its terms. Raises ValueError for a wrong setting."""
    typed = shlex.split(terms.settings)
    for word in typed:
        if word.lstrip("+~").startswith(OF_THE_DATA):
            raise ValueError(
                f"{word}: data owners have the rows, and there is one seed: leave it out"
            )
    settings = ["dataset=synthetic", "federation=iid", "seeds=1", *typed]
    made = complete(Composer().compose(settings))
    n_clients, n_rounds = made.clients, made.federation.rounds
    if n_clients is None:
        raise ValueError("how many clients? Add clients=K to the settings")
    for name, value in made.algorithm.params.items():
        if isinstance(value, str) and "T" in value and n_rounds is None:
            raise ValueError(
                f"algorithm.{name}={value} needs the number of rounds T, which nobody knows: add "
                "federation.rounds=T, or write the schedule in t"
            )
    if made.safeguards.privacy is not None:
        if terms.measured:
            raise ValueError(
                "privacy.epsilon hides nothing where clients report their squared errors, which "
                "carry no noise: set measured = false"
            )
        if n_rounds is None:
            raise ValueError("privacy.epsilon counts messages: add federation.rounds=T")
    lengths = np.full(n_clients, n_rounds or ENDLESS, dtype=np.int64)
    return choose_learner(made, n_rounds, len(terms.inputs), lengths)


# --- models --------------------------------------------------------------------------------------


def client_model(owner: DataOwner) -> bytes | None:
    """Return ``model.npz`` of a client; None for a neural network.

    The model scales rows as the client does.
    """
    plan, shared = owner.plan, owner.party.server
    own = owner.party.state._asdict()
    theta, log_w = shared.model.theta, shared.log_w
    if "log_w" in own:
        log_w = own["log_w"][0]
    elif len(shared.announced):  # the client predicts with the kernel that the server named last
        named = shared.announced[0]
        log_w = np.full(len(theta), NO_WEIGHT)
        log_w[named] = 0.0
        if "theta" in own:  # the parameters of this kernel are shared, those of others are not
            theta = own["theta"][0].copy()
            theta[named] = shared.model.theta[named]
    units = _units_of_bounds(owner.terms) if owner.terms.bounds else owner.units
    return _model(owner.terms, plan, theta, log_w, units, owner.t)


def server_model(coordinator: flower.Coordinator) -> bytes | None:
    """Return ``model.npz`` of the server; None for a neural network.

    If only clients have weights, all kernels of this model have equal weights. If the terms
    of the federation have no bounds of the inputs, the model expects standardised rows. The reason
    is that the server sees no rows, and does not know the means and deviations of the inputs.
    """
    terms, state = coordinator.terms, coordinator.server.state
    units = _units_of_bounds(terms) if terms.bounds else None
    theta, log_w = state.model.theta, state.log_w
    return _model(terms, coordinator.plan, theta, log_w, units, coordinator.t)


def _units_of_bounds(terms: Terms) -> Units:
    """Return units: means are the middles of the bounds, and deviations are their widths."""
    units = Units(terms._replace(scaling="columns", bounds={}))
    low, high = np.array([terms.bounds[name] for name in (*terms.inputs, terms.target)]).T
    middle, width = (low + high) / 2.0, high - low
    for sign in (-1.0, 1.0) * 500:  # mean and deviation of these rows are middle and width
        *x, y = middle + sign * width
        units.scale(np.array(x), y)
    return units


def _model(
    terms: Terms, plan: Plan, theta: np.ndarray, log_w: np.ndarray, units: Units | None, t: int
) -> bytes | None:
    if not plan.used:
        return None
    params, scaled = plan.settings.algorithm.params, units is not None and terms.scaling != "none"
    learner = OnlineLearner(
        learner_settings.read(
            "raker",
            inputs=terms.inputs,
            kernels=_kernels(plan),
            params={"eta": params["eta"], "lam": params.get("lam", 0.0)},
            D=plan.D,
            seed=plan.settings.seed,
            scaling="columns" if scaled else "none",
            horizon=int(plan.lengths.max()),
        )
    )
    arrays = learner.arrays()
    if units is not None and scaled:
        arrays |= units.arrays()
    model = "learner.0.state.model"
    arrays[f"{model}.theta"] = whole_packs(theta)
    arrays[f"{model}.norm2"] = np.square(theta).sum(axis=1)
    arrays["learner.0.state.log_w"] = (log_w if len(log_w) else np.zeros(len(theta))).copy()
    arrays["learner.0.t"] = np.array([t])
    return model_file.content(learner.settings, arrays)


def _kernels(plan: Plan) -> dict[str, object]:
    """Return the kernels of the plan as the content of a YAML file of ``conf/kernels``."""
    if plan.used == plan.dictionary:
        return plan.settings.placed_kernels
    parts = [{"family": k.family, "bandwidth": k.bandwidth} for k in plan.used]
    return {"name": "used", "parts": parts}
