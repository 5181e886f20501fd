"""A finished run as data frames; pandas is imported where one is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.runs.run_folder import Run
from omkl.runs.writing import MODEL, PREDICTIONS

if TYPE_CHECKING:
    import pandas as pd

SEEDS = "results.parquet"
# Curves of shape (R, P), see ``omkl.runs.run_folder``.
OF_EACH_SEED = ("mse", "error_rate", "labels", "regret_", "coverage_")


class Results(Mapping[str, Any]):
    """The numbers of ``result.json`` by name, and what lies beside it as data frames.

    folder        of the run
    config        its configuration
    seeds         one row a seed
    curves        one row a seed and recorded round: seed, t, mse or error_rate, labels, ...
    predictions   one row a row of the stream, and a seed where there are several
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser()
        self._run = Run(self.folder)
        try:
            problem = self._run.problem
        except FileNotFoundError:
            raise ValueError(f"{self.folder} is no run folder: there is no result.json") from None
        if problem:
            raise ValueError(f"{self.folder}: {problem}")
        if not self._run.complete:
            raise ValueError(f"{self.folder}: the run failed: {self['error']['message']}")

    def __getitem__(self, name: str) -> Any:
        return self._run.content[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._run.content)

    def __len__(self) -> int:
        return len(self._run.content)

    def __repr__(self) -> str:
        return f"<run of {self['algorithm']} on {self['dataset']} in {self.folder.as_posix()}>"

    @property
    def config(self) -> dict[str, Any]:
        return self._run.config

    @property
    def model(self) -> Path:
        """The file of the learner as the run left it; FileNotFoundError where it kept none."""
        return self._file(MODEL, "model=true")

    @cached_property
    def seeds(self) -> pd.DataFrame:
        return self._frame(SEEDS, "")

    @cached_property
    def curves(self) -> pd.DataFrame:
        import pandas as pd

        arrays = self._run.curves
        t, seeds = arrays["t"], self["seeds"]
        columns = {"seed": np.repeat(seeds, len(t)), "t": np.tile(t, len(seeds))}
        for name, array in arrays.items():
            if name.startswith(OF_EACH_SEED):
                columns[name] = array.ravel()
            elif name.startswith("baseline_"):
                columns[name] = np.tile(array, len(seeds))
        return pd.DataFrame(columns)

    @cached_property
    def predictions(self) -> pd.DataFrame:
        return self._frame(PREDICTIONS, "predictions=true")

    def _frame(self, name: str, setting: str) -> pd.DataFrame:
        import pandas as pd

        return pd.read_parquet(self._file(name, setting))

    def _file(self, name: str, setting: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            kept = f"; a run keeps it with {setting}" if setting else ""
            raise FileNotFoundError(f"{self.folder} has no {name}{kept}")
        return path
