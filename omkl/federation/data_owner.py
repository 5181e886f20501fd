"""A client of a federation without its network: rows, scaling, learner, and its folder.

    terms.json        what the server said; a client of this folder joins no other federation
    state.npz         after its last row: learner, scaling, and the reply that it gave
    predictions.csv   its own rows: round, number, prediction before the label, label
    model.npz         in the end, for ``omkl.load_learner`` and ``omkl-predict``

A row is learned once: asked for the same round again, by a server that was killed, the client
gives the same reply. It takes its rows in their order, one a round in which it takes part.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from omkl.federated.parties import Broadcast, Client, Refused, Update
from omkl.federation import terms as agreement
from omkl.federation.models import client_model
from omkl.federation.rows import ClientRows, Row, Units
from omkl.federation.terms import Terms
from omkl.online.stream_learner import below
from omkl.utils.disk import npz_bytes, write_atomically
from omkl.utils.wording import pluralize

TERMS, STATE, MODEL, PREDICTIONS = "terms.json", "state.npz", "model.npz", "predictions.csv"
COLUMNS = ("round", "row", "y_hat", "y")  # of the predictions


class Reply(NamedTuple):
    """What a client answers to a broadcast.

    update         None where it has no row any more
    squared_error  of its prediction, in units of its target; NaN where there were no units yet
    regret         (11) so far, in the units that it learns in; both NaN where terms are not to
                   be ``measured``
    done           whether this was its last row
    """

    update: Update | None
    squared_error: float
    regret: float
    done: bool


class DataOwner:
    """The client with these rows; ``folder`` keeps what it must not lose.

    ``tell(number, y_hat)`` is called with the prediction of a row whose label is to come.
    """

    def __init__(
        self, folder: Path, rows: ClientRows, tell: Callable[[int, float], None] | None = None
    ) -> None:
        self.folder, self.rows = folder, rows
        self.terms: Terms | None = None
        self.squared_error, self.regret, self.n_scored, self._n_lines = 0.0, 0.0, 0, 0
        self._party: Client | None = None
        self._last: tuple[int, Reply] | None = None
        self._tell = tell or _print
        self._kept = _read(folder / STATE)
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / TERMS).exists():
            self.join((folder / TERMS).read_text())

    def join(self, text: str) -> None:
        """Take the terms of a server; Refused, or a DataError, says why it does not join."""
        terms = agreement.read_terms(text)
        if self.terms is not None:
            if terms.identity != self.terms.identity:
                raise Refused(
                    f"{self.folder} is of the federation {self.terms.identity}, the server's is "
                    f"{terms.identity}: to join it, name another folder"
                )
            return
        if terms.target != self.rows.target:
            raise Refused(
                f"the federation's target is {terms.target}, this client's {self.rows.target}"
            )
        self.rows.arrange(terms.inputs)
        self._plan, self._units = agreement.plan_of(terms), Units(terms)
        agreement.warm_up(self._plan)
        self.terms = terms
        if not (self.folder / TERMS).exists():
            write_atomically(self.folder / TERMS, text)
        if self._kept:
            self._read_state(self._kept)

    def play(self, number: int, broadcast: Broadcast) -> Reply:
        """The round of ``broadcast`` as client ``number``: predict, see the label, learn."""
        if self.terms is None:
            raise Refused("no terms were agreed on")
        party = self._party_of(number)
        if self._last is not None and broadcast.t <= self._last[0]:
            if broadcast.t < self._last[0]:
                raise Refused(
                    f"round {broadcast.t} was asked for, and {self._last[0]} was played: the "
                    "server has lost what it had learned"
                )
            return self._last[1]
        row = self.rows.row()
        if row is None:
            return Reply(None, math.nan, math.nan, True)
        x = self._units.inputs(row.x)
        y = self._label_of(row, broadcast, x)
        played = party.play(broadcast, x, self._units.label(y))
        y_hat, has_units = self._units.prediction(party.y_hat), self._units.knows_labels
        self._units.learn(y)
        error = (y_hat - y) ** 2 if has_units else math.nan
        self.regret = party.regret
        reported = (error, party.regret) if self.terms.measured else (math.nan, math.nan)
        reply = Reply(played.update, *reported, self.rows.ended)
        self._last = (broadcast.t, reply)
        self._write_state(y_hat, y, error)
        return reply

    def finish(self, number: int, broadcast: Broadcast) -> None:
        """Take the parameters after the last round."""
        self._party_of(number).take(broadcast)

    def write_model(self) -> Path | None:
        """``model.npz`` of what it knows by now; None for a network, and before the first round."""
        if self._party is None or self.terms is None or self._last is None:
            return None
        rounds = self._last[0]
        content = client_model(self.terms, self._plan, self._party, self._units, rounds)
        if content is None:
            return None
        write_atomically(self.folder / MODEL, content)
        return self.folder / MODEL

    def summary(self) -> str:
        """What became of its rows, in a sentence or two."""
        n = self.rows.n_read
        text = pluralize(n, "row")
        if self.n_scored:
            text += f", mean squared error {self.squared_error / self.n_scored:.6g}"
        if self._last is not None:
            text += f", regret {self.regret:.4g}"
        if missing := self.rows.n_without_label:
            text += f"; left out: {pluralize(missing, 'row without a label')}"
        if self.terms is not None and self._units.n_outside:
            text += f"; beyond the bounds: {pluralize(self._units.n_outside, 'number')}"
        return text

    def _party_of(self, number: int) -> Client:
        if self._party is None:
            self._party = Client(self._plan, self._plan.settings.seed, number)
        if self._party.client != number:
            raise Refused(f"this is client {self._party.client}, and client {number} was asked")
        return self._party

    def _label_of(self, row: Row, broadcast: Broadcast, x: np.ndarray) -> float:
        y, n = row.y, self.rows.n_read
        if math.isnan(y):
            assert self._party is not None
            y_hat = self._units.prediction(self._party.predict(broadcast, x))
            y = self.rows.label(lambda: self._tell(n, y_hat))
            if math.isnan(y):
                raise Refused(f"row {n} got no label: an empty line came where it was to be")
        return y

    def _write_state(self, y_hat: float, y: float, error: float) -> None:
        assert self._party is not None and self._last is not None
        if not math.isnan(error):
            self.squared_error, self.n_scored = self.squared_error + error, self.n_scored + 1
        t, reply = self._last
        with open(self.folder / PREDICTIONS, "a") as file:
            if not file.tell():
                file.write(",".join(COLUMNS) + "\n")
            file.write(f"{t},{self.rows.n_read},{y_hat!r},{y!r}\n")
        self._n_lines += 1
        assert reply.update is not None
        learned = {f"party.{name}": a for name, a in self._party.checkpoint().items()}
        learned |= {f"units.{name}": a for name, a in self._units.arrays().items()}
        sent = {f"reply.{n}": getattr(reply.update, n) for n in ("rows", "theta", "losses")}
        numbers = np.array([self.squared_error, self.regret, reply.squared_error, reply.regret])
        counts = [self._party.client, t, self.rows.n_read, self.n_scored, int(reply.done)]
        counts.append(self._n_lines)
        scalars = {"numbers": numbers, "counts": np.array(counts)}
        write_atomically(self.folder / STATE, npz_bytes(learned | sent | scalars))

    def _read_state(self, kept: Mapping[str, np.ndarray]) -> None:
        """Where the process that wrote the state was; rows of a live stream do not come again."""
        client, t, n_rows, self.n_scored, done, self._n_lines = kept["counts"].tolist()
        self.squared_error, self.regret, error, regret = kept["numbers"].tolist()
        party = self._party_of(client)
        party.restore(below("party.", kept))
        self._units.restore(below("units.", kept))
        update = Update(client, t, **below("reply.", kept))
        self._last = (t, Reply(update, error, regret, bool(done)))
        self.rows.skip(n_rows)
        path = self.folder / PREDICTIONS
        lines = path.read_text().splitlines(keepends=True)
        lines = lines[: 1 + self._n_lines]  # the next may be half a line
        write_atomically(path, "".join(lines))


def _print(number: int, y_hat: float) -> None:
    sys.stdout.write(f"{number},{y_hat!r}\n")
    sys.stdout.flush()


def _read(path: Path) -> dict[str, np.ndarray]:
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
