"""A Ctrl-C, or the SIGTERM of a worker: the first ends what runs, a second ends the process."""

import signal
import subprocess
import sys

import pytest

SWALLOWED = """
import os, signal, weakref
from omkl.utils import interrupts
interrupts.listen()
class Thing: pass
thing = Thing()
kept = weakref.ref(thing, lambda _: (os.kill(os.getpid(), signal.SIGINT), [0] * 1000))
del thing  # what is raised in the callback is printed and forgotten
print(interrupts.came())
told = []
try:
    interrupts.ending(told.append)("rounds")
except KeyboardInterrupt:
    print("ended", told)
os.kill(os.getpid(), signal.SIGINT)
print("never")
"""
WORKER = """
import os, signal, sys
from omkl.utils import interrupts
interrupts.listen(signal.SIGTERM, at_work=False)
def tell():
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(1000): pass
if "idle" in sys.argv:
    tell()
with interrupts.at_work():
    try:
        tell()
    finally:
        tell()  # pools say it more than once
        print("tidy", flush=True)
print("never")
"""


@pytest.mark.parametrize(
    ("script", "argument", "out", "ended_by"),
    [
        (SWALLOWED, "", "True\nended []\n", signal.SIGINT),
        (WORKER, "", "tidy\n", signal.SIGTERM),
        (WORKER, "idle", "", signal.SIGTERM),
    ],
)
def test_the_first_is_remembered_and_the_second_ends_at_once(script, argument, out, ended_by):
    done = subprocess.run(
        [sys.executable, "-u", "-c", script, argument], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == (out, -ended_by), done.stderr
