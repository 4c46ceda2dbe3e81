"""The coordinator's decision core: `handle(event, now) -> actions`.

Events are past facts; actions are the next steps. All state changes happen here, in one thread,
without waiting. The same events in the same order give the same state, so a restarted coordinator
recovers its state from the journal. The work is split by subject: modules of `rules` apply events
to the state, `applier` checks plans, and `reconcile` finds the steps that are due.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.applier import accept
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import configuration, reports
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.promise import Promise
from wattfold.coordinator.core.model.jobs.resize_cost import known_of
from wattfold.coordinator.core.model.node import Node
from wattfold.coordinator.core.model.plan import PlanningRound, Snapshot, Waiting
from wattfold.coordinator.core.power.ledger import PowerLedger
from wattfold.coordinator.core.reconcile import reconcile
from wattfold.coordinator.core.rules import calendar_events, settings_events
from wattfold.coordinator.core.rules.accounts import fair_share
from wattfold.coordinator.core.rules.accounts import limits as account_limits
from wattfold.coordinator.core.rules.invariants import (
    IncrementalChecker,
    check_invariants,
    check_part,
)
from wattfold.coordinator.core.rules.job_arrays import array_events, arrays
from wattfold.coordinator.core.rules.jobs import (
    attempt_events,
    job_ends,
    job_events,
    preemption,
    run_time_predictions,
    start_conditions,
    training_events,
)
from wattfold.coordinator.core.rules.jobs.adoption import unstarted
from wattfold.coordinator.core.rules.jobs.restart_target import firm, restarts
from wattfold.coordinator.core.rules.nodes import (
    decided_sleep,
    node_events,
    node_orders,
    reservation_events,
)
from wattfold.coordinator.core.rules.power import admission, budget_events, cap_events, emergency
from wattfold.coordinator.core.rules.snapshot import snapshot
from wattfold.coordinator.core.state.index import Touched
from wattfold.coordinator.core.state.state import (
    CoreSettings,
    State,
    StoredCertificate,
    StoredProfile,
    profile_key,
)

Handler = Callable[[State, Any, int], list[act.Action]]


class CoordinatorCore:
    """State machine of the coordinator. ``now_ns`` is coordinator time and never decreases."""

    def __init__(self, budget_uw: int, settings: CoreSettings | None = None) -> None:
        self.state = State(
            settings=settings or CoreSettings(),
            ledger=PowerLedger(budget_uw=budget_uw),
        )
        self.touched = Touched()
        """Jobs and nodes touched by the last event."""
        self._checker = IncrementalChecker()

    def begin_anew(self, state: State) -> None:
        """Replace the state, and forget everything derived from the previous state."""
        self.state, self.touched, self._checker = state, Touched(), IncrementalChecker()

    def continue_with(self, state: State) -> None:
        """Replace the contents of the state object, so that its holders see the new state."""
        for part in fields(State):
            setattr(self.state, part.name, getattr(state, part.name))
        self.begin_anew(self.state)

    def handle(self, event: ev.Event, now_ns: int, cause: str = "") -> list[act.Action]:
        """Apply an event and return the next actions. All invariants are checked."""
        state = self.state
        index = state.index
        index.news, index.forgotten, index.disbelieved_ns = [], [], 0
        if index.touched.everything:
            admission.recount_fixed(state)
        calendar_events.before_time_passes(state, event, now_ns)
        index.touch_due(now_ns)
        out = node_events.pass_time(state, now_ns)
        out += budget_events.pass_time(state, now_ns)
        out += reservation_events.pass_time(state, now_ns)
        start_conditions.pass_time(state, now_ns)
        for job in index.take_over_limit(now_ns):
            out += job_ends.end_at_limit(state, job, now_ns)
        node_id = _node_of(event)
        if node_id is not None:
            index.touch(node_id)
        registers = isinstance(event, configuration.NodeRegistered)
        if node_id is None or node_id in state.nodes or registers:
            out += _HANDLERS[type(event)](state, event, now_ns)
        arrays.fill(state, now_ns)
        account_limits.enforce(state, getattr(event, "job_id", ""), now_ns)
        fair_share.enforce(state, now_ns)
        out += emergency.enforce(state, now_ns)
        self.touched = index.touched
        out += reconcile(state, now_ns, cause)
        out += _solve(state, now_ns, cause)
        out += _wake(state, now_ns, cause)
        self._check(self.touched)
        return out

    def judged(self, event: ev.PlanProposed, now_ns: int) -> ev.PlanAccepted:
        """Check a proposal and return the fact to store and handle next. Changes nothing."""
        return _judged(self.state, event, now_ns)

    def look_at_everything(self) -> None:
        """Let the next event examine all nodes and jobs; the answer is the same."""
        self.state.index.touch_everything()

    def _check(self, touched: Touched) -> None:
        """Check the invariants of touched jobs and nodes, and of a rotating part of the rest."""
        state = self.state
        if touched.everything or state.settings.check_every <= 1:
            check_invariants(state)
            return
        jobs = [state.jobs[job_id] for job_id in touched.jobs if job_id in state.jobs]
        check_part(state, [n for n in touched.nodes if n in state.nodes], jobs)
        self._checker.check_next(state, state.settings.check_every)

    def snapshot(self, now_ns: int) -> Snapshot:
        """Return the snapshot that a policy plans on."""
        return snapshot(self.state, now_ns)


def _node_of(event: ev.Event) -> NodeId | None:
    """Return the node that an event is about, if any."""
    if isinstance(event, reports.NodeConnected):
        return event.spec.node_id
    return getattr(event, "node_id", None)


def _solve(state: State, now_ns: int, cause: str) -> list[act.Action]:
    if state.revisit_ns and now_ns >= state.revisit_ns:
        state.revisit_ns = 0
        state.plan_needed = state.plan_needed or "revisit"
    if not state.plan_needed or state.solving or not emergency.keeps_planning(state):
        return []
    if not decided_sleep.in_reach(state):
        return []
    state.plan_needed = ""
    if decided_sleep.nothing_to_plan(state):
        return []
    state.rounds += 1
    state.solving, state.solving_since_ns = state.rounds, now_ns
    return [act.Solve(round=state.rounds, cause=cause)]


def _wake(state: State, now_ns: int, cause: str) -> list[act.Action]:
    """Request a `TimePassed` event for the next time at which something is due."""
    index, ledger = state.index, state.ledger
    times = (
        ledger.next_settling_ns(now_ns),
        state.revisit_ns,
        ledger.over_deadline_ns,
        index.next_due_ns(),
        index.next_limit_ns(),
        index.next_begin_ns(),
        decided_sleep.next_ns(state),
        fair_share.next_ns(state),
        reservation_events.next_ns(state),
        budget_events.next_ns(state, now_ns),
    )
    at_ns = min([time for time in times if time and time > now_ns], default=0)
    if not at_ns or now_ns < state.woken_at_ns <= at_ns:
        return []
    state.woken_at_ns = at_ns
    return [act.WakeAt(at_ns=at_ns, cause=cause)]


def _started(state: State, event: ev.CoordinatorStarted, now_ns: int) -> list[act.Action]:
    # The end of the journal may lack renewals, and these used the lease of the old settings.
    longest_ns = cap_events.longest_lease_ns(state)
    state.epoch, state.lease_ns = event.epoch, event.lease_ns
    state.instance = event.instance
    state.command_timeout_ns = event.command_timeout_ns
    longest_ns = max(longest_ns, cap_events.longest_lease_ns(state))
    state.solving, state.woken_at_ns = 0, 0
    held = frozenset(event.held)
    for node in state.nodes.values():
        node_events.begin_epoch(state, node, now_ns)
        held_ns = event.held_ns if node.node_id in held else 0
        node.lease_until_ns = now_ns + held_ns + longest_ns
        node.unleased |= state.caps_unknown and node.admitted
        if state.caps_unknown or node.node_id in event.doubted:
            cap_events.doubt(state, node, now_ns)
    state.caps_unknown = False
    for job in state.placed():
        for rank in job.ranks.values():
            rank.signalled, rank.stopping, rank.retry_ns = False, False, 0
    state.index.touch_everything()
    return []


def _restored(state: State, event: ev.JournalRestored, now_ns: int) -> list[act.Action]:
    """Hold jobs that may have started, because the journal does not say whether they did.

    If caps are unknown, the next start charges each node with its maximum until it answers.
    """
    del now_ns
    state.caps_unknown = event.caps_unknown
    for node in state.nodes.values():
        node.lease_until_ns = 0
    state.epoch = max(state.epoch, event.epoch)
    state.submissions = max(state.submissions, event.submissions)
    for array in state.arrays.values():
        array.held = array.left > 0
    for job in list(state.index.open.values()):
        unheard = not any(rank.running or rank.end for rank in job.ranks.values())
        if unheard and job.state in (JobState.WAITING, JobState.PENDING, JobState.STARTING):
            state.index.displace(job)
            job.state, job.target = JobState.HELD, None
            job.ranks.clear()
            job.reason = (
                f"{event.because}, so the job may have run since; release it to start it, "
                "or cancel it"
            )
    return []


def _registered(state: State, event: configuration.NodeRegistered, now_ns: int) -> list[act.Action]:
    del now_ns
    node = state.nodes.get(event.node_id)
    if node is None:
        node = state.nodes[event.node_id] = Node(node_id=event.node_id, address=event.address)
        state.index.add_node(node)
        state.index.nodes_changed(state.arrays)
    else:
        node.address, node.retired = event.address, False
        state.index.retired.pop(event.node_id, None)
    if node.features != event.features:
        node.features, state.plan_needed = event.features, "features changed"
        state.index.nodes_changed(state.arrays)
    return []


def _retired(state: State, event: configuration.NodeRetired, now_ns: int) -> list[act.Action]:
    node = state.nodes.get(event.node_id)
    if node is None:
        return []
    node.retired = True
    state.index.retired[event.node_id] = node
    if node.reachable:
        node_events.lose_contact(state, node, now_ns)
    node.message = "removed from the configuration"
    return node_events.pass_time(state, now_ns)


def _proposed(state: State, event: ev.PlanProposed, now_ns: int) -> list[act.Action]:
    return _accepted(state, _judged(state, event, now_ns), now_ns)


def _judged(state: State, event: ev.PlanProposed, now_ns: int) -> ev.PlanAccepted:
    if event.round.number != state.solving:
        return ev.PlanAccepted(round=event.round)
    accepted = accept(event.plan, state, now_ns)
    return ev.PlanAccepted(
        round=event.round,
        changes=accepted.changes,
        starts=accepted.starts,
        refusals=accepted.refusals,
        waiting=event.plan.waiting,
        preemptions=accepted.preemptions,
        revisit_ns=event.plan.revisit_ns,
        power=decided_sleep.judged(state, event.plan.power, accepted.starts, now_ns),
    )


def _accepted(state: State, event: ev.PlanAccepted, now_ns: int) -> list[act.Action]:
    if event.round.number != state.solving:
        return []
    _end_round(state, event.round, now_ns)
    state.revisit_ns = event.revisit_ns
    for waiting in event.waiting:
        _explain(state, waiting)
    for refusal in event.refusals:
        _postpone(state, refusal.job_id, f"omitted from the last plan: {refusal.reason}")
    if event.refusals:
        state.revisit_ns = state.revisit_ns or now_ns + state.settings.retry_ns
    # A replay under other rules may have ended one of the jobs.
    out: list[act.Action] = []
    for assignment in event.changes:
        job = state.index.open.get(assignment.job_id)
        if job is not None and job.ranks and restarts(job, assignment):
            out += attempt_events.restart_at(state, job, assignment, now_ns)
        elif job is not None and job.ranks:
            _retarget(state, job, assignment, now_ns)
    _displace_others(state, event.starts)
    for assignment in event.starts:
        job = state.index.open.get(assignment.job_id)
        if job is not None and unstarted(job):
            job.state, job.target, job.reason = JobState.STARTING, assignment, ""
            job.expected_start_ns, job.reach = 0, assignment.reach
            job.placed_ns = now_ns
            if job.promise is not None:
                nodes = tuple(share.node_id for share in assignment.shares)
                job.promise = Promise(min(job.promise.start_ns, now_ns), nodes)
            state.index.place(job)
            preemption.started(state, job)
    decided_sleep.carry_out(state, event.power, event.starts)
    growth_ns = run_time_predictions.next_growth_ns(state, now_ns)
    state.revisit_ns = min(filter(None, (state.revisit_ns, growth_ns)), default=0)
    return out + preemption.carry_out(state, event.preemptions, now_ns)


def _end_round(state: State, record: PlanningRound, now_ns: int) -> None:
    state.solving, state.last_round = 0, record
    if not record.failure:
        state.failing_since_ns = -1
    elif state.failing_since_ns < 0:
        state.failing_since_ns = now_ns


def _displace_others(state: State, starts: tuple[Assignment, ...]) -> None:
    """Requeue jobs without a process that the last plan started and this plan does not start."""
    starting = {assignment.job_id for assignment in starts}
    for job in state.placed():
        unstarted_yet = job.state is JobState.STARTING and not job.ranks
        if unstarted_yet and job.job_id not in starting and not firm(state, job):
            job.state, job.target = JobState.PENDING, None
            state.index.displace(job)


def _explain(state: State, waiting: Waiting) -> None:
    """Record why a job waits by the last plan, and its expected start, unless it is WAITING."""
    job, news = state.jobs.get(waiting.job_id), (waiting.reason, waiting.start_ns, waiting.promise)
    known = job is not None and job.state is not JobState.WAITING
    if job and known and (job.reason, job.expected_start_ns, job.promise) != news:
        job.reason, job.expected_start_ns, job.promise = news
        state.index.show_job(waiting.job_id)


def _postpone(state: State, job_id: JobId, reason: str) -> None:
    """Set the reason for waiting after a failed round. The planned start of the job stays."""
    job = state.jobs.get(job_id)
    if job is not None:
        _explain(state, Waiting(job_id=job_id, reason=reason, promise=job.promise))


def _retarget(state: State, job: Job, assignment: Assignment, now_ns: int) -> None:
    job.advance_progress(now_ns)
    if job.target is not None and job.target.shares != assignment.shares:
        job.resizes += 1
        job.resized_ns = now_ns
    before, job.target = job.target, assignment
    if before is None or _wants(before) != _wants(assignment):
        state.index.touch_job(job)
    state.index.show_job(job.job_id)
    job.reason = ""


def _wants(assignment: Assignment) -> tuple[object, ...]:
    """Return the fields of an assignment that nodes have to enforce."""
    return assignment.shares, assignment.cap_uw, assignment.levels


def _plan_failed(state: State, event: ev.PlanFailed, now_ns: int) -> list[act.Action]:
    if event.round.number == state.solving:
        _end_round(state, replace(event.round, failure=event.reason), now_ns)
        state.revisit_ns = now_ns + state.settings.retry_ns
        for job in state.index.open.values():
            if job.state is JobState.PENDING:
                _postpone(state, job.job_id, f"no plan: {event.reason}")
    return []


def _profile(state: State, event: ev.ProfileStored, now_ns: int) -> list[act.Action]:
    profile = event.profile
    entry = StoredProfile(stored=event, stored_ns=now_ns)
    state.profiles[profile_key(profile.app, profile.unit)] = entry
    if any(job.spec.app == profile.app for job in state.index.open.values()):
        state.plan_needed = "profile changed"
    return []


def _dropped(state: State, event: ev.ProfileDropped, now_ns: int) -> list[act.Action]:
    del now_ns
    if event.certificate:
        state.certificates.pop(event.app, None)
    keys = [key for key, entry in state.profiles.items() if entry.profile.app == event.app]
    for key in keys if event.model else ():
        del state.profiles[key]
        state.plan_needed = "profile changed"
    if event.model and state.epoch_times.pop(event.app, None) is not None:
        state.plan_needed = "profile changed"
        for job in state.index.open.values():
            if job.spec.app == event.app:
                state.index.touch_job(job)
    for *_, key in known_of(state.restarts, event.app) if event.model else ():
        del state.restarts[key]
    return []


def _certified(state: State, event: ev.ProgramCertified, now_ns: int) -> list[act.Action]:
    state.certificates[event.app] = StoredCertificate(certified=event, stored_ns=now_ns)
    return []


def _nothing(state: State, event: ev.Event, now_ns: int) -> list[act.Action]:
    del state, event, now_ns
    return []


_HANDLERS: dict[type, Handler] = {
    ev.CoordinatorStarted: _started,
    ev.CalendarStepped: _nothing,
    ev.JournalRestored: _restored,
    **budget_events.HANDLERS,
    configuration.NodeRegistered: _registered,
    configuration.NodeRetired: _retired,
    **settings_events.HANDLERS,
    **reservation_events.HANDLERS,
    **node_orders.HANDLERS,
    ev.ProfileStored: _profile,
    ev.ProfileDropped: _dropped,
    ev.ProgramCertified: _certified,
    **training_events.HANDLERS,
    ev.PlanProposed: _proposed,
    ev.PlanAccepted: _accepted,
    ev.PlanFailed: _plan_failed,
    ev.TimePassed: _nothing,
    reports.LeaseRenewed: cap_events.lease_renewed,
    reports.LeaseUnconfirmed: cap_events.lease_unconfirmed,
    reports.CapsAnswered: cap_events.caps_answered,
    reports.CapsUnconfirmed: cap_events.caps_unconfirmed,
    reports.CapsNotHeld: cap_events.caps_not_held,
    ev.JobSubmitted: job_events.submitted,
    **array_events.HANDLERS,
    reports.SuspensionConfirmed: attempt_events.suspension_confirmed,
    reports.SuspensionFailed: attempt_events.suspension_failed,
    reports.TerminateFailed: job_events.terminate_failed,
    reports.MaskConfirmed: job_events.mask_confirmed,
    reports.MaskFailed: job_events.mask_failed,
    reports.JobLaunched: job_events.launched,
    reports.LaunchFailed: job_events.launch_failed,
    **node_events.HANDLERS,
    reports.ProcessEnded: job_ends.process_ended,
    ev.ProgressReported: job_events.progress_reported,
    ev.SpeedMeasured: job_events.speed_measured,
    ev.SizeWanted: job_events.size_wanted,
}
