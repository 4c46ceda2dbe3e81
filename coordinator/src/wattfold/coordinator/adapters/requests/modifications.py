"""Checks of requests that change a submission. Refusals say what is possible.

As in Slurm, the owner of a job may lower its priority and shorten its time limit at any time, and
raise the limit only while the job waits. Operators may do everything that the job allows.
"""

from __future__ import annotations

import math
from dataclasses import replace

from wattfold.contract.ids import JOB_NAME_MAX, valid_job_name
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.requests import field_checks
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.adapters.requests.possible import check_possible
from wattfold.coordinator.adapters.requests.queues import limits_in, queued
from wattfold.coordinator.adapters.requests.reservations import check_reservation
from wattfold.coordinator.adapters.requests.submissions import TimeLimits
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.reservation import ENDLESS_NS, Windows
from wattfold.coordinator.core.rules.jobs import managed_jobs
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.v1 import coordinator_pb2 as pb

_WAITING = (JobState.HELD, JobState.WAITING, JobState.PENDING)
_CHANGEABLE = (*_WAITING, JobState.STARTING, JobState.RUNNING, JobState.SUSPENDED)


def modification(
    request: pb.ModifyJobRequest,
    job: Job,
    state: State,
    clock: Clock,
    site: TimeLimits,
    *,
    operator: bool,
) -> ev.JobModified:
    """Return the requested change. Raises InvalidRequestError if it is not permitted."""
    if why := managed_jobs.refusal(job, "update"):
        raise InvalidRequestError(why)
    if job.state not in _CHANGEABLE:
        ends = "has ended" if job.final else "is ending"
        raise InvalidRequestError(f"the job {ends}: it is {job.state.value}")
    event = ev.JobModified(
        job_id=job.job_id,
        name=request.name if request.HasField("name") else None,
        limit_ns=request.limit_ns if request.HasField("limit_ns") else None,
        priority=_priority(request, job, state),
        due_ns=_due_ns(request, clock),
        size_min=request.size_min if request.HasField("size_min") else None,
        size_max=request.size_max if request.HasField("size_max") else None,
    )
    after = event.applied_to(job.spec)
    if after.name != job.spec.name:
        _check_name(after, job)
    if after.priority > job.spec.priority and not operator:
        raise InvalidRequestError(
            f"priority {after.priority:g} is above the current {job.spec.priority:g}; only "
            "operators may raise a priority"
        )
    if after.limit_ns != job.spec.limit_ns:
        _check_limit(after, job, state, clock.now_ns(), site, operator=operator)
    if (after.size_min, after.size_max) != (job.spec.size_min, job.spec.size_max):
        _check_size(after, job, state, operator=operator)
    if job.state in _WAITING:
        check_reservation(after, state, clock.now_ns())
    return event


def seconds(time_ns: int) -> str:
    """Return a duration in exact seconds, as refusals and changes state it; 0 = none."""
    return f"{time_ns / NS_PER_S:.10g} s" if time_ns else "none"


def _priority(request: pb.ModifyJobRequest, job: Job, state: State) -> float | None:
    if not request.HasField("priority"):
        return None
    if not request.priority > 0:
        raise InvalidRequestError(f"priority {request.priority:g} must be above 0")
    queue = state.queues.get(job.spec.queue)
    factor = queue.priority if queue else 1.0
    return factor * field_checks.positive("priority", request.priority)


def _due_ns(request: pb.ModifyJobRequest, clock: Clock) -> int | None:
    if not request.HasField("due_at_s"):
        return None
    if not math.isfinite(request.due_at_s):
        raise InvalidRequestError(f"due date {request.due_at_s} is not a time")
    return field_checks.due_ns(pb.JobSpec(due_at_s=request.due_at_s), clock)


def _check_name(after: JobSpec, job: Job) -> None:
    if not valid_job_name(after.name):
        raise InvalidRequestError(
            f"job name {after.name[:40]!r} must have 1 to {JOB_NAME_MAX} printable characters"
        )
    if job.ranks and "%x" in after.stdout_path + after.stderr_path:
        raise InvalidRequestError(
            "the names of the output files contain the job name (%x), and the files are open; "
            "rename the job while it waits"
        )


def _check_limit(
    after: JobSpec, job: Job, state: State, now_ns: int, site: TimeLimits, *, operator: bool
) -> None:
    limit_ns, waits = after.limit_ns, job.state in _WAITING
    raised = not limit_ns or 0 < job.spec.limit_ns < limit_ns
    text = seconds(limit_ns)
    if raised and not operator:
        if not waits:
            raise InvalidRequestError(
                f"its time limit is {seconds(job.spec.limit_ns)}; the limit of a "
                f"{job.state.value} job can be raised (to {text}) only by operators"
            )
        most_ns = limits_in(state.queues.get(after.queue), site).max_ns
        if most_ns and (not limit_ns or limit_ns > most_ns):
            raise InvalidRequestError(
                f"time limit {text} is above {seconds(most_ns)}, the maximum of its queue or site"
            )
    ran_ns = _ran_ns(job, now_ns)
    if limit_ns and limit_ns <= ran_ns:
        raise InvalidRequestError(
            f"the job has already run for {seconds(ran_ns)}, which exceeds the time limit "
            f"of {text}; end it with `wattfold cancel`"
        )
    if raised and job.ranks:
        end_ns = now_ns + limit_ns - ran_ns if limit_ns else ENDLESS_NS
        why = Windows(state.reservations.values()).why(after, job.ranks, now_ns, end_ns)
        if why:
            raise InvalidRequestError(f"with a time limit of {text}, {why}")


def _ran_ns(job: Job, now_ns: int) -> int:
    """Return the run time that counts for the time limit."""
    if job.started_ns < 0 or job.state in _WAITING:
        return job.ran_ns
    return now_ns - job.started_ns - job.suspended_for_ns(now_ns) + job.ran_ns


def _check_size(after: JobSpec, job: Job, state: State, *, operator: bool) -> None:
    low, high = after.size_min, after.size_max
    if job.state not in _WAITING:
        raise InvalidRequestError(
            f"the sizes of a {job.state.value} job are fixed; `wattfold resize` changes its size "
            "within them"
        )
    if not 1 <= low <= high:
        raise InvalidRequestError(f"size {low}-{high}: give a minimum from 1 up to the maximum")
    if after.kind is JobKind.RIGID and low != high:
        raise InvalidRequestError(f"a rigid job has one size, not {low}-{high}")
    if after.unit is SizeUnit.CORES and low < after.tasks_per_node:
        raise InvalidRequestError(
            f"{after.tasks_per_node} tasks on a node need a core each, but the minimum size is "
            f"{low}"
        )
    if not operator:
        queued(replace(after, priority=1.0), state.queues.get(after.queue))
    features = {node.node_id: node.all_features for node in state.nodes.values()}
    check_possible(after, [node.spec for node in state.nodes.values() if node.spec], features)
