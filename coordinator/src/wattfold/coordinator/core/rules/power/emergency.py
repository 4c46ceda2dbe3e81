"""An emergency: its steps, derived from the state after each event, and their reversal.

The limit is part of the limit on committed power, so caps are lowered as for a lower budget;
nodes with protected jobs are lowered last (`cap_targets`). As long as the floors alone exceed the
limit, no plan is made, no job starts, unprotected jobs are stopped, and nodes without jobs sleep.
The steps follow from the state and not from the order that began the emergency: a restart of the
coordinator, a lost answer or a job that starts late need no special case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.emergency import (
    Emergency,
    EmergencyBegun,
    EmergencyEnded,
    EmergencyOrder,
    JobStep,
)
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.attempt import Requeue
from wattfold.coordinator.core.model.node import Node
from wattfold.coordinator.core.model.node_order import NodeOrder
from wattfold.coordinator.core.model.node_power import PowerState
from wattfold.coordinator.core.rules.jobs import attempt_events, requeue
from wattfold.coordinator.core.rules.nodes import leave, sleep
from wattfold.coordinator.core.state.state import State

STOPPED = "the limit of an emergency is below the floors of the nodes"
"""Reason of a job that an emergency suspended, requeued or keeps from starting."""


def begun(state: State, event: EmergencyBegun, now_ns: int) -> list[act.Action]:
    """Limit the power now. Another emergency that is in force gets this limit and this order."""
    before = state.emergency
    state.emergency = Emergency(
        limit_uw=event.limit_uw,
        begun_ns=before.begun_ns if before else now_ns,
        order=event.order,
        stopped=before.stopped if before else (),
        slept=before.slept if before else (),
    )
    state.ledger.emergency_uw = event.limit_uw
    _look_again(state, "emergency")
    if not _short_uw(state):
        _resume(state, now_ns)
    return []


def ended(state: State, event: EmergencyEnded, now_ns: int) -> list[act.Action]:
    """End the emergency: suspended jobs run again, and the next plan raises the caps."""
    del event
    if state.emergency is not None:
        _resume(state, now_ns)
        state.emergency, state.ledger.emergency_uw = None, 0
        _look_again(state, "emergency ended")
    return []


def enforce(state: State, now_ns: int) -> list[act.Action]:
    """Stop what has to stop at this moment. Called after each event, before `reconcile`."""
    emergency = state.emergency
    if emergency is None:
        return []
    short_uw, touched = _short_uw(state), state.index.touched
    # Jobs that were examined in an earlier event need another look only if they have changed.
    everything = touched.everything or (short_uw > 0 and emergency.short_uw <= 0)
    if short_uw != emergency.short_uw:
        emergency = state.emergency = replace(emergency, short_uw=short_uw)
    if short_uw <= 0:
        return []
    placed = state.placed()
    jobs = placed if everything else [job for job in placed if job.job_id in touched.jobs]
    out: list[act.Action] = []
    for job in jobs:
        out += _stop(state, emergency.order, job, now_ns)
    if state.settings.sleep.possible:
        _let_sleep(state, state.nodes if everything else touched.nodes)
    return out


def keeps_planning(state: State) -> bool:
    """Whether plans are made: the limit leaves at least the floors of the nodes."""
    return state.emergency is None or state.emergency.short_uw <= 0


def _stop(state: State, order: EmergencyOrder, job: Job, now_ns: int) -> list[act.Action]:
    if job.state is JobState.STARTING and not job.ranks:
        requeue.unplaced(state, job, STOPPED)
    elif job.state is JobState.RUNNING:
        step = step_of(order, job)
        if step is JobStep.END:
            wanted = Requeue(
                why=STOPPED, signal=job.spec.snapshot_signal, grace_ns=job.spec.snapshot_grace_ns
            )
            return attempt_events.requeue(state, job, wanted, now_ns)
        if step is JobStep.SUSPEND:
            attempt_events.suspend(state, job, now_ns, f"suspended: {STOPPED}")
            assert state.emergency is not None
            stopped = dict.fromkeys((*state.emergency.stopped, job.job_id))
            state.emergency = replace(state.emergency, stopped=tuple(stopped))
    return []


def _let_sleep(state: State, node_ids: Iterable[NodeId]) -> None:
    """Order nodes without jobs to sleep."""
    for node_id in list(node_ids):
        node = state.nodes.get(node_id)
        if node is None or node.power is not PowerState.AWAKE or leave.jobs_there(state, node):
            continue
        if sleep.refusal(node, NodeOrder.SLEEP) or node.foreign:
            continue
        sleep.ordered(state, node, NodeOrder.SLEEP)
        assert state.emergency is not None
        slept = dict.fromkeys((*state.emergency.slept, node_id))
        state.emergency = replace(state.emergency, slept=tuple(slept))


def step_of(order: EmergencyOrder, job: Job) -> JobStep:
    """Return what happens to a running job if the floors alone exceed the limit."""
    if job.spec.manager or order.protects(job.spec):
        return JobStep.NOTHING
    resumes = bool(job.spec.snapshot_dir or job.spec.restartable)
    if order.jobs is JobStep.END and not (resumes and not attempt_events.requeue_refusal(job)):
        return JobStep.SUSPEND
    return order.jobs


def resume_refusal(state: State, job: Job) -> str:
    """Return why a user cannot resume a job, or an empty string."""
    if job.state is not JobState.SUSPENDED:
        return f"job {job.job_id} is {job.state.value}, not suspended"
    if state.emergency is not None and job.job_id in state.emergency.stopped:
        return f"job {job.job_id} was suspended by an emergency and resumes when it ends"
    return ""


def _resume(state: State, now_ns: int) -> None:
    """Wake the nodes and let the jobs run that the emergency stopped, the last one first."""
    assert state.emergency is not None
    # Where plans decide which nodes sleep, the next plan wakes them if it needs them.
    slept = () if state.settings.sleep.decides else state.emergency.slept
    for node_id in reversed(slept):
        if (node := state.nodes.get(node_id)) is not None:
            sleep.ordered(state, node, NodeOrder.WAKE)
    for job_id in reversed(state.emergency.stopped):
        job = state.index.open.get(job_id)
        if job is not None:
            attempt_events.resume(state, job, now_ns)
    state.emergency = replace(state.emergency, stopped=(), slept=())


def _short_uw(state: State) -> int:
    return max(
        state.cap_sums.needed_uw(state.accepted_outside_uw) - state.ledger.limit_uw,
        0,
    )


def _look_again(state: State, why: str) -> None:
    state.plan_needed = why
    state.index.touch_everything()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Effects of an emergency at this moment. Powers are committed power."""

    caps_uw: int
    """Committed power once all caps are lowered."""
    short_uw: int
    """The part of it above the limit, which no cap can lower."""
    asleep_uw: int
    """Committed power once the nodes without jobs sleep."""
    slowed: tuple[JobId, ...]
    suspended: tuple[JobId, ...]
    ended: tuple[JobId, ...]
    asleep: tuple[NodeId, ...]
    protected: tuple[JobId, ...]
    grace_ns: int
    """The longest time that an ended job gets for its snapshot."""


