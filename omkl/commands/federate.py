"""``omkl-federate``: federations of parties apart, each with a file that nobody else opens."""

from __future__ import annotations

import sys

from omkl.commands import terminal
from omkl.federation.command import main


def federate() -> None:
    """``omkl-federate COMMAND ...``: server, client, keys, key, trial, simulation or app."""
    terminal.command("omkl-federate", lambda: main(sys.argv[1:]))
