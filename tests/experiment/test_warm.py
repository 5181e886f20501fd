"""The process that compiles baselines beside a run."""

import os
import subprocess
import sys

import pytest

from omkl.utils.threads import usable_cores

RUN = """
import omkl
from omkl.core.protocol import run_block
omkl.run(algorithm="mean", dataset="synthetic", seeds=1, stream={"limit": 20})
print(sum(run_block.stats.cache_misses.values()), sum(run_block.stats.cache_hits.values()))
"""


@pytest.mark.slow(6)
@pytest.mark.skipif(usable_cores() == 1, reason="one core: a run compiles alone")
def test_a_cold_run_compiles_its_learner_and_loads_its_baselines(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", RUN], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1:] == ["1 2"], done.stderr
