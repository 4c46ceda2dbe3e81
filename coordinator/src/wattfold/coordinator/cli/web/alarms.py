"""Conditions that need attention, from one snapshot, the most urgent first.

An alarm with ``until_s`` has a countdown: the end of a lease, or the deadline of a budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.web.rows import node_reason, text
from wattfold.v1 import coordinator_pb2 as pb

ALARMS_MAX = 200
LEVELS = ("alarm", "warning", "notice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A condition of a node, of a job, or (both empty) of the site."""

    level: str
    title: str
    detail: str = ""
    node: str = ""
    job: str = ""
    until_s: float = 0.0
    """Unix seconds; 0 = no countdown."""
    until: str = ""
    """The event at this time."""


def alarms(view: pb.ClusterView) -> list[Alarm]:
    """Return the alarms of a snapshot, at most ALARMS_MAX."""
    found = [*_of_power(view.power, view.time_s)]
    for node in view.nodes:
        found += _of_node(node)
    for job in view.jobs:
        found += _of_job(job)
    return sorted(found, key=lambda alarm: LEVELS.index(alarm.level))[:ALARMS_MAX]


def _of_power(power: pb.Power, now_s: float) -> Iterator[Alarm]:
    if power.over_uw:
        late = not (power.pending_budget_uw and power.pending_deadline_s > now_s)
        yield Alarm(
            level="alarm" if late else "warning",
            title=f"{f.power(power.over_uw)} over the budget",
            detail=text(power.over_reason),
            until_s=0.0 if late else power.pending_deadline_s,
            until="" if late else "deadline",
        )
    elif power.pending_budget_uw:
        yield Alarm(
            level="notice",
            title=f"Budget falls to {f.power(power.pending_budget_uw)}",
            detail=f"{f.power(power.committed_uw)} is committed now",
            until_s=power.pending_deadline_s,
            until="deadline",
        )
    if power.planner:
        yield Alarm(level="alarm", title="The planner cannot plan", detail=text(power.planner))
    for budget in power.announced:
        if budget.obstacle:
            yield Alarm(
                level="warning",
                title=f"Announced budget {f.power(budget.budget_uw)} cannot be met",
                detail=text(budget.obstacle),
                until_s=budget.at_s,
                until="starts",
            )
    if power.unheard_node_ids:
        names = ", ".join(power.unheard_node_ids[:5])
        title = f"{len(power.unheard_node_ids)} nodes have never answered"
        yield Alarm(level="warning", title=title, detail=f"{names}; their power is unknown")


def _of_node(node: pb.Node) -> Iterator[Alarm]:
    name, why = node.node_id, text(node_reason(node))
    if node.state == pb.NODE_STATE_SILENT:
        yield Alarm(
            level="alarm",
            title=f"{name} does not answer",
            detail=f"charged with {f.power(node.committed_uw)} until its lease ends",
            node=name,
            until_s=node.lease_ends_at_s,
            until="lease ends",
        )
    elif node.state == pb.NODE_STATE_DOWN and f.serves(node):
        detail = f"its lease has ended; charged with {f.power(node.committed_uw)}"
        yield Alarm(level="alarm", title=f"{name} is down", detail=detail, node=name)
    elif node.state == pb.NODE_STATE_REFUSED:
        yield Alarm(level="alarm", title=f"{name} is refused", detail=why, node=name)
    elif node.launch_fault:
        title = f"{name} cannot start jobs"
        yield Alarm(level="warning", title=title, detail=text(node.launch_fault), node=name)
    elif node.message and node.state == pb.NODE_STATE_UP:
        yield Alarm(level="warning", title=f"{name} reports a problem", detail=why, node=name)


def _of_job(job: pb.Job) -> Iterator[Alarm]:
    if job.residual_alarm:
        yield Alarm(
            level="warning",
            title=f"Job {job.job_id} works on cores that it has lost",
            detail=text(job.message),
            job=job.job_id,
        )
    if job.confined and job.state == pb.JOB_STATE_RUNNING:
        yield Alarm(
            level="notice",
            title=f"Job {job.job_id} is confined",
            detail="it has not acknowledged its cores; the kernel enforces them",
            job=job.job_id,
        )
