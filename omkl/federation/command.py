"""Federations of parties apart, whose files stay with them (docs/federation-guide.md).

    omkl-federate keys FOLDER [NAME ...] [host=NAME]    certificates of the server, for a trial
    omkl-federate key FOLDER NAME                       one client's key, by itself
    omkl-federate server FOLDER inputs=a,b target=y clients=K keys=FOLDER ...
    omkl-federate client --data my.csv --target y --server HOST:PORT --keys FOLDER --name NAME

A trial with a data set of omkl, whose rows are dealt out to clients:

    omkl-federate trial algorithm=pof_mkl dataset=naval federation=iid clients=4
                                one server and K clients as processes of their own on this
                                machine, with TLS and keys; insecure=true: without
    omkl-federate simulation ...        Flower's simulation engine (Ray)
    omkl-federate app FOLDER ...        write a Flower app, for ``flwr run FOLDER``; without FOLDER
                                        into flower-app

The words are those of omkl-run. The first two run the first seed and print how far its predictions
are from those of the simulation of omkl-run. Besides: ``rounds=N`` stops early, ``timeout=S`` are
the seconds that the server waits for replies; of an app, ``result=FILE`` is where the server writes
what came out, and ``keep=FOLDER`` where clients keep what they learn.
"""

from __future__ import annotations

import asyncio
import math
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.utils.extras import how_to_install
from omkl.utils.wording import plain, pluralize

if TYPE_CHECKING:  # each command imports what it needs
    from omkl.federation.coordinator import Coordinator
    from omkl.federation.server import ServerLoop
    from omkl.federation.trial import FederationResult

