"""Compiling ahead: the process beside a run, and ``omkl-check --warm``."""

import os
import subprocess
import sys

import pytest

from omkl.utils.threads import usable_cores

COUNT = """
from omkl.core.protocol import run_block
print(sum(run_block.stats.cache_misses.values()), sum(run_block.stats.cache_hits.values()))
"""
WARM = "from omkl.commands import check; assert check.main(['--warm', 'mean']) == 0" + COUNT
USE = f"""
import sys
import omkl
from omkl.core import cache
missing = []
with cache.on_cache_miss(lambda: missing.append(1)):
    columns = {{"scaling": "columns", "limit": 30}}
    omkl.run(algorithm="mean", dataset="synthetic", interval=0.8, seeds=1, stream=columns)
    learner = omkl.learner("mean", inputs=3, interval=0.9)
    learner.predict_one([1, 2, 3])
    learner.learn_one([1, 2, 3], 4)
assert not missing
assert "pandas" not in sys.modules  # a run of numbers does without, predictions.parquet included
{COUNT}"""


@pytest.mark.slow(8)
@pytest.mark.skipif(usable_cores() == 1, reason="on one core a run compiles alone")
def test_baselines_are_compiled_beside_a_run_and_all_that_was_warmed_is_loaded(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def counts(program):
        words = [sys.executable, "-c", program]
        done = subprocess.run(
            words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()[-1]

    assert counts(WARM) == "1 2"  # the learner is compiled here, two baselines are loaded
    assert counts(USE) == "0 3"
