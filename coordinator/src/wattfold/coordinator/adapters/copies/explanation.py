"""Answers of `wattfold explain`: why a job waits, or why it has its size and cap."""

from __future__ import annotations

from wattfold.coordinator.adapters.copies import job_messages
from wattfold.coordinator.adapters.copies.manager_views import manager_statements
from wattfold.coordinator.adapters.copies.map_views import statements as map_statements
from wattfold.coordinator.adapters.copies.node_views import (
    attempt_statements,
    boot_statements,
    condition_statements,
    outside_statements,
    start_statements,
    unfinished_reason,
)
from wattfold.coordinator.adapters.copies.outlook_views import LookAhead, ViewInputs
from wattfold.coordinator.adapters.copies.ramp_views import rising_reason
from wattfold.coordinator.adapters.copies.waiting_views import head_of, told_reason
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.adapters.learning.residual import with_residual
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.spec import ResizeMode
from wattfold.coordinator.core.rules.snapshot import snapshot
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb


def explanation(
    job: Job,
    state: State,
    seen: Observations,
    setting: ViewInputs,
    *,
    now_ns: int,
    access: pb.JobAccess,
    trouble: str,
    closed: str,
) -> pb.ExplainResponse:
    """Return the explanation of a job.

    ``trouble`` is the statement about a planner that makes no plans, and ``closed`` the statement
    about nodes that cannot start jobs.
    """
    # The serving process imports this module but never calls this function.
    from wattfold.coordinator.policies.reasons.explain import explain

    message = job_messages.job_message(job, seen, setting.clock, now_ns)
    job_messages.add_resizing(message, state, job)
    job_messages.add_conditions(message, state, job, setting.clock)
    message.access = access
    waits = unfinished_reason(state, job)
    message.reason = waits or message.reason
    reply = pb.ExplainResponse(job=message)
    if job.state in (JobState.PENDING, JobState.STARTING, JobState.RUNNING):
        planned = with_residual(snapshot(state, now_ns), seen)
        reason = told_reason(job, trouble, setting.clock)
        found = explain(planned, job.job_id, setting.policy, reason, head_of(state, job))
        reply.summary = found.summary
        if trouble and trouble != reason:
            reply.lines.append(f"{trouble[:1].upper()}{trouble[1:]}.")
        reply.lines.extend([*found.lines, *map_statements(message)])
        reply.lines.extend(outside_statements(state))
        if job.state is JobState.PENDING and closed:
            reply.lines.append(f"{closed[:1].upper()}{closed[1:]}.")
        reply.lines.extend(start_statements(job, now_ns))
        reply.lines.extend(boot_statements(state, job, now_ns))
        if rises := rising_reason(state, job, setting.clock):
            reply.lines.append(f"It {rises}.")
        ahead = LookAhead(state, seen, setting, now_ns)
        reply.lines.extend(ahead.statements(job))
        ahead.add(message, job)
        reply.job.CopyFrom(message)
    elif job.state is JobState.HELD:
        reply.summary = "Held."
        reply.lines.append(f"`wattfold release {job.job_id}` lets it start.")
    elif job.state is JobState.WAITING:
        message.reason = told_reason(job, trouble, setting.clock)
        reply.summary = f"{message.reason[:1].upper()}{message.reason[1:]}."
        reply.lines.extend(condition_statements(job))
        reply.job.CopyFrom(message)
    elif job.state is JobState.SUSPENDED:
        reply.summary = "Suspended: its processes are stopped."
        if not job.spec.manager:
            reply.lines.append(f"`wattfold resume {job.job_id}` resumes it.")
        reply.lines.append("It keeps its cores and its power, and its time limit is paused.")
    else:
        reply.summary = f"The job is {job.state.value}."
        if waits:
            reply.lines.append(f"It {waits}.")
        if job.following is not None:
            reply.summary = f"{job.reason[:1].upper()}{job.reason[1:]}."
    reply.lines.extend(manager_statements(state, job))
    if message.message:
        reply.lines.append(message.message)
    reply.lines.extend(attempt_statements(job))
    if job.spec.mode_source:
        fixed = job.spec.mode is ResizeMode.FIXED
        how = "Never resized" if fixed else f"Resized by {job.spec.mode.value}"
        reply.lines.append(f"{how}: {job.spec.mode_source}.")
    return reply
