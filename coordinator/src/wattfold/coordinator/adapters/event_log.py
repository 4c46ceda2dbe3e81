"""Log lines of what happens in normal work: jobs, nodes, the budget; one line an event."""

from __future__ import annotations

import logging

from wattfold.contract.log_text import line
from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core.job import Job, JobState
from wattfold.coordinator.core.state import State

log = logging.getLogger("wattfold.coordinator")


def tell(event: ev.Event, state: State, now_ns: int, cause: str, budget_uw_before: int) -> None:
    """Logs an event that was handled, with its number as the cause of what follows from it."""
    if not log.isEnabledFor(logging.INFO):
        return
    match event:
        case ev.JobSubmitted():
            spec = event.spec
            _say("job_submitted", cause, job=event.job_id, user=spec.user, app=spec.app)
        case ev.JobCancelRequested():
            _say("job_cancel_requested", cause, job=event.job_id)
        case ev.JobHeld():
            _say("job_held", cause, job=event.job_id)
        case ev.JobReleased():
            _say("job_released", cause, job=event.job_id)
        case ev.JobRequeueRequested():
            _say("job_requeue_requested", cause, job=event.job_id, reason=event.reason)
        case ev.BudgetAnnounced():
            in_s = f"{(event.at_ns - now_ns) / 1e9:.0f}"
            _say("budget_announced", cause, budget_w=_watts(event.budget_uw), in_s=in_s)
        case ev.BudgetCancelled():
            _say("budget_cancelled", cause, number=event.number)
        case ev.NodeRegistered():
            _say("node_registered", cause, node=event.node_id, address=event.address)
        case ev.JournalRestored():
            _say("journal_restored", cause, epoch=event.epoch, jobs_up_to=event.submissions)
        case ev.CoordinatorStarted():
            _say("coordinator_started", cause, epoch=event.epoch)
    budget_uw, changed = state.ledger.budget_uw, isinstance(event, ev.BudgetChanged)
    if changed or budget_uw != budget_uw_before:
        # By an order, or as it was announced.
        told = {"budget_w": _watts(budget_uw), "before_w": _watts(budget_uw_before)}
        _say("budget_changed", cause, **told, by="order" if changed else "announcement")
    for job_id in state.index.news:
        _tell_job(state.jobs[job_id], cause)


def _watts(power_uw: int) -> str:
    return f"{w_from_uw(power_uw):.1f}"


def _tell_job(job: Job, cause: str) -> None:
    if job.state is JobState.RUNNING and job.target is not None:
        nodes = ",".join(share.node_id for share in job.target.shares)
        _say("job_started", cause, job=job.job_id, node=nodes, size=job.target.size)
    elif job.state is JobState.SUSPENDED:
        _say("job_suspended", cause, job=job.job_id)
    elif job.state in (JobState.PENDING, JobState.HELD):
        _say("job_requeued", cause, job=job.job_id, attempt=job.attempt, reason=job.reason)
    elif job.final:
        told = {"message": job.message} if job.message else {}
        _say(
            "job_ended",
            cause,
            job=job.job_id,
            state=job.state.value,
            exit_code=job.exit_code,
            **told,
        )


def _say(event: str, cause: str, **values: object) -> None:
    log.info(line(event, **values, cause=cause))
