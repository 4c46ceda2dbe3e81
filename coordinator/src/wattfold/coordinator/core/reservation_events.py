"""How reservations change the state: made, begun, over or cancelled.

One that is over is forgotten; a job that names it waits until it is cancelled, or until there is
another one of the name.
"""

from __future__ import annotations

from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core.attempt import Requeue
from wattfold.coordinator.core.attempt_events import requeue, requeue_refusal
from wattfold.coordinator.core.job import KEEPS_STATES, Ender, Job, JobState
from wattfold.coordinator.core.job_ends import begin_ending
from wattfold.coordinator.core.reservation import Reservation
from wattfold.coordinator.core.state import State


def made(state: State, event: ev.ReservationMade, now_ns: int) -> list[act.Action]:
    """Nodes are kept from now on; one that is to begin at once does."""
    one = event.reservation
    state.reservations[one.name] = one
    _changed(state, one, "reservation made")
    return pass_time(state, now_ns)


def cancelled(state: State, event: ev.ReservationCancelled, now_ns: int) -> list[act.Action]:
    """Its nodes are for everybody again."""
    del now_ns
    one = state.reservations.get(event.name)
    if one is not None:
        _drop(state, one, "reservation cancelled")
    return []


def pass_time(state: State, now_ns: int) -> list[act.Action]:
    """What begins by now, and what is over."""
    out: list[act.Action] = []
    if not state.reservations:
        return out
    for one in list(state.reservations.values()):
        if one.end_ns <= now_ns:
            _drop(state, one, "reservation over")
        elif one.start_ns <= now_ns and one.name not in state.begun:
            out += _begin(state, one, now_ns)
    return out


def next_ns(state: State) -> int | None:
    """When the next one begins or is over."""
    if not state.reservations:
        return None
    return min(
        (
            one.end_ns if one.name in state.begun else one.start_ns
            for one in state.reservations.values()
        ),
        default=None,
    )


def without_right(state: State, one: Reservation) -> list[Job]:
    """Jobs on the nodes of a reservation that may not be there while it lasts."""
    found = {
        job.job_id: job
        for node_id in one.nodes
        if node_id in state.nodes
        for job in state.on_node(node_id)
        if not one.admits(job.spec)
    }
    return list(found.values())


def _begin(state: State, one: Reservation, now_ns: int) -> list[act.Action]:
    state.begun.append(one.name)
    _changed(state, one, "reservation started")
    out: list[act.Action] = []
    for job in without_right(state, one):
        if job.state is JobState.STARTING and not job.ranks:
            job.state, job.target = JobState.PENDING, None
            state.index.displace(job)
        elif one.end_jobs and (job.state not in KEEPS_STATES or job.state is JobState.SUSPENDED):
            out += _end(state, job, one, now_ns)
    return out


def _end(state: State, job: Job, one: Reservation, now_ns: int) -> list[act.Action]:
    """Back to the queue where it may be started again, with its time for a snapshot."""
    if not requeue_refusal(job):
        order = Requeue(
            why=f"yields to {one}",
            signal=job.spec.snapshot_signal,
            grace_ns=job.spec.snapshot_grace_ns,
        )
        return requeue(state, job, order, now_ns)
    job.ended_by, job.reason = Ender.RESERVATION, f"ended for {one}"
    job.advance_progress(now_ns)
    return begin_ending(state, job, now_ns)


def _drop(state: State, one: Reservation, why: str) -> None:
    del state.reservations[one.name]
    if one.name in state.begun:
        state.begun.remove(one.name)
    _changed(state, one, why)


def _changed(state: State, one: Reservation, why: str) -> None:
    state.plan_needed = why
    for node_id in one.nodes:
        if node_id in state.nodes:
            state.index.touch(node_id)
