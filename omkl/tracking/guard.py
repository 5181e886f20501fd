"""Run a command for as long as standard input is open: whoever holds it may be killed.

    python guard.py COMMAND ...

All processes of the session end with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time


def main() -> None:
    server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    threading.Thread(target=lambda: os._exit(server.wait()), daemon=True).start()
    sys.stdin.buffer.read()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    time.sleep(5.0)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
