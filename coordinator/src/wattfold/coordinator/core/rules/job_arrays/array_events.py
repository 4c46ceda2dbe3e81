"""Events about job arrays and about their tasks, as changes of the state.

A request that names an array applies to all of its tasks: to those that are jobs, and to the record
that stands for the others. Other values of a submission are only for tasks that have not started. A
request that names a task which is not a job yet makes it a job first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from wattfold.contract.ids import JobId, array_of
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.job_array import ArraySubmitted, JobArray
from wattfold.coordinator.core.rules.job_arrays import arrays
from wattfold.coordinator.core.rules.jobs import (
    attempt_events,
    job_events,
    modification_events,
    run_time_predictions,
    start_conditions,
)
from wattfold.coordinator.core.rules.jobs.adoption import UNSTARTED
from wattfold.coordinator.core.state.state import State

Handler = Callable[[State, Any, int], list[act.Action]]


def submitted(state: State, event: ArraySubmitted, now_ns: int) -> list[act.Action]:
    """Add an array. Its first tasks become jobs at once, unless it is held."""
    state.arrays[event.job_id] = JobArray(
        array_id=event.job_id,
        spec=event.spec,
        indices=event.indices,
        limit=event.limit,
        submitted_ns=now_ns,
        epoch=state.epoch,
        held=event.held,
        conditions=start_conditions.of_new_array(state, event),
        known=run_time_predictions.known(state, event.spec),
    )
    state.index.unfilled[event.job_id] = None
    state.index.show_job(event.job_id)
    job_events.keep_number(state, event)
    return []


def _cancel(state: State, array: JobArray, event: ev.JobCancelRequested, now_ns: int) -> None:
    """Drop the tasks that are not jobs yet. An array without jobs gets one, to be shown as ended.

    It is the only task of the array in the history.
    """
    del event
    index = state.index
    if array.left and not (index.tasks(array.array_id) or index.ended_tasks(array.array_id)):
        arrays.make(state, array, array.index_set[array.taken], now_ns)
    array.drop_left()


def _hold(state: State, array: JobArray, event: ev.JobHeld, now_ns: int) -> None:
    del state, event, now_ns
    array.held = array.left > 0


def _release(state: State, array: JobArray, event: ev.JobReleased, now_ns: int) -> None:
    del state, event, now_ns
    array.held = False


def _modify(state: State, array: JobArray, event: ev.JobModified, now_ns: int) -> None:
    del now_ns
    array.spec = event.applied_to(array.spec)
    array.known = run_time_predictions.known(state, array.spec)
    state.index.capacities.pop(array.array_id, None)


_OF_ARRAY: dict[type, Callable[[State, JobArray, Any, int], None]] = {
    ev.JobCancelRequested: _cancel,
    ev.JobHeld: _hold,
    ev.JobReleased: _release,
    ev.JobModified: _modify,
}
"""Effects on the tasks that are not jobs yet. Such a task is named by an event of these types."""


def _is_managed(state: State, job_id: JobId) -> bool:
    job = state.jobs.get(job_id)
    return job is not None and bool(job.spec.manager)


def _of_tasks(handler: Handler) -> Handler:
    """Return the handler of a request, for a job, a task or an array."""

    def handle(state: State, event: Any, now_ns: int) -> list[act.Action]:
        of_array, array = _OF_ARRAY.get(type(event)), state.arrays.get(event.job_id)
        if array is None:
            if of_array is not None:
                arrays.name(state, event.job_id, now_ns)
            if not isinstance(event, ev.JobResizeRequested) and _is_managed(state, event.job_id):
                return []  # Only its resource manager may do this.
            if array_id := array_of(event.job_id):
                state.index.unfilled[array_id] = None
            return handler(state, event, now_ns)
        if of_array is not None:
            of_array(state, array, event, now_ns)
        out: list[act.Action] = []
        for job_id, job in list(state.index.tasks(array.array_id).items()):
            if isinstance(event, ev.JobModified) and job.state not in UNSTARTED:
                continue
            out += handler(state, replace(event, job_id=job_id), now_ns)
            state.index.touch_job(job)
        state.index.unfilled[array.array_id] = None
        state.index.show_job(array.array_id)
        start_conditions.review_followers_of(state, array.array_id, now_ns)
        return out

    return handle


HANDLERS: dict[type, Handler] = {
    ArraySubmitted: submitted,
    ev.JobCancelRequested: _of_tasks(job_events.cancel_requested),
    ev.JobHeld: _of_tasks(job_events.held),
    ev.JobReleased: _of_tasks(job_events.released),
    ev.JobRequeueRequested: _of_tasks(attempt_events.requeue_requested),
    ev.JobSuspendRequested: _of_tasks(attempt_events.suspend_requested),
    ev.JobResumeRequested: _of_tasks(attempt_events.resume_requested),
    ev.JobResizeRequested: _of_tasks(attempt_events.resize_requested),
    ev.JobModified: _of_tasks(modification_events.modified),
}
