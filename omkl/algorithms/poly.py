"""POLY: online regression with one exact polynomial kernel, (x'x')^degree.

Paper    D. Sahoo, S. C. H. Hoi, B. Li, "Online Multiple Kernel Regression", KDD 2014, its
         single-kernel baseline; POLY-2 (degree 2) of Ghari and Shen, "Graph-Aided Online
         Multi-Kernel Learning", JMLR.
Task     regression; full information.
Round    1. Predict f(x_t) = sum over s < t of alpha_s (x_s'x_t)^degree.
         2. alpha_t = -eta_t (f(x_t) - y_t).
Symbols  eta     step size, > 0, a schedule in t
         degree  of the polynomial, >= 1; homogeneous, there is no constant in it
Cost     O(t d) time a round; O(T d) memory, growing with the stream.
Bound    O(sqrt(T)) against the best function of the kernel's space; bounded squared losses.
Differs  none. The dictionary (kernels=...) is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from omkl.algorithms import rbf
from omkl.algorithms.rbf import State, init, predict, select, update
from omkl.core.hyperparameters import Range, Schedule
from omkl.core.kernels import MOST_DEGREE, Kernel
from omkl.core.protocol import register
from omkl.core.representations.support_vectors import GROWING


class Params(NamedTuple):
    eta: Schedule
    degree: Annotated[int, Range(1, MOST_DEGREE)]


def kernels(params: Params, dictionary: Sequence[Kernel]) -> Sequence[Kernel]:
    return (Kernel("polynomial", float(params.degree)),)


EXPECTED_FAILURES = {
    **rbf.EXPECTED_FAILURES,
    "learns": "the check's target is no quadratic form",
}

algorithm = register(__name__, representation=GROWING, every_kernel=True, kernels=kernels)