SERVER = """\
The server of a federation: omkl-federate server FOLDER words

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

SERVER_WORDS = (
    "inputs", "target", "bounds", "scaling", "keys", "insecure", "host", "port", "quorum",
    "timeout", "rounds", "measured",
)  # fmt: skip
TRIAL_WORDS = ("rounds", "timeout", "insecure", "result", "keep")
PORT = 9092
TIMEOUT = 60.0  # seconds that the server waits for the replies of a round
SHOW = 2.0  # seconds between two lines about the rounds


def main(arguments: Sequence[str]) -> int:
    """Run ``omkl-federate`` with these words; returns the exit status."""
    name, words = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    if name in ("-h", "--help"):
        print(__doc__)
        return 0
    if name not in COMMANDS:
        _say(f"{name or 'nothing'} is no command of omkl-federate. There are:")
        print(str(__doc__).split("\n\n", 1)[1], file=sys.stderr)
        return 2
    try:
        return COMMANDS[name](words)
    except ModuleNotFoundError as error:
        library = str(error.name).partition(".")[0]
        if library not in EXTRAS:
            raise
        _say(f"{name} needs {library}: {how_to_install(EXTRAS[library])}")
        return 1
    except ValueError as error:  # DataError is one
        _say(str(error))
        return 1


def _say(text: str) -> None:
    print(f"omkl: {plain(text)}", file=sys.stderr, flush=True)


# --- keys, client -------------------------------------------------------------------------------


def _keys(words: Sequence[str]) -> int:
    """A certificate of the server, and a key for each name."""
    from omkl.federation import keys

    hosts = [word.partition("=")[2] for word in words if word.startswith("host=")]
    folder, *names = [word for word in words if not word.startswith("host=")] or [""]
    if not folder:
        raise ValueError("name a folder: keys FOLDER [NAME ...] [host=NAME]")
    keys.make_certificates(Path(folder), [*hosts, "localhost", "127.0.0.1"])
    print(f"{folder}: {keys.AUTHORITY} for every client, and the server's certificate")
    return _key([folder, *names]) if names else 0


def _key(words: Sequence[str]) -> int:
    """A key for each name."""
    from omkl.federation import keys

    if len(words) < 2:
        raise ValueError("name a folder and a client: key FOLDER NAME")
    for path in [keys.make_client_key(Path(words[0]), name) for name in words[1:]]:
        print(f"{path} stays with its client; {path.stem}.pub is for the server")
    return 0


def _client(words: Sequence[str]) -> int:
    from omkl.federation import client

    return client.main(words)


# --- server -------------------------------------------------------------------------------------


class ServerSettings(NamedTuple):
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


def _server(words: Sequence[str]) -> int:
    from omkl.config.overrides import expand
    from omkl.federation import terms
    from omkl.federation.coordinator import Coordinator
    from omkl.federation.server import ServerLoop

    if {"-h", "--help"} & set(words):
        print(SERVER)
        return 0
    if not words or "=" in words[0]:
        raise ValueError("name the folder of the federation first: server FOLDER inputs=...")
    values, overrides = _split(words[1:])
    options = read_server_words(values)
    agreed = terms.make_terms(
        expand([*overrides, *terms.WORDS]),
        options.inputs, options.target, options.bounds, options.scaling, options.measured,
    )  # fmt: skip
    coordinator = Coordinator(Path(words[0]), agreed, options.rounds)
    shown = [time.monotonic()]

    def progress(t: int) -> None:
        if time.monotonic() - shown[0] >= SHOW:
            shown[0] = time.monotonic()
            _say(f"round {t}, answers: {len(coordinator.answered)}")

    where = options.host, options.port, options.keys
    loop = ServerLoop(coordinator, *where, options.quorum, options.timeout, progress)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _serve(coordinator, loop, options)
    except KeyboardInterrupt:
        _say("ended; the same command goes on from here")
        return 1
    return 0


def _serve(coordinator: Coordinator, loop: ServerLoop, options: ServerSettings) -> None:
    from omkl.experiment.run import now
    from omkl.experiment.viewers import record_and_show
    from omkl.federation import keys, results

    started = now()
    address = f"{options.host}:{loop.port}"
    _say(f"federation {coordinator.terms.identity} on {address}, after round {coordinator.t}")
    if options.keys is None:
        _say(keys.UNPROTECTED)
    asyncio.run(loop.run())
    path = coordinator.write_model()
    text = f"{pluralize(coordinator.t, 'round')} in {coordinator.measured().seconds:.1f} s, "
    text += pluralize(len(coordinator.server.events), "event")
    text += f", model in {path}" if path else ""
    if not coordinator.terms.measured:
        _say(f"{text}; measured=false: no run folder")
        return
    try:
        computed = results.computed(coordinator)
    except results.NothingMeasured as error:
        _say(f"{text}; {error}: no run folder")
        return
    outcome = record_and_show(results.job_of(coordinator), computed, started)
    mse = np.mean(outcome.run.result["mse"])
    _say(f"{text}, mean squared error {mse:.6g}; run {outcome.run.folder}")
    for note in outcome.notes:
        _say(note)


def read_server_words(values: dict[str, str]) -> ServerSettings:
    """ValueError names the word that is wrong or missing."""
    for key in ("inputs", "target"):
        if not values.get(key):
            raise ValueError(f"{key}= is missing: which columns do all clients have?")
    inputs = values["inputs"]
    if _switch(values, "insecure", False) == ("keys" in values):
        raise ValueError(
            "keys=FOLDER has the server's certificate and the clients' keys (omkl-federate keys "
            "FOLDER makes them for a trial); insecure=true goes without: then anybody can listen "
            "and take part"
        )
    return ServerSettings(
        inputs=int(inputs) if inputs.isdigit() else [name.strip() for name in inputs.split(",")],
        target=values["target"],
        bounds=_bounds(values["bounds"]) if "bounds" in values else None,
        scaling=values.get("scaling"),
        keys=Path(values["keys"]) if "keys" in values else None,
        host=values.get("host", "127.0.0.1"),
        port=int(_number(values, "port", PORT, 0)),
        quorum=int(_number(values, "quorum", 0, 1)) or None,
        timeout=_number(values, "timeout", TIMEOUT, 1e-3),
        rounds=int(_number(values, "rounds", 0, 1)) or None,
        measured=_switch(values, "measured", True),
    )


def _split(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The words that are the server's, and those of omkl-run."""
    for word in words:
        if word.startswith(("dataset", "federation=", "stream.", "seeds=")):
            raise ValueError(f"{word}: a server of holders has no data, and one seed")
    return _words_of(words, SERVER_WORDS)