def forecast(state: State, limit_uw: int, order: EmergencyOrder, default_grace_ns: int) -> Forecast:
    """Return what an emergency would do now, by the rules of the emergency itself.

    Jobs that request no grace time have ``default_grace_ns``.
    """
    sums = state.cap_sums
    needed_uw = sums.needed_uw(state.accepted_outside_uw)
    limit_uw = min(limit_uw, state.ledger.limit_uw)
    short_uw = max(needed_uw - limit_uw, 0)
    running = [job for job in state.placed() if job.state is JobState.RUNNING]
    steps = {job.job_id: step_of(order, job) if short_uw else JobStep.NOTHING for job in running}
    protected = [job.job_id for job in running if order.protects(job.spec)]
    wanted_uw = needed_uw + sums.dynamic_uw
    caps_uw = max(min(wanted_uw, limit_uw), needed_uw)
    spared_uw = needed_uw + sum(
        sums.node_dynamic_uw(node_id) for node_id in _nodes_of(state, protected)
    )
    slowed = [
        job.job_id
        for job in running
        if steps[job.job_id] is JobStep.NOTHING
        and wanted_uw > limit_uw
        and (job.job_id not in protected or spared_uw > limit_uw)
    ]
    ended = [job for job in running if steps[job.job_id] is JobStep.END]
    asleep = _then_without_jobs(state, steps) if short_uw else []
    freed_uw = (
        sum(state.ledger.accounts[node.node_id].base_uw + _floors_uw(node) for node in asleep)
        - len(asleep) * state.settings.sleep.asleep_uw
    )
    return Forecast(
        caps_uw=caps_uw,
        asleep_uw=caps_uw - max(freed_uw, 0),
        asleep=tuple(node.node_id for node in asleep),
        short_uw=short_uw,
        slowed=tuple(slowed),
        suspended=tuple(one for one, step in steps.items() if step is JobStep.SUSPEND),
        ended=tuple(job.job_id for job in ended),
        protected=tuple(protected),
        grace_ns=max((job.spec.snapshot_grace_ns or default_grace_ns for job in ended), default=0),
    )


def _then_without_jobs(state: State, steps: Mapping[JobId, JobStep]) -> list[Node]:
    """Return the nodes that sleep: they have no jobs, or only jobs that end."""
    if not state.settings.sleep.possible:
        return []
    return [
        node
        for node in state.nodes.values()
        if node.power is PowerState.AWAKE
        and node.admitted
        and not (node.foreign or sleep.refusal(node, NodeOrder.SLEEP))
        and all(steps.get(job.job_id) is JobStep.END for job in leave.jobs_there(state, node))
    ]


def _floors_uw(node: Node) -> int:
    zones = node.spec.zones if node.spec else ()
    return sum(zone.floor_uw for zone in zones if zone.can_cap)


def _nodes_of(state: State, job_ids: Iterable[JobId]) -> dict[NodeId, None]:
    nodes = (node_id for job_id in job_ids for node_id in state.jobs[job_id].ranks)
    return dict.fromkeys(nodes)


HANDLERS: dict[type, Callable[[State, Any, int], list[act.Action]]] = {
    EmergencyBegun: begun,
    EmergencyEnded: ended,
}
