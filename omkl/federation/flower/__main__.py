"""A federation on Flower.

With a file for each client, which nobody else opens (docs/federation-guide.md):

    python -m omkl.federation.flower keys FOLDER [NAME ...] [host=NAME]   for a trial
    python -m omkl.federation.flower key FOLDER NAME                      one client's, by itself
    python -m omkl.federation.flower server FOLDER inputs=a,b target=y clients=K keys=FOLDER ...
    python -m omkl.federation.flower client --data my.csv --target y --superlink HOST:PORT ...

A trial with a data set of omkl, whose rows are dealt out to clients:

    python -m omkl.federation.flower grid algorithm=pof_mkl dataset=naval federation=iid clients=4
    python -m omkl.federation.flower simulation ...     Flower's simulation engine (Ray)
    python -m omkl.federation.flower deployment ...     one server and K clients as processes of
                                                        their own on this machine, with TLS and
                                                        keys; insecure=true: without
    python -m omkl.federation.flower app FOLDER ...     write a Flower app, for ``flwr run FOLDER``;
                                                        without FOLDER into flower-app

The words after the engine are those of omkl-run. Each of the three runs the first seed and says
how far its predictions are from those of our own simulation. Besides: ``rounds=N`` stops early,
``timeout=S`` are the seconds that the server waits for replies; of an app, ``result=FILE`` is
where the server writes what came out, and ``keep=FOLDER`` where clients keep what they learn.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

try:
    import flwr  # noqa: F401
except ModuleNotFoundError:
    sys.exit("omkl: this needs Flower: pip install 'omkl[flower]' in an environment of its own")

from omkl.federation.flower import keys
from omkl.federation.flower.app_folder import write_app
from omkl.federation.flower.apps import TIMEOUT, Flown, difference, job_of

ENGINES = ("grid", "simulation", "deployment", "app")
OWN = ("rounds", "timeout", "insecure", "result", "keep")


def main(arguments: Sequence[str]) -> int:
    engine, words = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    if engine in COMMANDS:
        return COMMANDS[engine](words)
    if engine in ("-h", "--help"):
        print(__doc__)
        return 0
    if engine not in ENGINES:
        print(f"omkl: {engine or 'nothing'} is no engine. There are:", file=sys.stderr)
        print(str(__doc__).split("\n\n", 1)[1], file=sys.stderr)
        return 2
    try:
        return _engine(engine, words)
    except ValueError as error:
        print(f"omkl: {error}", file=sys.stderr)
        return 1


def _engine(engine: str, words: list[str]) -> int:
    from omkl.config.command_line import CommandLine

    folder = Path("flower-app")
    if engine == "app" and words and "=" not in words[0]:
        folder = Path(words.pop(0))
    own = dict(word.split("=", 1) for word in words if word.partition("=")[0] in OWN)
    words = [w for w in words if w.partition("=")[0] not in OWN]
    n_rounds, timeout = _numbers(own)
    overrides = shlex.join(CommandLine(words).checked())
    job = job_of(overrides)
    if engine == "app":
        write_app(folder, overrides, n_rounds, timeout, own.get("result", ""), own.get("keep", ""))
        print(f"{folder}/: flwr run {folder}")
        return 0
    start = time.perf_counter()
    options = {"insecure": own.get("insecure") == "true"} if engine == "deployment" else {}
    if options.get("insecure"):
        print(f"omkl: {keys.UNPROTECTED}", file=sys.stderr)
    flown = run_of(engine)(overrides, n_rounds, timeout=timeout, **options)
    seconds = time.perf_counter() - start
    n, K = flown.y_hat.shape
    if job.settings.safeguards.privacy is not None:
        print(f"{engine}: {n} rounds of {K} clients in {seconds:.1f} s")
        print("with privacy the clients report neither predictions nor regret")
        _print_events(flown)
        return 0
    came = ~np.isnan(flown.y_hat)
    squares = np.square(flown.y_hat - job.split.y[:n])[came]
    mse = squares.mean() if squares.size else np.nan
    there = np.arange(1, n + 1)[:, None] <= job.split.lengths
    print(f"{engine}: {n} rounds of {K} clients in {seconds:.1f} s, MSE {1e3 * mse:.2f} x 10^-3")
    if missing := np.count_nonzero(there & ~came):
        print(f"{missing} of {np.count_nonzero(there)} replies are missing")
    print(f"largest distance from our simulation: {difference(overrides, flown):.1e}")
    _print_events(flown)
    return 0


def _print_events(flown: Flown) -> None:
    for event in flown.events:
        print(f"round {event.t}, client {event.client}: {event.reason}")


def run_of(engine: str) -> Callable[..., Flown]:
    """The engine of that name; each imports what it needs alone."""
    from omkl.federation.flower import deployment, in_process

    engines: dict[str, Callable[..., Flown]] = {
        "grid": in_process.run_on_grid,
        "simulation": in_process.run_on_simulation,
        "deployment": deployment.run_deployed,
    }
    return engines[engine]


def _numbers(own: dict[str, str]) -> tuple[int, float]:
    try:
        n_rounds, timeout = int(own.get("rounds", 0)), float(own.get("timeout", TIMEOUT))
    except ValueError:
        raise ValueError(f"rounds and timeout are numbers; got {own}") from None
    if n_rounds < 0 or not timeout > 0:
        raise ValueError(f"rounds is at least 0 (all) and timeout above 0 seconds; got {own}")
    if own.get("insecure", "false") not in ("true", "false"):
        raise ValueError(f"insecure={own['insecure']} is neither true nor false")
    return n_rounds, timeout


def _client(arguments: Sequence[str]) -> int:
    from omkl.federation.flower import client

    return client.main(arguments)


def _server(arguments: Sequence[str]) -> int:
    from omkl.federation.flower import convene

    return convene.main(arguments)


def _keys(words: Sequence[str]) -> int:
    """A certificate of the server, and a key for each name."""
    hosts = [word.partition("=")[2] for word in words if word.startswith("host=")]
    folder, *names = [word for word in words if not word.startswith("host=")] or [""]
    if not folder:
        print("omkl: name a folder: keys FOLDER [NAME ...] [host=NAME]", file=sys.stderr)
        return 2
    keys.make_certificates(Path(folder), [*hosts, "localhost", "127.0.0.1"])
    print(f"{folder}: {keys.AUTHORITY} for every client, and the server's certificate")
    return _key([folder, *names]) if names else 0


def _key(words: Sequence[str]) -> int:
    """A key for each name."""
    if len(words) < 2:
        print("omkl: name a folder and a client: key FOLDER NAME", file=sys.stderr)
        return 2
    try:
        paths = [keys.make_client_key(Path(words[0]), name) for name in words[1:]]
    except ValueError as error:
        print(f"omkl: {error}", file=sys.stderr)
        return 1
    for path in paths:
        print(f"{path} stays with its client; {path.stem}.pub is for the server")
    return 0


COMMANDS = {"client": _client, "server": _server, "keys": _keys, "key": _key}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
