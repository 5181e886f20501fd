"""Define variants of the papers' algorithms, outside the package.

as_released           algorithms of the JMLR paper as in its authors' code
mkl_active_learning   algorithms of the active-learning paper, rebuilt from related public code
em_kofl_counts        eM-KOFL with the rule in its authors' code
logistic              classifiers with the logistic loss, which (as1) of the JMLR paper allows
recovered             algorithms with settings that a search found, to match published numbers

``declare`` registers all variants. On the command line name one module:

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
    """Register all variants in this process."""
    for module in MODULES:
        registry.declare_all(module)
