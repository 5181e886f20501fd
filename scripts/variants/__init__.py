"""Variants of the papers' learners: families of algorithms outside the package.

as_released           the JMLR paper's learners as its authors' code runs them
mkl_active_learning   the active paper's learners, rebuilt from related public code
em_kofl_counts        eM-KOFL by the rule of its authors' code
logistic              classifiers with the logistic loss that (as1) of the JMLR paper allows
recovered             learners with the readings that a search found in the published numbers

``declare`` makes their names known. From a prompt in a checkout, one family at a time:

    PYTHONPATH=scripts omkl-run algorithm.module=variants.as_released algorithm=as_released/gf
"""

from omkl.utils import registry

MODULES = tuple(
    f"variants.{name}"
    for name in ("as_released", "recovered", "mkl_active_learning", "em_kofl_counts", "logistic")
)


def names() -> list[str]:
    """Return the names of all variants."""
    return [name for module in MODULES for name in registry.names_in(module)]


def declare() -> None:
    """Make the variants known in this process."""
    for module in MODULES:
        registry.declare_all(module)
