"""Kernel classifiers with a limited number of support vectors each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omkl.core.protocol import Algorithm, register
from omkl.core.representations.budgeted import Budgeted, budgeted

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


def represent(params: Any, kernels: Sequence[Kernel], d: int) -> Budgeted:
    return budgeted(kernels, d, params.budget, params.drop_smallest)


def on_budget(module: str, Params: type, exact: Algorithm) -> Algorithm:
    """The steps of an exact classifier, with ``budget`` and ``drop_smallest`` among its Params."""
    return register(
        module,
        Params,
        exact.init,
        select=exact.select,
        predict=exact.predict,
        update=exact.update,
        task=exact.task,
        represent=represent,
        deterministic=exact.deterministic,
    )
