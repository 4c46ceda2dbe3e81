"""Core masks: what is allowed, and in which order a job changes cores.

Masks of different jobs on a node are disjoint, within the node and never empty. A job is told to
leave cores before it is confined, and is let onto new cores before it is told of them: narrowing
the affinity alone makes spinning OpenMP barriers collapse.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.nodeagent.core.errors import InvalidRequest, WrongState


class StepKind(enum.Enum):
    """What is done in one step of a change."""

    CONFINE = "confine"
    """Set the kernel's mask of the job."""
    TELL = "tell"
    """Send the mask to the shims and wait for their acknowledgement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a change of mask."""

    kind: StepKind
    cpus: CpuSet


def parse_cpus(text: str, *, what: str) -> CpuSet:
    """A CPU list of a request. Raises InvalidRequest."""
    try:
        return CpuSet.parse(text)
    except ValueError as error:
        raise InvalidRequest(f"{what}: {error}") from None


def check_mask(job: JobId, cpus: CpuSet, node: CpuSet, held: Mapping[JobId, CpuSet]) -> None:
    """Raises InvalidRequest or WrongState if the job may not have these CPUs.

    ``held`` are the CPUs of all jobs on the node; that of the job itself is not looked at.
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


def change_steps(old: CpuSet, new: CpuSet) -> tuple[Step, ...]:
    """The steps from one mask to another: widen, tell, tighten, leaving out what is not needed."""
    tell = Step(kind=StepKind.TELL, cpus=new)
    grow = () if new <= old else (Step(kind=StepKind.CONFINE, cpus=old | new),)
    shrink = () if old <= new else (Step(kind=StepKind.CONFINE, cpus=new),)
    return (*grow, tell, *shrink)
