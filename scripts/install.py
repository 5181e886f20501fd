"""Install the packages of requirements.lock, and omkl, for the Python that runs this script.

    .venv/bin/python scripts/install.py

uv needs seconds where pip needs a minute; pip installs uv itself from the lock. Both check the
hashes of the lock and use the indexes of pip's configuration. If uv is unavailable or fails, the
script says so and uses pip.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
LOCKED = ["--require-hashes", "--requirement", str(LOCK)]
OWN = ["--no-deps", "--editable", str(ROOT)]

# Options of pip, the variable of uv that means the same, and what stands between two values.
SAME: dict[str, tuple[str, str | None]] = {
    "index-url": ("UV_DEFAULT_INDEX", None),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "no-index": ("UV_NO_INDEX", None),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", None),
    "proxy": ("ALL_PROXY", None),
}


def main() -> int:
    failure = with_uv()
    if failure is None:
        return 0
    print(f"uv {failure}: installing with pip, which takes a minute or two ...", flush=True)
    for given in (LOCKED, OWN):
        status = subprocess.run([*PIP, "install", *given]).returncode
        if status:
            return status
    return 0


def with_uv() -> str | None:
    """Install with uv, and return the error, or None."""
    pin = locked("uv", LOCK.read_text(encoding="utf-8"))
    if pin is None:
        return "is not in requirements.lock"
    beside = Path(sys.prefix) / "uv.txt"
    beside.write_text(pin, encoding="utf-8")
    command = [*PIP, "install", "--require-hashes", "--requirement", str(beside)]
    if failed := _last_words(command, os.environ):
        return f"cannot be installed ({failed})"
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=True)
    environment = {**of_pip(listed.stdout.splitlines()), **os.environ}
    # As pip does: without bytecode every first start of the command would take twice as long.
    uv = [sys.executable, "-m", "uv", "--quiet", "pip", "install", "--compile-bytecode"]
    uv += ["--python", sys.executable]
    # pip looks into every index for the best version; so does uv when told, and hashes decide.
    for given in (["--index-strategy", "unsafe-best-match", *LOCKED], OWN):
        if failed := _last_words([*uv, *given], environment):
            return f"did not succeed ({failed})"
    return None


def locked(package: str, lock: str) -> str | None:
    """Return the lines of the lock for one package: its version and its hashes."""
    found = re.search(rf"^{package}==(?:.*\\\n)*.*\n", lock, re.MULTILINE)
    return found[0] if found else None


def of_pip(lines: Iterable[str]) -> dict[str, str]:
    """Return the variables of uv that correspond to the output of ``pip config list``.

    A line is ``section.option='value'``. As in pip, a variable (``:env:``) overrides the section
    ``install``, and ``install`` overrides ``global``.
    """
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in lines:
        key, _, value = line.partition("=")
        section, _, option = key.rpartition(".")
        if section in sections and option in SAME:
            sections[section][option] = ast.literal_eval(value)
    options = sections["global"] | sections["install"] | sections[":env:"]
    found = {}
    for option, text in options.items():
        name, between = SAME[option]
        found[name] = text if between is None else between.join(text.split())
    return found


def _last_words(command: list[str], environment: Mapping[str, str]) -> str | None:
    """Return the last output of a failed command; None if it succeeded."""
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True)
    if not done.returncode:
        return None
    return (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1].strip()


if __name__ == "__main__":
    sys.exit(main())
