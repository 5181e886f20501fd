"""Run what the published tables need, and put every published number beside ours.

python scripts/reproduce_tables.py [TABLE ...] [--outputs outputs] [--page FOLDER]
"""

import sys

from omkl.reproduce import command

if __name__ == "__main__":
    sys.exit(command(sys.argv[1:]))
