"""The server of a federation: ``python -m omkl.federation.flower server FOLDER words``.

It has no data. Words of its own:

    inputs=a,b,c target=y   the columns that every client has (inputs=3: x1, x2, x3)
    bounds=FILE             YAML, column: [low, high], by which all clients scale
    scaling=                columns (each client by what it has seen), bounds or none
    keys=FOLDER             its certificate, and the keys of the clients that may take part
    insecure=true           without them: no TLS, and whoever reaches the port takes part
    host= port=             where it serves: 127.0.0.1 and 9092
    quorum= timeout=        a round is closed by so many answers, or after so many seconds
    rounds=N                stop after round N
    measured=false          clients keep their errors and regrets to themselves: no run folder

All others are those of omkl-run: clients=3 algorithm=pof_mkl federation.rounds=500 kernels=...
The same command goes on from the last round of FOLDER.
"""

from __future__ import annotations

import logging
import math
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.experiment.run import now
from omkl.federation.flower import keys
from omkl.federation.flower.apps import TIMEOUT
from omkl.federation.flower.link import Certificate, Link
from omkl.federation.flower.server import Talk
from omkl.federation.holders import results, terms
from omkl.federation.holders.coordinator import Coordinator
from omkl.runs.wording import plain, pluralize

OWN = (
    "inputs", "target", "bounds", "scaling", "keys", "insecure", "host", "port", "quorum",
    "timeout", "rounds", "measured",
)  # fmt: skip
PORT = 9092
SHOW = 2.0  # seconds between two lines about the rounds


class Words(NamedTuple):
    """The words of the server that are not omkl-run's, read."""

    inputs: int | list[str]
    target: str
    bounds: dict[str, Any] | None
    scaling: str | None
    keys: Path | None
    host: str
    port: int
    quorum: int | None
    timeout: float
    rounds: int | None
    measured: bool


def main(arguments: Sequence[str]) -> int:
    from omkl.config.command_line import CommandLine

    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    try:
        if not arguments or "=" in arguments[0]:
            raise ValueError("name the folder of the federation first: server FOLDER inputs=...")
        folder, (own, others) = Path(arguments[0]), _split(arguments[1:])
        words = read(own)
        made = terms.made(
            CommandLine([*others, *terms.WORDS]).checked(),
            words.inputs, words.target, words.bounds, words.scaling, words.measured,
        )  # fmt: skip
        coordinator = Coordinator(folder, made, words.rounds)
        link = _link(words)
    except ValueError as error:
        _say(str(error))
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.getLogger("flwr").setLevel(logging.WARNING)
    try:
        _serve(coordinator, link, words)
    except KeyboardInterrupt:
        _say("ended; the same command goes on from here")
        return 1
    finally:
        link.close()
    return 0


def read(own: dict[str, str]) -> Words:
    """ValueError names the word that is wrong or missing."""
    for key in ("inputs", "target"):
        if not own.get(key):
            raise ValueError(f"{key}= is missing: which columns do all clients have?")
    given = own["inputs"]
    if _switch(own, "insecure", False) == ("keys" in own):
        raise ValueError(
            "keys=FOLDER has the server's certificate and the clients' keys (python -m "
            "omkl.federation.flower keys FOLDER makes them for a trial); insecure=true goes "
            "without: then anybody can listen and take part"
        )
    return Words(
        inputs=int(given) if given.isdigit() else [name.strip() for name in given.split(",")],
        target=own["target"],
        bounds=_bounds(own["bounds"]) if "bounds" in own else None,
        scaling=own.get("scaling"),
        keys=Path(own["keys"]) if "keys" in own else None,
        host=own.get("host", "127.0.0.1"),
        port=int(_number(own, "port", PORT, 0)),
        quorum=int(_number(own, "quorum", 0, 1)) or None,
        timeout=_number(own, "timeout", TIMEOUT, 1e-3),
        rounds=int(_number(own, "rounds", 0, 1)) or None,
        measured=_switch(own, "measured", True),
    )


def _split(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The words that are the server's own, and the others."""
    pairs = [word.partition("=") for word in words]
    own = {key: value for key, _, value in pairs if key in OWN}
    for word in words:
        if word.startswith(("dataset", "federation=", "stream.", "seeds=")):
            raise ValueError(f"{word}: a server of holders has no data, and one seed")
    return own, [word for word in words if word.partition("=")[0] not in OWN]


def _number(own: dict[str, str], key: str, default: float, least: float) -> float:
    try:
        number = float(own[key]) if key in own else default
    except ValueError:
        number = math.nan
    if key in own and not (math.isfinite(number) and number >= least):
        raise ValueError(f"{key}={own[key]} is no number of at least {least:g}")
    return number


def _switch(own: dict[str, str], key: str, default: bool) -> bool:
    given = own.get(key, str(default)).lower()
    if given not in ("true", "false"):
        raise ValueError(f"{key}={given} is neither true nor false")
    return given == "true"


def _bounds(path: str) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        found = OmegaConf.to_container(OmegaConf.load(Path(path)))
    except (OSError, ValueError, OmegaConfBaseException) as error:
        raise ValueError(f"bounds={path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"bounds={path} is no mapping, column: [low, high]")
    return {str(name): pair for name, pair in found.items()}


def _link(words: Words) -> Link:
    certificate = None
    if words.keys is not None:
        files = (words.keys / keys.CERTIFICATE, words.keys / keys.CERTIFICATE_KEY)
        certificate = Certificate(*files)
    return Link(words.host, words.port, certificate, open_to_all=words.keys is None)


def _serve(coordinator: Coordinator, link: Link, words: Words) -> None:
    from omkl.viewers import record_and_show

    started = now()
    address = f"{words.host}:{link.port}"
    _say(f"federation {coordinator.terms.identity} on {address}, after round {coordinator.t}")
    if words.keys is None:
        _say(keys.UNPROTECTED)
    shown = [time.monotonic()]

    def progress(t: int) -> None:
        if time.monotonic() - shown[0] >= SHOW:
            shown[0] = time.monotonic()
            _say(f"round {t}, answers: {len(coordinator.answered)}")

    Talk(link, coordinator, words.keys, words.quorum, words.timeout, progress).run()
    path = coordinator.write_model()
    told = f"{pluralize(coordinator.t, 'round')} in {coordinator.measured().seconds:.1f} s, "
    told += pluralize(len(coordinator.server.events), "event")
    told += f", model in {path}" if path else ""
    if not coordinator.terms.measured:
        _say(f"{told}; measured=false: no run folder")
        return
    try:
        computed = results.computed(coordinator)
    except results.NothingMeasured as error:
        _say(f"{told}; {error}: no run folder")
        return
    outcome = record_and_show(results.job_of(coordinator), computed, started)
    mse = np.mean(outcome.run.result["mse"])
    _say(f"{told}, mean squared error {mse:.6g}; run {outcome.run.folder}")
    for note in outcome.notes:
        _say(note)


def _say(text: str) -> None:
    print(f"omkl: {plain(text)}", file=sys.stderr, flush=True)
