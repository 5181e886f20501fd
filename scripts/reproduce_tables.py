"""Run what the published tables need, and put every published number beside ours.

python scripts/reproduce_tables.py [TABLE ...] [--outputs outputs] [--page FOLDER]

Without a TABLE the searches that the page shows are run too, where what they wrote is not there
or was made by other code, and the comparisons with other libraries, where these are installed.
"""

import subprocess
import sys
from pathlib import Path

from omkl.commands import report
from omkl.papers import searches
from omkl.papers.reproduce import compare


def search(outputs: Path, page: Path) -> int:
    """Run the scripts whose tables are not those of this code; 1 if one of them failed."""
    failed = 0
    for script, reason in searches.outdated(outputs / "search").items():
        print(f"\nscripts/{script}: {reason}", flush=True)
        path = Path(__file__).with_name(script)
        code = subprocess.run([sys.executable, str(path), "--outputs", str(outputs)]).returncode
        if code:
            print(f"scripts/{script} ended with exit code {code}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(report.main(["run", *sys.argv[1:]], (search, compare)))
