"""Jobs of a resource manager that agents have adopted."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.jobs.spec import ResizeMode


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedJob:
    """A job of another owner, such as Slurm, with the cores that it holds on a node.

    ``allocated`` are the cores that its owner gave it there; empty = not reported, from an earlier
    version. ``mode`` is the effect of a change of its mask.
    """

    job_id: JobId
    cpus: CpuSet
    allocated: CpuSet = CpuSet()  # noqa: RUF009 - immutable
    mode: ResizeMode = ResizeMode.FIXED
    app: str = ""