def _words_of(words: Sequence[str], names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The words ``name=value`` of these names, and all others."""
    pairs = [word.partition("=") for word in words]
    values = {key: value for key, _, value in pairs if key in names}
    return values, [word for word in words if word.partition("=")[0] not in names]


def _number(values: dict[str, str], key: str, default: float, least: float) -> float:
    if key not in values:
        return default
    try:
        number = float(values[key])
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= least):
        raise ValueError(f"{key}={values[key]} is no number of at least {least:g}")
    return number


def _switch(values: dict[str, str], key: str, default: bool) -> bool:
    value = values.get(key, str(default)).lower()
    if value not in ("true", "false"):
        raise ValueError(f"{key}={value} is neither true nor false")
    return value == "true"


def _bounds(path: str) -> dict[str, Any]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        bounds = OmegaConf.to_container(OmegaConf.load(Path(path)))
    except (OSError, ValueError, OmegaConfBaseException) as error:
        raise ValueError(f"bounds={path} cannot be read: {error}") from None
    if not isinstance(bounds, dict):
        raise ValueError(f"bounds={path} is no mapping, column: [low, high]")
    return {str(name): pair for name, pair in bounds.items()}


# --- trials with a data set ---------------------------------------------------------------------


def _trial(words: Sequence[str]) -> int:
    from omkl.federation import keys
    from omkl.federation.trial import run_trial

    values, overrides = _trial_words(words)
    insecure = _switch(values, "insecure", False)
    if insecure:
        _say(keys.UNPROTECTED)

    def run(overrides: str, n_rounds: int, timeout: float) -> FederationResult:
        return run_trial(overrides, n_rounds, timeout, insecure=insecure)

    return _compare("trial", run, values, overrides)


def _simulation(words: Sequence[str]) -> int:
    from omkl.federation import flower

    return _compare("simulation", flower.run_on_simulation, *_trial_words(words))


def _app(words: Sequence[str]) -> int:
    from omkl.federation import flower
    from omkl.federation.trial import job_of

    named = bool(words) and "=" not in words[0]
    folder = Path(words[0] if named else "flower-app")
    values, overrides = _trial_words(words[named:])
    job_of(overrides)
    n_rounds, timeout = _limits(values)
    result, keep = values.get("result", ""), values.get("keep", "")
    flower.write_app(folder, overrides, n_rounds, timeout, result, keep)
    print(f"{folder}/: flwr run {folder}")
    return 0


def _trial_words(words: Sequence[str]) -> tuple[dict[str, str], str]:
    """The words of a trial, and one line of those of omkl-run, checked."""
    from omkl.config.overrides import expand

    values, overrides = _words_of(words, TRIAL_WORDS)
    _limits(values)
    _switch(values, "insecure", False)
    return values, shlex.join(expand(overrides))


def _limits(values: dict[str, str]) -> tuple[int, float]:
    """How many rounds, 0 for all, and how many seconds one may take."""
    try:
        n_rounds, timeout = int(values.get("rounds", 0)), float(values.get("timeout", TIMEOUT))
    except ValueError:
        raise ValueError(f"rounds and timeout are numbers; got {values}") from None
    if n_rounds < 0 or not timeout > 0:
        raise ValueError(f"rounds is at least 0 (all) and timeout above 0 seconds; got {values}")
    return n_rounds, timeout


def _compare(
    name: str, run: Callable[..., FederationResult], values: dict[str, str], overrides: str
) -> int:
    """Run a federation, and print how far it is from our own simulation."""
    from omkl.federation.trial import difference, job_of

    job, start = job_of(overrides), time.perf_counter()
    n_rounds, timeout = _limits(values)
    result = run(overrides, n_rounds, timeout)
    n, K = result.y_hat.shape
    text = f"{name}: {n} rounds of {K} clients in {time.perf_counter() - start:.1f} s"
    if job.settings.safeguards.privacy is not None:
        print(f"{text}\nwith privacy the clients report neither predictions nor regret")
    else:
        came = ~np.isnan(result.y_hat)
        squares = np.square(result.y_hat - job.split.y[:n])[came]
        print(f"{text}, MSE {1e3 * (squares.mean() if squares.size else np.nan):.2f} x 10^-3")
        there = np.arange(1, n + 1)[:, None] <= job.split.lengths
        if missing := np.count_nonzero(there & ~came):
            print(f"{missing} of {np.count_nonzero(there)} replies are missing")
        print(f"largest distance from our simulation: {difference(overrides, result):.1e}")
    for event in result.events:
        print(f"round {event.t}, client {event.client}: {plain(event.reason)}")
    return 0


COMMANDS = {
    "keys": _keys, "key": _key, "server": _server, "client": _client,
    "trial": _trial, "simulation": _simulation, "app": _app,
}  # fmt: skip
EXTRAS = {"websockets": "federation", "cryptography": "federation", "flwr": "flower",
          "ray": "flower-simulation"}  # fmt: skip
