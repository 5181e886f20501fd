"""Terminals that go away, disks that are full, environments in which no command can work."""

import os
import subprocess
import sys

import pytest

from omkl.commands import report
from omkl.utils import disk, threads

SAY = """
import sys
from omkl.commands import terminal
def main():
    for k in range(20000):
        print("line", k, "\u00b1" * 20)
    print("all was done", file=sys.stderr)
    return 0
terminal.command("omkl-test", main)
"""


def say(**options):
    return subprocess.Popen(
        [sys.executable, "-c", SAY], text=True, stderr=subprocess.PIPE, **options
    )


def test_work_goes_on_when_nobody_reads_any_more():
    """As with ``omkl-run -m ... | head -1``."""
    with say(stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith("line 0")
        process.stdout.close()
        assert process.stderr.read() == "all was done\n"
    assert process.returncode == 0


def test_a_full_disk_under_the_output_is_an_error():
    with open("/dev/full", "w") as full:
        process = say(stdout=full)
    told = process.communicate()[1].splitlines()
    assert told[0] == "omkl-test: output could not be written: No space left on device"
    assert process.returncode


def test_closed_output_and_letters_that_a_terminal_lacks():
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", SAY]
    done = subprocess.run(closed, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "all was done\n")
    ascii_alone = os.environ | {"PYTHONIOENCODING": "ascii"}
    out, _ = say(stdout=subprocess.PIPE, env=ascii_alone).communicate()
    assert out.startswith("line 0 " + "?" * 20)


@pytest.mark.parametrize("text", ["\u00b2", "0", "-1", "two"])
def test_threads_of_the_environment_are_a_number(monkeypatch, text):
    monkeypatch.setenv("OMKL_THREADS", text)
    with pytest.raises(ValueError, match=f"OMKL_THREADS='{text}' is not a whole number"):
        threads.default_threads()


def test_a_user_without_a_home_is_asked_for_a_cache(monkeypatch):
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as where HOME is unknown
    with pytest.raises(OSError, match="set XDG_CACHE_HOME"):
        disk.user_cache()


@pytest.mark.parametrize("port", ["0", "65536", "-1", "\u00b2"])
def test_ports_out_of_range(port, capsys):
    with pytest.raises(SystemExit):
        report.main(["ui", f"--port={port}"])
    assert "is no port: 1 to 65535" in capsys.readouterr().err
