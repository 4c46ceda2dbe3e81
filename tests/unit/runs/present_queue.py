"""Small present queues for tests of what-if."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from simulation.cluster import S, W, node_spec

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.simulator.runs.assumed_work import ReportedProgress, assumed_work, expected_end
from wattfold.simulator.runs.site_queue import QueuedJob, Seat, SiteNode, SiteQueue

NOW_NS = 7200 * S
NODES = [node_spec(f"n{index}") for index in range(3)]
KIND = NODES[0].kind
FULL_W, FLOOR_W = 55, 19
"""Charge of a node at its maximum cap, and at its floor."""


def spec(size: int = 1, seconds: int = 600, low: int = 0, **more: Any) -> JobSpec:
    """A job on whole nodes with an estimate; with ``low`` it is moldable."""
    values: dict[str, Any] = {
        "name": "job",
        "app": "app",
        "argv": ("job",),
        "kind": JobKind.MOLDABLE if low else JobKind.RIGID,
        "unit": SizeUnit.NODES,
        "size_min": low or size,
        "size_max": size,
        "time_ns": seconds * S,
    }
    return JobSpec(**values | more)


def waiting(name: str, size: int = 1, seconds: int = 600, low: int = 0, **more: Any) -> QueuedJob:
    request = spec(size, seconds, low)
    job = QueuedJob(
        job_id=JobId(name),
        spec=request,
        submitted_ns=NOW_NS - 60 * S,
        work=assumed_work(request, None, KIND),
    )
    return replace(job, **more)


def running(
    name: str, node: int, seconds: int = 1200, ran_s: int = 300, over_s: float = 0.0, **more: Any
) -> QueuedJob:
    """A job alone on a node at full power, with an estimate."""
    request = spec(1, seconds, **more)
    left_s = 0.0 if over_s else float(seconds - ran_s)
    found = expected_end(
        request,
        None,
        KIND,
        ReportedProgress(
            size=1,
            cap_uw=45 * W,
            ran_s=ran_s,
            done=min(ran_s / seconds, 1.0),
            remaining_s=left_s,
            over_s=over_s,
        ),
    )
    assignment = Assignment(
        job_id=JobId(name),
        size=1,
        cap_uw=45 * W,
        shares=(Share(node_id=NODES[node].node_id, cpus=NODES[node].cpus),),
        expected_total_s=found.total_s,
    )
    seat = Seat(started_ns=NOW_NS - ran_s * S, assignment=assignment, done=found.done)
    return QueuedJob(
        job_id=JobId(name),
        spec=request,
        submitted_ns=NOW_NS - (ran_s + 10) * S,
        work=found.work,
        seat=seat,
    )


def queue(*jobs: QueuedJob, budget_w: float = 3 * FULL_W, **more: Any) -> SiteQueue:
    made = SiteQueue(
        origin_s=1_700_000_000.0,
        now_ns=NOW_NS,
        nodes=tuple(SiteNode(spec=node) for node in NODES),
        jobs=jobs,
        budget_uw=round(budget_w * W),
    )
    return replace(made, **more)


def mixed() -> SiteQueue:
    """Two running jobs and waiting jobs of several kinds, short of power."""
    return queue(
        running("r0", 0),
        running("r1", 1, seconds=2400),
        waiting("w0", 2, 900),
        waiting("w1", 1, 300),
        waiting("w2", 2, 600, low=1),
        waiting("w3", 1, 4000),
        budget_w=3 * FULL_W - 12,
    )
