"""Kernel classifiers on random features: the memory does not grow with the stream."""

from __future__ import annotations

from omkl.core.protocol import Algorithm, register


def on_random_features(module: str, Params: type, exact: Algorithm) -> Algorithm:
    """The steps of an exact classifier, all of whose kernels get random features."""
    return register(
        module,
        Params,
        exact.init,
        select=exact.select,
        predict=exact.predict,
        update=exact.update,
        task=exact.task,
        every_kernel=True,
    )
