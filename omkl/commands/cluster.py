"""Run the jobs of a sweep by a launcher of Hydra, such as those for Slurm and Ray.

    pip install hydra-submitit-launcher
    python -m omkl.commands.cluster -m hydra/launcher=submitit_slurm hydra.launcher.partition=cpu \\
        algorithm=raker,gf dataset=naval 'seed=range(10)'

Every job writes its run folder, and ``omkl-report show`` makes the table. Overrides are those of
Hydra, without the shorthand of ``omkl-run``.
"""

from __future__ import annotations

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from omkl.config.compose import help_as_text, store_defaults
from omkl.utils import conf

store_defaults()


@hydra.main(version_base="1.3", config_path=str(conf.folder()), config_name=conf.main_file().stem)
def main(config: DictConfig) -> None:
    """Run one job. RuntimeError if it fails, so that the launcher counts it as failed."""
    from omkl.config import schema
    from omkl.config.compose import resolved
    from omkl.experiment import viewers
    from omkl.report import console

    settings = schema.read(resolved(config, HydraConfig.get().overrides.task))
    outcome = viewers.run_and_draw(settings)
    if outcome.status == "failed":
        raise RuntimeError(outcome.run.result["error"]["message"])
    if note := viewers.track([outcome.run], settings):
        print(f"Note: {note}")
    print(f"{outcome.run.folder}: {console.loss_text(outcome.run.result)}")


if __name__ == "__main__":
    with help_as_text():
        main()
