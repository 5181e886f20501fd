"""``python -m omkl.federation``: the command ``omkl-federate``."""

import sys

from omkl.federation.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
