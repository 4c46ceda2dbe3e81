"""Reservations as changes of the state: made, started, ended or cancelled.

An ended reservation is deleted. A job that names it waits until the job is cancelled, or until
another reservation has this name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import KEEPS_STATES, Ender, Job, JobState
from wattfold.coordinator.core.model.jobs.attempt import Requeue
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.core.rules.jobs.attempt_events import requeue, requeue_refusal
from wattfold.coordinator.core.rules.jobs.job_ends import begin_ending
from wattfold.coordinator.core.state.state import State


def made(state: State, event: ev.ReservationMade, now_ns: int) -> list[act.Action]:
    """Add a reservation, and start it if it is due."""
    one = event.reservation
    state.reservations[one.name] = one
    _changed(state, one, "reservation made")
    return pass_time(state, now_ns)


def cancelled(state: State, event: ev.ReservationCancelled, now_ns: int) -> list[act.Action]:
    """Cancel a reservation: its nodes are open to all jobs again."""
    del now_ns
    one = state.reservations.get(event.name)
    if one is not None:
        _drop(state, one, "reservation cancelled")
    return []


def pass_time(state: State, now_ns: int) -> list[act.Action]:
    """Start and end reservations that are due."""
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
    """Return when the next reservation starts or ends."""
    if not state.reservations:
        return None
    return min(
        (
            one.end_ns if one.name in state.begun else one.start_ns
            for one in state.reservations.values()
        ),
        default=None,
    )


def without_right(state: State, reservation: Reservation) -> list[Job]:
    """Return jobs on the nodes of a reservation that may not be there during it."""
    found = {
        job.job_id: job
        for node_id in reservation.nodes
        if node_id in state.nodes
        for job in state.on_node(node_id)
        if not reservation.admits(job.spec)
    }
    return list(found.values())


def _begin(state: State, reservation: Reservation, now_ns: int) -> list[act.Action]:
    state.begun.append(reservation.name)
    _changed(state, reservation, "reservation started")
    out: list[act.Action] = []
    for job in without_right(state, reservation):
        if job.state is JobState.STARTING and not job.ranks:
            job.state, job.target = JobState.PENDING, None
            state.index.displace(job)
        elif (
            reservation.end_jobs
            and not job.spec.manager
            and (job.state not in KEEPS_STATES or job.state is JobState.SUSPENDED)
        ):
            out += _end(state, job, reservation, now_ns)
    return out


def _end(state: State, job: Job, reservation: Reservation, now_ns: int) -> list[act.Action]:
    """Requeue a job, with time for a snapshot, or end it if it cannot restart."""
    if not requeue_refusal(job):
        order = Requeue(
            why=f"yields to {reservation}",
            signal=job.spec.snapshot_signal,
            grace_ns=job.spec.snapshot_grace_ns,
        )
        return requeue(state, job, order, now_ns)
    job.ended_by, job.reason = Ender.RESERVATION, f"ended for {reservation}"
    job.advance_progress(now_ns)
    return begin_ending(state, job, now_ns)


def _drop(state: State, reservation: Reservation, why: str) -> None:
    del state.reservations[reservation.name]
    if reservation.name in state.begun:
        state.begun.remove(reservation.name)
    _changed(state, reservation, why)


def _changed(state: State, reservation: Reservation, why: str) -> None:
    state.plan_needed = why
    for node_id in reservation.nodes:
        if node_id in state.nodes:
            state.index.touch(node_id)


HANDLERS: dict[type, Callable[[State, Any, int], list[act.Action]]] = {
    ev.ReservationMade: made,
    ev.ReservationCancelled: cancelled,
}
