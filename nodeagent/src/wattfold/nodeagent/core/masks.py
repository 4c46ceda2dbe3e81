"""Core masks: permitted masks, and the order of steps when a job changes cores.

Masks of different jobs on a node are disjoint, within the node and never empty. A job is notified
to leave cores before it is confined, and is admitted to new cores before it is notified of them:
narrowing only the affinity would make spinning OpenMP barriers collapse.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.nodeagent.core.errors import InvalidRequest, WrongState


class StepKind(enum.Enum):
    """Action in one step of a change."""

    CONFINE = "confine"
    """Set the kernel's mask of the job."""
    TELL = "tell"
    """Send the mask to the shims and wait for their acknowledgement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskStep:
    """One step of a change of mask."""

    kind: StepKind
    cpus: CpuSet


def parse_cpus(text: str, *, what: str) -> CpuSet:
    """Parse the CPU list of a request. Raises InvalidRequest."""
    try:
        return CpuSet.parse(text)
    except ValueError as error:
        raise InvalidRequest(f"{what}: {error}") from None


def check_mask(job: JobId, cpus: CpuSet, node: CpuSet, held: Mapping[JobId, CpuSet]) -> None:
    """Raise InvalidRequest or WrongState if the job may not have these CPUs.

    ``held`` are the CPUs of all jobs on the node; the entry of the job itself is ignored.
    """
    if not cpus:
        raise InvalidRequest(f"job {job}: the mask is empty; a job needs at least one CPU")
    if foreign := cpus - node:
        raise InvalidRequest(
            f"job {job}: CPUs {foreign} are not CPUs of this node, which has {node}"
        )
    for other, other_cpus in held.items():
        if other != job and (shared := cpus & other_cpus):
            raise WrongState(f"job {job}: CPUs {shared} are held by job {other}")


def apart(
    found: Mapping[JobId, CpuSet], recorded: Mapping[JobId, CpuSet], node: CpuSet
) -> dict[JobId, CpuSet]:
    """Return disjoint masks of jobs from the affinities of their processes.

    A program may set its affinity to any core. If it touches cores outside the node, or of another
    job, the mask that was recorded for its job counts. ``recorded`` masks are disjoint.
    """

    def touches(job: JobId) -> bool:
        others = [
            mask for masks in (found, recorded) for other, mask in masks.items() if other != job
        ]
        return not found[job] <= node or any(found[job] & mask for mask in others)

    return {job: recorded[job] if touches(job) else found[job] for job in found}


def change_steps(old: CpuSet, new: CpuSet) -> tuple[MaskStep, ...]:
    """Return the steps from one mask to another: widen, notify, narrow, without needless steps."""
    tell = MaskStep(kind=StepKind.TELL, cpus=new)
    grow = () if new <= old else (MaskStep(kind=StepKind.CONFINE, cpus=old | new),)
    shrink = () if old <= new else (MaskStep(kind=StepKind.CONFINE, cpus=new),)
    return (*grow, tell, *shrink)
