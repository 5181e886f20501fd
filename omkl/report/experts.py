"""What a learner of a run weighs: kernels, or experts that are none."""

from __future__ import annotations

from omkl.core.kernels import FAMILIES
from omkl.runs.run_folder import Run


def has_kernels(run: Run) -> bool:
    """Whether its experts are kernels: of known families, or of those that its dictionary names.

    These may be of a module outside the package, which is not known where the run is read.
    """
    kernels = run.config.get("kernels")
    parts = kernels.get("parts") if isinstance(kernels, dict) else None
    listed = parts if isinstance(parts, list) else []
    own = [part.get("family") for part in listed if isinstance(part, dict)]
    return set(run.curves["kernel_family"].tolist()) <= {*FAMILIES, *map(str, own)}


def expert_names(run: Run) -> list[str]:
    """Names of experts that are no kernels, with their lengths where several have one name."""
    names = run.curves["kernel_family"].tolist()
    lengths = run.curves["kernel_bandwidth"].tolist()
    return [
        f"{name}, length {length:g}" if names.count(name) > 1 else name
        for name, length in zip(names, lengths, strict=True)
    ]
