"""Run what the published tables need, then put every published number beside ours.

    python scripts/reproduce_tables.py [TABLE ...] [--outputs outputs]

Finished runs are reused while code, data and settings are the same.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from omkl import results, runner
from omkl.cli import conf_folder
from omkl.report import tables


def configuration(overrides: list[str]) -> dict:
    """The resolved configuration of one cell."""
    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        container = OmegaConf.to_container(compose("config", overrides), resolve=True)
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}


def reproduce(name: str, outputs: Path) -> bool:
    """Fill one table; False when a cell failed."""
    table = tables.load_table(conf_folder() / "table" / f"{name}.yaml")
    jobs = tables.jobs(table)
    print(f"{name}: {len(jobs)} cells to fill")
    complete = True
    for number, overrides in enumerate(jobs, start=1):
        start = time.perf_counter()
        outcome = runner.run(configuration([*overrides, f"outputs={outputs}"]))
        result = outcome.run.result
        text = f"[{number}/{len(jobs)}] {result['algorithm']} on {result['dataset']}"
        if outcome.status == "failed":
            complete = False
            print(f"{text}: failed: {result['error']['message']}", flush=True)
            continue
        seconds = time.perf_counter() - start
        how = "reused" if outcome.status == "reused" else f"{seconds:.1f} s"
        print(f"{text}: {1e3 * result['mse_mean']:.2f} x 10^-3 ({how})", flush=True)
        for note in outcome.notes:
            print(f"    {note}")
    filled = tables.fill(table, list(results.find(outputs)))
    for path in tables.render(filled, tables.FORMATS, outputs / "tables"):
        print(path)
    return complete


def main() -> int:
    known = sorted(path.stem for path in (conf_folder() / "table").glob("*.yaml"))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"default: {', '.join(known)}")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    arguments = parser.parse_args()
    for name in arguments.tables:
        if name not in known:
            parser.error(f"there is no table {name}; there are: {', '.join(known)}")
    done = [reproduce(name, arguments.outputs) for name in arguments.tables or known]
    return 0 if all(done) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nInterrupted. What is finished is kept; the same command goes on.", file=sys.stderr)
        sys.exit(130)
