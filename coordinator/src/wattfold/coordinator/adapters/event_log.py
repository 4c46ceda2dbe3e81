"""Log lines about normal operation (jobs, nodes, the budget), one line per event."""

from __future__ import annotations

import logging

from wattfold.contract.log_text import line
from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core.model import configuration, reports
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.emergency import EmergencyBegun, EmergencyEnded
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.state.state import State

log = logging.getLogger("wattfold.coordinator")


def tell(event: ev.Event, state: State, now_ns: int, cause: str, budget_uw_before: int) -> None:
    """Log an event after it was handled, with its number as the cause of its effects."""
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
        case ev.BudgetsScheduled():
            # A schedule that became impossible before it was stored announced nothing.
            there = sum(one.schedule == event.schedule for one in state.announced)
            _say("budgets_scheduled", cause, schedule=event.schedule, announced=there)
        case EmergencyBegun():
            short_w = _watts(state.emergency.short_uw if state.emergency else 0)
            told = {"limit_w": _watts(event.limit_uw), "below_floors_by_w": short_w}
            log.warning(line("emergency_begun", **told, cause=cause))
        case EmergencyEnded():
            log.warning(line("emergency_ended", cause=cause))
        case ev.BudgetCancelled():
            _say("budget_cancelled", cause, number=event.number)
        case configuration.PolicyChanged():
            _say("policy_changed", cause, policy=event.name)
        case configuration.NodeRegistered():
            _say("node_registered", cause, node=event.node_id, address=event.address)
        case reports.LaunchFaultReported(reason=""):
            _say("node_opened", cause, node=event.node_id)
        case reports.LaunchFaultReported() | reports.LaunchFailed(node_fault=True):
            _say("node_closed", cause, node=event.node_id, reason=event.reason)
        case ev.JournalRestored():
            _say("journal_restored", cause, epoch=event.epoch, jobs_up_to=event.submissions)
        case ev.CoordinatorStarted():
            _tell_start(event, cause)
        case ev.CalendarStepped():
            _tell_step(event.by_ns, cause)
    budget_uw, changed = state.ledger.budget_uw, isinstance(event, ev.BudgetChanged)
    if changed or budget_uw != budget_uw_before:
        # Changed by an operator, or by an announcement.
        told = {"budget_w": _watts(budget_uw), "before_w": _watts(budget_uw_before)}
        _say("budget_changed", cause, **told, by="order" if changed else "announcement")
    if state.index.disbelieved_ns:
        told_s = f"{state.index.disbelieved_ns / 1e9:.0f}"
        reason = "nodes report shorter run times; check the calendar of this machine"
        log.warning(line("gap_not_confirmed", by_s=told_s, reason=reason, cause=cause))
    for job_id in state.index.news:
        _tell_job(state.jobs[job_id], cause)


def _tell_start(event: ev.CoordinatorStarted, cause: str) -> None:
    _say("coordinator_started", cause, epoch=event.epoch)
    if event.calendar_step_ns:
        _tell_step(event.calendar_step_ns, cause)
    if event.gap_ns >= 0:
        reason = "not counted by a monotonic clock; nodes report how long their jobs ran"
        _say("gap_by_calendar", cause, away_s=f"{event.gap_ns / 1e9:.0f}", reason=reason)


def _tell_step(by_ns: int, cause: str) -> None:
    reason = "announced budgets, reservations, due dates and begin times keep their times"
    log.warning(line("calendar_stepped", by_s=f"{by_ns / 1e9:+.3f}", reason=reason, cause=cause))


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
