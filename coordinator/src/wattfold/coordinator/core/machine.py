"""The coordinator's decision core: `handle(event, now) -> actions`.

Events are past facts, actions are what to do next. All state changes happen here, in one thread,
without waiting for anything; the same events in the same order give the same state, which is how a
restarted coordinator comes back from its journal. The work is split by subject: `jobs` and `nodes`
take an event into the state, `applier` checks plans, `reconcile` finds the steps that are due.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core import job_events, node_events
from wattfold.coordinator.core.applier import accept
from wattfold.coordinator.core.job import Assignment, Job, JobState
from wattfold.coordinator.core.ledger import PowerLedger
from wattfold.coordinator.core.node import Node, NodeState
from wattfold.coordinator.core.plan import Snapshot
from wattfold.coordinator.core.reconcile import reconcile
from wattfold.coordinator.core.state import (
    CoreSettings,
    State,
    StoredProfile,
    check_invariants,
    profile_key,
    snapshot,
)

Handler = Callable[[State, Any, int], list[act.Action]]


class CoordinatorCore:
    """State machine of the coordinator. ``now_ns`` is coordinator time and never goes back."""

    def __init__(self, budget_uw: int, settings: CoreSettings | None = None) -> None:
        self.state = State(
            settings=settings or CoreSettings(),
            ledger=PowerLedger(budget_uw=budget_uw),
        )

    def handle(self, event: ev.Event, now_ns: int, cause: str = "") -> list[act.Action]:
        """Takes one event in and returns what to do, checked against all invariants."""
        state = self.state
        out = node_events.pass_time(state, now_ns)
        out += _HANDLERS[type(event)](state, event, now_ns)
        out += reconcile(state, now_ns, cause)
        out += _solve(state, now_ns, cause)
        out += _wake(state, now_ns, cause)
        check_invariants(state)
        return out

    def snapshot(self, now_ns: int) -> Snapshot:
        """What a policy may plan with now."""
        return snapshot(self.state, now_ns)


def _solve(state: State, now_ns: int, cause: str) -> list[act.Action]:
    if state.revisit_ns and now_ns >= state.revisit_ns:
        state.revisit_ns = 0
        state.plan_needed = state.plan_needed or "revisit"
    if not state.plan_needed or state.solving:
        return []
    if not any(node.reachable for node in state.nodes.values()):
        return []
    state.plan_needed = ""
    if not any(not job.final and job.state is not JobState.HELD for job in state.jobs.values()):
        return []
    state.rounds += 1
    state.solving = state.rounds
    return [act.Solve(round=state.rounds, cause=cause)]


def _wake(state: State, now_ns: int, cause: str) -> list[act.Action]:
    """Asks for the next time at which something is due without an event."""
    times: list[int | None] = [state.ledger.next_settling_ns(now_ns), state.revisit_ns or None]
    times.append(state.ledger.over_deadline_ns or None)
    for node in state.nodes.values():
        if node.reachable and node.admitted and not node.lease_request:
            times.append(node.lease_next_ns)
        if node.caps_retry_ns > now_ns:
            times.append(node.caps_retry_ns)
        if node.state is NodeState.SILENT:
            times.append(node.lease_until_ns)
    for job in state.placed():
        times += [rank.retry_ns for rank in job.ranks.values() if rank.retry_ns > now_ns]
    due = [time for time in times if time is not None and time > now_ns]
    if not due:
        return []
    at_ns = min(due)
    if now_ns < state.woken_at_ns <= at_ns:
        return []
    state.woken_at_ns = at_ns
    return [act.WakeAt(at_ns=at_ns, cause=cause)]


def _started(state: State, event: ev.CoordinatorStarted, now_ns: int) -> list[act.Action]:
    # Renewals may be missing at the end of the journal, and were for the lease of the old settings.
    longest_ns = node_events.longest_lease_ns(state)
    state.epoch, state.lease_ns = event.epoch, event.lease_ns
    state.command_timeout_ns = event.command_timeout_ns
    longest_ns = max(longest_ns, node_events.longest_lease_ns(state))
    state.solving, state.woken_at_ns = 0, 0
    for node in state.nodes.values():
        node_events.lose_contact(state, node, now_ns)
        node.lease_until_ns = now_ns + longest_ns
        if node.state is not NodeState.REFUSED:
            node.message = "not heard of since the coordinator started"
    for job in state.placed():
        for rank in job.ranks.values():
            rank.signalled, rank.retry_ns = False, 0
    return []


def _budget(state: State, event: ev.BudgetChanged, now_ns: int) -> list[act.Action]:
    state.ledger.budget_uw = event.budget_uw
    state.ledger.over_deadline_ns = 0
    if state.ledger.room_uw < 0:
        state.ledger.over_deadline_ns = now_ns + max(event.deadline_ns, 1)
    state.plan_needed = "budget changed"
    for node in state.nodes.values():
        if not node.admitted:
            node_events.admit(state, node)
    return []


def _registered(state: State, event: ev.NodeRegistered, now_ns: int) -> list[act.Action]:
    del now_ns
    node = state.nodes.get(event.node_id)
    if node is None:
        state.nodes[event.node_id] = Node(node_id=event.node_id, address=event.address)
    else:
        node.address, node.retired = event.address, False
    return []


def _retired(state: State, event: ev.NodeRetired, now_ns: int) -> list[act.Action]:
    node = state.nodes.get(event.node_id)
    if node is None:
        return []
    node.retired = True
    if node.reachable:
        node_events.lose_contact(state, node, now_ns)
    node.message = "not in the configuration any more"
    return node_events.pass_time(state, now_ns)


def _proposed(state: State, event: ev.PlanProposed, now_ns: int) -> list[act.Action]:
    if event.round.number != state.solving:
        return []
    state.solving, state.last_round = 0, event.round
    state.revisit_ns = event.plan.revisit_ns
    accepted = accept(event.plan, state, now_ns)
    for waiting in event.plan.waiting:
        if waiting.job_id in state.jobs:
            state.jobs[waiting.job_id].reason = waiting.reason
    for refusal in accepted.refusals:
        if refusal.job_id in state.jobs:
            state.jobs[refusal.job_id].reason = f"left out of the last plan: {refusal.reason}"
    if accepted.refusals:
        state.revisit_ns = state.revisit_ns or now_ns + state.settings.retry_ns
    for assignment in accepted.changes:
        _retarget(state.jobs[assignment.job_id], assignment, now_ns)
    starting = {assignment.job_id for assignment in accepted.starts}
    for job in state.placed():
        if job.state is JobState.STARTING and not job.ranks and job.job_id not in starting:
            job.state, job.target = JobState.PENDING, None
    for assignment in accepted.starts:
        job = state.jobs[assignment.job_id]
        job.state, job.target, job.reason = JobState.STARTING, assignment, ""
    return []


def _retarget(job: Job, assignment: Assignment, now_ns: int) -> None:
    job.advance_progress(now_ns)
    if job.target is not None and job.target.shares != assignment.shares:
        job.resizes += 1
        job.resized_ns = now_ns
    job.target = assignment
    job.reason = ""


def _plan_failed(state: State, event: ev.PlanFailed, now_ns: int) -> list[act.Action]:
    if event.round.number == state.solving:
        state.solving, state.last_round = 0, event.round
        state.revisit_ns = now_ns + state.settings.retry_ns
        for job in state.jobs.values():
            if job.state is JobState.PENDING:
                job.reason = f"no plan: {event.reason}"
    return []


def _profile(state: State, event: ev.ProfileStored, now_ns: int) -> list[act.Action]:
    profile = event.profile
    entry = StoredProfile(stored=event, stored_ns=now_ns)
    state.profiles[profile_key(profile.app, profile.unit)] = entry
    if any(job.spec.app == profile.app and not job.final for job in state.jobs.values()):
        state.plan_needed = "profile changed"
    return []


def _nothing(state: State, event: ev.TimePassed, now_ns: int) -> list[act.Action]:
    del state, event, now_ns
    return []


_HANDLERS: dict[type, Handler] = {
    ev.CoordinatorStarted: _started,
    ev.BudgetChanged: _budget,
    ev.NodeRegistered: _registered,
    ev.NodeRetired: _retired,
    ev.ProfileStored: _profile,
    ev.PlanProposed: _proposed,
    ev.PlanFailed: _plan_failed,
    ev.TimePassed: _nothing,
    ev.NodeConnected: node_events.connected,
    ev.NodeSilent: node_events.silent,
    ev.LeaseRenewed: node_events.lease_renewed,
    ev.LeaseUnconfirmed: node_events.lease_unconfirmed,
    ev.CapsAnswered: node_events.caps_answered,
    ev.CapsUnconfirmed: node_events.caps_unconfirmed,
    ev.JobSubmitted: job_events.submitted,
    ev.JobCancelRequested: job_events.cancel_requested,
    ev.JobHeld: job_events.held,
    ev.JobReleased: job_events.released,
    ev.MaskConfirmed: job_events.mask_confirmed,
    ev.MaskFailed: job_events.mask_failed,
    ev.JobLaunched: job_events.launched,
    ev.LaunchFailed: job_events.launch_failed,
    ev.ProcessEnded: job_events.process_ended,
    ev.ProgressReported: job_events.progress_reported,
}
