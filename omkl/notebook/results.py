"""Define the result of a finished run: numbers, data frames and plots.

pandas and Matplotlib are imported on first use.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.runs.run_folder import (
    ERROR_RATE,
    RESULT,
    Run,
    UnreadableRunError,
    measure,
    number_of,
    seeds_of,
)
from omkl.runs.writing import MODEL, PREDICTIONS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Beginnings of the names of curves of shape (R, P), see ``omkl.runs.run_folder``.
OF_EACH_SEED = ("mse", "error_rate", "labels", "regret_", "coverage_")


class Results(Mapping[str, Any]):
    """Result of a run: numbers of ``result.json`` by name, and other files as attributes.

    folder        folder of the run
    config        configuration
    seeds         data frame with one row per seed
    curves        data frame with one row per seed and recorded round: seed, t, mse or error_rate,
                  labels, ...
    predictions   data frame with one row per seed and row of the stream
    model         path of the saved learner
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser()
        self._run = Run(self.folder)
        try:
            _ = self._run.result, self._run.config
        except FileNotFoundError:
            raise ValueError(f"{self.folder} is no run folder: there is no {RESULT}") from None
        except UnreadableRunError as error:
            raise ValueError(f"{self.folder}: {error}") from None
        if not self._run.complete:
            raise ValueError(f"{self.folder}: the run failed: {self['error']['message']}")

    def __getitem__(self, name: str) -> Any:
        return self._run.result[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._run.result)

    def __len__(self) -> int:
        return len(self._run.result)

    def __repr__(self) -> str:
        return (
            f"<run of {self['algorithm']} on {self['dataset']}: {self._error()}, "
            f"{self['n_rounds']:,} rows, in {self.folder.as_posix()}>"
        )

    def _repr_html_(self) -> str:
        """Return a table of the errors of learner and baselines for a notebook, best first."""
        from omkl.report import naming, stats

        result = self._run.result
        key, own = stats.compared_by(result)
        errors = {naming.name_of(self._run): number_of(result.get(own))}
        errors |= {
            f"{stats.NAMES[name]} (baseline)": number_of(entry.get(key))
            for name, entry in stats.computed(result).items()
        }
        best_first = sorted(errors.items(), key=lambda item: item[1])
        lines = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{_number(key, error)}</td></tr>"
            for name, error in best_first
        )
        folder = html.escape(self.folder.as_posix())
        heading = html.escape(f"{result['dataset']}, {result['n_rounds']:,} rows")
        return (
            f"<table><thead><tr><th>{heading}</th><th>{html.escape(_HEADINGS[key])}</th></tr>"
            f"</thead><tbody>{lines}</tbody></table><small>{folder}</small>"
        )

    def _error(self) -> str:
        """Return the name and the value of the main error, as text."""
        result = self._run.result
        if measure(result) is ERROR_RATE:
            return f"error rate {_number('error_rate', number_of(result['error_rate_mean']))}"
        if "rmse" in result:
            return f"RMSE {_number('rmse', number_of(result['rmse']))}"
        return f"MSE {_number('mse', number_of(result['mse_mean']))}"

    def plot(self, name: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw one of the plots that have a single panel, and return its Axes.

        Parameters
        ----------
        name
            "mse" or "error_rate" (the running error, the default), "predictions", "coverage",
            "regret", "experts", "importance", ...
        ax
            Axes to draw into; None: new ones of ``matplotlib.pyplot``.

        Raises
        ------
        ValueError
            There is no such plot, the plot has several panels, or the run has no data for it.
        """
        from omkl.report import figures

        return figures.draw_into(self._run, name, ax)

    def plots(self) -> Plots:
        """Draw all plots of the run, and return them by name. A notebook shows them."""
        from omkl.report import figures

        return Plots(figures.figures_of(self._run))

    @property
    def config(self) -> dict[str, Any]:
        return self._run.config

    @property
    def model(self) -> Path:
        """Path of the saved learner. Raises FileNotFoundError if the run saved none."""
        return self._file(MODEL, "model=true")

    @cached_property
    def seeds(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(seeds_of(self._run.result))

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
        import pandas as pd

        return pd.read_parquet(self._file(PREDICTIONS, "predictions=true"))

    def _file(self, name: str, setting: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            raise FileNotFoundError(f"{self.folder} has no {name}; a run keeps it with {setting}")
        return path


class Plots(dict[str, "Figure"]):
    """Figures by name. A notebook shows all of them."""

    def __repr__(self) -> str:
        return f"<plots: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        return "".join(
            f'<img alt="{html.escape(name)}" src="data:image/png;base64,{_png(figure)}">'
            for name, figure in self.items()
        )


def _png(figure: Figure) -> str:
    from omkl.report import style

    buffer = io.BytesIO()
    with style.applied():
        figure.savefig(buffer, format="png", dpi=style.DPI)
    return base64.b64encode(buffer.getvalue()).decode()


_HEADINGS = {"rmse": "RMSE", "mse": "MSE", "error_rate": "error rate"}


def _number(key: str, value: float) -> str:
    return f"{100 * value:.2f} %" if key == "error_rate" else f"{value:.4g}"
