"""Masks of the jobs that an agent finds at its start.

The kernel has them, because a record on disk may be older than the last change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs.cpuset import MaskControl, MaskMechanism
from wattfold.nodeagent.core.masks import apart
from wattfold.nodeagent.service.jobs.job_processes import members
from wattfold.nodeagent.service.jobs.records import Job


def found_masks(
    jobs: Mapping[JobId, Job], control: MaskControl, boot_id: str, node: CpuSet
) -> dict[JobId, CpuSet]:
    """Return the masks that the kernel enforces for the jobs of an earlier agent of this boot.

    Cpusets are disjoint. Affinities of jobs that hold cores are made disjoint; the processes of a
    resident job are confined, but hold no core. A job whose mask cannot be read is left out.
    """
    found: dict[JobId, CpuSet] = {}
    for job in jobs.values():
        if job.live and job.boot_id == boot_id and not job.owner:
            with contextlib.suppress(OSError):
                found[job.id] = _kernel_mask(job, control)
    if control.mechanism is not MaskMechanism.AFFINITY:
        return found
    holders = {job_id: mask for job_id, mask in found.items() if not jobs[job_id].resident}
    return found | apart(holders, {job_id: jobs[job_id].cpus for job_id in holders}, node)


def _kernel_mask(job: Job, control: MaskControl) -> CpuSet:
    """Return the mask that the kernel enforces for a job. Its tasks have parts of the mask."""
    pids = members(job) if job.division else []
    masks = [control.read(job.id, pid) for pid in pids or [job.pid]]
    return CpuSet.of(cpu for mask in masks for cpu in mask)
