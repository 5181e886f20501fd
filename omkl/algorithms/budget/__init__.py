"""Kernel classifiers with a limited number of support vectors each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omkl.perceptrons import Budgeted, budgeted

if TYPE_CHECKING:
    from omkl.kernels import Kernel


def represent(params: Any, kernels: Sequence[Kernel], d: int) -> Budgeted:
    return budgeted(kernels, d, params.budget, params.drop_smallest)
