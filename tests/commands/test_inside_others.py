"""``omkl.run`` where others run: in several threads, and in an application that uses Hydra."""

from concurrent.futures import ThreadPoolExecutor

import hydra
from hydra.core.global_hydra import GlobalHydra

import omkl

QUICK = ("dataset.rows=60", "D=2", "seeds=1")


def test_threads_run_side_by_side(tmp_path):
    def start(seed):
        return omkl.run("algorithm=raker", *QUICK, seed=seed, outputs=tmp_path)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(start, range(6)))
    alone = omkl.run("algorithm=raker", *QUICK, seed=3, outputs=tmp_path / "alone")
    assert len({run.folder.name for run in found}) == 6
    assert found[3]["mse_mean"] == alone["mse_mean"]


def test_an_application_on_hydra_keeps_its_own(tmp_path):
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "config.yaml").write_text("mine: 1\n")
    with hydra.initialize_config_dir(str(conf), version_base="1.3"):
        omkl.run("algorithm=raker", *QUICK, outputs=tmp_path)
        assert hydra.compose("config").mine == 1
    assert not GlobalHydra.instance().is_initialized()
