"""Raker, OMKL-GF, OMKL-SFG and OMKL-SFG-R in NumPy, selection included.

All evaluated kernels are in one array operation, with the frequencies of ``draw_features`` and
draws from the same generator in the same order as omkl: predictions are the same up to rounding.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from omkl.algorithms import gf, raker, sfg
from omkl.core import feedback_graph
from omkl.core.hyperparameters import Schedule
from omkl.core.kernel_distance import Overlaps, log_overlaps, ranks
from omkl.core.kernels import Kernel


def rate(schedule: Schedule, t: int) -> float:
    return float(schedule.scale * t**schedule.power)


def normalised(log_w: np.ndarray) -> np.ndarray:
    w = np.exp(log_w - log_w.max())
    return w / w.sum()


def drawn(p: np.ndarray, u: Any) -> Any:
    """What ``Generator.choice(len(p), p=p)`` does with uniform numbers u, without its checks."""
    return np.minimum(np.searchsorted(np.cumsum(p), u, side="right"), len(p) - 1)


# --- selection: (kernels to evaluate, the probabilities that divide their steps) -----------------


class Everything:
    combined: int | None = None  # that many of the evaluated kernels predict, the first ones

    def __init__(self, params: raker.Raker.Params, kernels: Sequence[Kernel], d: int) -> None:
        self.kernels, self.q = np.arange(len(kernels)), np.ones(len(kernels))

    def select(self, t: int, log_w: np.ndarray, rng: np.random.Generator) -> tuple[Any, Any]:
        return self.kernels, self.q

    def learn(self, t: int, y_hat: float, y: float) -> None:
        pass


class BipartiteGraph(Everything):
    """OMKL-GF."""

    def __init__(self, params: gf.Params, kernels: Sequence[Kernel], d: int) -> None:
        self.params, self.N = params, len(kernels)

    def draw_graph(self, w: np.ndarray, eta_e: float, rng: np.random.Generator) -> None:
        J, M, N = self.params.J, self.params.M, self.N
        explore = eta_e ** np.arange(1, J + 1)
        which, where = np.moveaxis(rng.random((J, M, 2)), -1, 0)
        uniform = np.minimum((where * N).astype(int), N - 1)
        picks = np.where(which < explore[:, None], uniform, drawn(w, where))
        self.nodes = [np.unique(node) for node in picks]
        pi = (1 - explore)[:, None] * w + explore[:, None] / N
        self.at_least_once = -np.expm1(M * np.log1p(-pi))

    def select(self, t: int, log_w: np.ndarray, rng: np.random.Generator) -> tuple[Any, Any]:
        eta_e = rate(self.params.eta_e, t)
        w = normalised(log_w)
        if t <= self.params.freeze:
            self.draw_graph(w, eta_e, rng)
        u = np.array([w[node].sum() for node in self.nodes])
        p = (1 - eta_e) * u / u.sum() + eta_e / len(u)
        chosen = self.nodes[drawn(p, rng.random())]
        return chosen, p @ self.at_least_once[:, chosen]


class FixedGraph(Everything):
    """OMKL-SFG."""

    def __init__(self, params: sfg.Sfg.Params | sfg.SfgR.Params, kernels: Sequence[Kernel], d: int):
        self.params = params
        overlap = log_overlaps(kernels, d)
        source = Overlaps(overlap, np.diagonal(overlap))
        self.divergence = ranks(source)
        self.out = feedback_graph.dissimilarity_graph(source, params.M)
        N = len(kernels)
        self.edge = np.zeros((N, N), dtype=bool)
        self.edge[np.arange(N)[:, None], self.out] = True
        self.log_u = np.zeros(N)
        cover = feedback_graph.dominating_set(self.out)
        self.dominating = np.zeros(N)
        self.dominating[cover] = 1 / len(cover)

    def choose_node(self, t: int, xi: float, spread: np.ndarray, rng: Any) -> None:
        self.p = (1 - xi) * normalised(self.log_u) + xi * spread
        explore = t <= self.params.explore
        self.node = drawn(self.p, rng.random()) if explore else self.log_u.argmax()

    def select(self, t: int, log_w: np.ndarray, rng: np.random.Generator) -> tuple[Any, Any]:
        self.choose_node(t, rate(self.params.xi, t), self.dominating, rng)
        chosen = self.out[self.node]
        return chosen, self.p @ self.edge[:, chosen]

    def learn(self, t: int, y_hat: float, y: float) -> None:
        step = rate(self.params.eta, t) / self.p[self.node]
        self.log_u[self.node] -= step * (y_hat - y) ** 2


class RefinedGraph(FixedGraph):
    """OMKL-SFG-R, by the box of algorithm 6 (``only_undominated: false``)."""

    def select(self, t: int, log_w: np.ndarray, rng: np.random.Generator) -> tuple[Any, Any]:
        assert isinstance(self.params, sfg.SfgR.Params) and not self.params.only_undominated
        best = self.log_u >= np.partition(self.log_u, -self.params.rank)[-self.params.rank]
        members = np.flatnonzero(best)
        self.choose_node(t, rate(self.params.xi, t), best / len(members), rng)
        partner = members[self.divergence[:, members].argmax(axis=1)]
        self.combined = len(self.out[self.node])
        added = ~best & ~self.edge[partner, np.arange(len(best))]
        more = np.flatnonzero(added & (partner == self.node))
        chosen = np.concatenate([self.out[self.node], more])
        q = self.p @ self.edge[:, chosen] + np.where(added, self.p[partner], 0)[chosen]
        return chosen, q


SELECTIONS: dict[str, type[Everything]] = {
    "raker": Everything,
    "gf": BipartiteGraph,
    "sfg": FixedGraph,
    "sfg_r": RefinedGraph,
}


# --- the streams ---------------------------------------------------------------------------------


def vectorised(
    omega: np.ndarray, selection: Everything, params: Any, rng: np.random.Generator
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A run over X (T, d), y (T,) to its predictions (T,), from omega (N, d, D)."""
    N, d, D = omega.shape
    by_kernel = np.ascontiguousarray(omega.transpose(0, 2, 1))
    flat = by_kernel.reshape(N * D, d)
    everything = type(selection) is Everything

    def run(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        theta, log_w = np.zeros((N, 2 * D)), np.zeros(N)
        y_hat = np.empty(len(y))
        for t, (x, label) in enumerate(zip(X, y, strict=True), start=1):
            chosen, q = selection.select(t, log_w, rng)
            angle = (flat @ x).reshape(N, D) if everything else by_kernel[chosen] @ x
            z = np.concatenate([np.sin(angle), np.cos(angle)], axis=1) / np.sqrt(D)
            own = theta if everything else theta[chosen]
            f = np.einsum("nj,nj->n", own, z)
            n = selection.combined
            y_hat[t - 1] = normalised(log_w[chosen[:n]]) @ f[:n]
            selection.learn(t, y_hat[t - 1], label)
            error, step = f - label, rate(params.eta, t) / q
            loss = error**2 + params.lam * np.einsum("nj,nj->n", own, own)
            log_w[chosen] -= step * loss
            own *= (1 - 2 * step * params.lam)[:, None]
            own -= (2 * step * error)[:, None] * z
            if not everything:
                theta[chosen] = own
        return y_hat

    return run
