"""``omkl-federate``: federations of parties apart, whose files stay with them."""

from __future__ import annotations

import sys

from omkl.commands import terminal
from omkl.federation.command import main


def federate() -> None:
    """``omkl-federate COMMAND ...``: server, client, keys, key, trial, simulation or app."""
    terminal.command("omkl-federate", lambda: main(sys.argv[1:]))
