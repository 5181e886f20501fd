"""``hydra/launcher=batch``, in the only namespace that Hydra takes launchers from."""

from collections.abc import Sequence
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher

CONFIG = {
    "_target_": "hydra_plugins.omkl_batch.BatchLauncher",
    "workers": None,  # processes; null: one for each `threads` cores
    "together": None,  # jobs that share a pass over their stream, at most; 1: none does
}
ConfigStore.instance().store(group="hydra/launcher", name="batch", node=CONFIG, provider="omkl")


class BatchLauncher(Launcher):
    """Hands everything to ``batch_launcher``, which is imported when a sweep begins."""

    def __init__(self, workers: int | None, together: int | None) -> None:
        self.workers, self.together = workers, together

    def setup(self, *, hydra_context: Any, task_function: Any, config: Any) -> None:
        from omkl.commands.batch_launcher import Batch

        self.batch = Batch(hydra_context, config, self.workers, self.together)

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        return self.batch.launch(job_overrides, initial_job_idx)
