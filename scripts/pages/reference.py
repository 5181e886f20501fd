"""Reference of the Python functions, from their docstrings, and of data sets and dictionaries."""

from typing import Any

import omkl
from omkl.core import kernels
from omkl.datasets import catalogue
from omkl.utils import conf

ESTIMATORS = {
    "scikit-learn": [
        "omkl.sklearn.OnlineMKLRegressor",
        "omkl.sklearn.OnlineMKLClassifier",
        "omkl.sklearn.PanelMKLRegressor",
    ],
    "River": [
        "omkl.river.OnlineMKLRegressor",
        "omkl.river.OnlineMKLClassifier",
        "omkl.river.ActiveMKLRegressor",
        "omkl.river.MultiTargetMKLRegressor",
        "omkl.river.PanelMKLRegressor",
    ],
}
CORE = ["omkl.core.conformal.Conformal", "omkl.algorithms.declare", "omkl.spark.partial_fit"]


def pages() -> dict[str, str]:
    """Return the pages as Markdown for mkdocstrings, by their paths."""
    functions = sorted((name for name in omkl.__all__), key=lambda name: (name[0].isupper(), name))
    found = {"reference/omkl.md": _page("omkl", [f"omkl.api.{name}" for name in functions])}
    for title, names in ESTIMATORS.items():
        place = f"reference/{title.replace('-', '_').lower()}.md"
        found[place] = _page(f"Estimators for {title}", names)
    found["reference/parts.md"] = _page("Parts", CORE)
    found["reference/datasets.md"] = _datasets()
    found["reference/kernels.md"] = _kernels()
    return found


def _page(title: str, names: list[str]) -> str:
    return "\n\n".join([f"# {title}", *(f"::: {name}" for name in names)]) + "\n"


# --- what is configured by name -------------------------------------------------------------------


def _datasets() -> str:
    """Return the data sets of the catalogue."""
    lines = [
        "# Data sets",
        "",
        "The first column has the names for `dataset=`. omkl looks for the files in",
        "`OMKL_DATA_DIR`, `data/` and `../shared/data`, and downloads absent files.",
        "`omkl-data list` tells which are there. [Your own files](../own-files.md) need no name.",
        "",
        "| name | title | task | rows | target | licence |",
        "|---|---|---|--:|---|---|",
    ]
    for name, entry in catalogue.entries().items():
        if name != "file":
            rows = f"{entry['rows']:,}" if "rows" in entry else None
            rest = (entry.get(key) for key in ("target", "licence"))
            lines.append(_row(f"`{name}`", entry["title"], entry["task"], rows, *rest))
    return "\n".join(lines) + "\n"


def _kernels() -> str:
    """Return the dictionaries of kernels, and the families of their kernels."""
    lines = [
        "# Kernels",
        "",
        "The first column has the names for `kernels=`. In Python, a list of bandwidths, families",
        "or parts also works ([your own kernels](../data-and-kernels.md)).",
        "",
        "| dictionary | kernels | families |",
        "|---|---|---|",
    ]
    for name in conf.names("kernels"):
        dictionary = kernels.dictionary(conf.entry("kernels", name))
        families = dict.fromkeys(kernel.family for kernel in dictionary)
        lines.append(_row(f"`{name}`", len(dictionary), ", ".join(families)))
    return "\n".join(lines) + "\n"


def _row(*cells: Any) -> str:
    return f"| {' | '.join('' if cell is None else str(cell) for cell in cells)} |"
