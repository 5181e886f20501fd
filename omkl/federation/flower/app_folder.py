"""A Flower app of a federation, for ``flwr run`` on any Flower server."""

from __future__ import annotations

import json
from pathlib import Path

from omkl.disk import write_atomically
from omkl.federation.flower.apps import TIMEOUT

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "omkl-federation"
version = "1.0.0"
description = "A federation of omkl"
license = {{ file = "LICENSE" }}
dependencies = ["flwr>=1.41,<1.42", "omkl"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "omkl"
fab-format-version = 1
flwr-version-target = "1.41.0"

[tool.flwr.app.components]
serverapp = "omkl_apps:server"
clientapp = "omkl_apps:client"

[tool.flwr.app.config]
omkl = {omkl}
omkl-rounds = {rounds}
omkl-timeout = {timeout}
omkl-result = {result}
omkl-keep = {keep}
"""

APPS = '''"""The two apps; everything else is in omkl."""

from omkl.federation.flower.apps import client_app, server_app

server = server_app()
client = client_app()
'''


def write_app(
    folder: Path,
    overrides: str,
    n_rounds: int = 0,
    timeout: float = TIMEOUT,
    result: str = "",
    keep: str = "",
) -> None:
    """A folder for ``flwr run``: it starts this federation on any Flower server.

    ``result`` is the file where the server writes what came out, and ``keep`` the folder where
    every client keeps what it has learned: by default FOLDER/result.npz and ~/.omkl/FOLDER.
    """
    folder.mkdir(parents=True, exist_ok=True)
    result = result or str(folder.resolve() / "result.npz")
    text = {"omkl": overrides, "result": result, "keep": keep or f"~/.omkl/{folder.name}"}
    quoted = {name: json.dumps(value) for name, value in text.items()}
    pyproject = PYPROJECT.format(rounds=n_rounds, timeout=float(timeout), **quoted)
    write_atomically(folder / "pyproject.toml", pyproject)
    write_atomically(folder / "omkl_apps.py", APPS)
    write_atomically(folder / "LICENSE", "MIT, as omkl, which these few lines start.\n")
