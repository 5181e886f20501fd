"""Ctrl-C: the first ends what runs, and a second ends the process."""

import signal
import subprocess
import sys

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


def test_the_first_is_remembered_and_the_second_ends_at_once():
    done = subprocess.run(
        [sys.executable, "-u", "-c", SWALLOWED], capture_output=True, text=True, timeout=60
    )
    expected = ("True\nended []\n", -signal.SIGINT)
    assert (done.stdout, done.returncode) == expected, done.stderr
