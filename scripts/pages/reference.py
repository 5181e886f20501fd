"""The reference of what is called from Python, from its docstrings."""

import omkl

ESTIMATORS = {
    "scikit-learn": ["omkl.sklearn.OnlineMKLRegressor", "omkl.sklearn.OnlineMKLClassifier"],
    "River": [
        "omkl.river.OnlineMKLRegressor",
        "omkl.river.OnlineMKLClassifier",
        "omkl.river.ActiveMKLRegressor",
    ],
}
CORE = ["omkl.core.conformal.Conformal", "omkl.algorithms.declare"]


def pages() -> dict[str, str]:
    """The Markdown of the pages, for mkdocstrings, by their places."""
    functions = sorted((name for name in omkl.__all__), key=lambda name: (name[0].isupper(), name))
    found = {"reference/omkl.md": _page("omkl", [f"omkl.api.{name}" for name in functions])}
    for title, names in ESTIMATORS.items():
        place = f"reference/{title.replace('-', '_').lower()}.md"
        found[place] = _page(f"Estimators for {title}", names)
    found["reference/parts.md"] = _page("Parts", CORE)
    return found


def _page(title: str, names: list[str]) -> str:
    return "\n\n".join([f"# {title}", *(f"::: {name}" for name in names)]) + "\n"
