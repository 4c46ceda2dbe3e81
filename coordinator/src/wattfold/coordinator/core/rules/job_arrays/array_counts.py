"""Numbers of the tasks of job arrays, and tasks that are not jobs yet."""

from __future__ import annotations

from collections import Counter

from wattfold.contract.ids import JobId, task_of
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.job_array import JobArray
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.state.state import State


def awaited(state: State, job_id: str) -> tuple[JobArray, int] | None:
    """Return the array and the index of a task that is not a job yet; None for other IDs."""
    found = task_of(job_id)
    array = state.arrays.get(found[0]) if found else None
    if found is None or array is None or not array.awaits(found[1]):
        return None
    return array, found[1]


def finished(state: State, array: JobArray) -> bool:
    """Whether all tasks of an array have ended."""
    return not array.left and not state.index.tasks(array.array_id)


def succeeded(state: State, array: JobArray) -> bool:
    """Whether all ended tasks of an array have completed."""
    ends = end_counts(state, array)
    return ends.total() == ends[JobState.COMPLETED]


def end_counts(state: State, array: JobArray) -> Counter[JobState]:
    """Return the numbers of ended tasks by their final states."""
    found = Counter(state.jobs[one].state for one in state.index.ended_tasks(array.array_id))
    found.update({JobState(word): count for word, count in array.ends.items()})
    found.update({JobState.CANCELLED: array.dropped} if array.dropped else {})
    return found


def counts(state: State, array: JobArray) -> Counter[JobState]:
    """Return the numbers of all tasks by their states. Tasks that are not jobs yet wait."""
    found = end_counts(state, array)
    found.update(job.state for job in state.index.tasks(array.array_id).values())
    if array.left:
        found[JobState.HELD if array.held else JobState.PENDING] += array.left
    return found


def is_spent(state: State, array: JobArray) -> bool:
    """Whether all tasks of an array have ended and were deleted."""
    return finished(state, array) and not state.index.ended_tasks(array.array_id)


SHOWN = (
    JobState.RUNNING,
    JobState.STARTING,
    JobState.SUSPENDED,
    JobState.ENDING,
    JobState.PENDING,
    JobState.WAITING,
    JobState.HELD,
    JobState.FAILED,
    JobState.TIMED_OUT,
    JobState.LOST,
    JobState.CANCELLED,
    JobState.COMPLETED,
)
"""States of tasks; the first state that a task has is that of its array."""


def shown_state(state: State, array: JobArray) -> JobState:
    """Return the state of an array in lists."""
    found = counts(state, array)
    return next((one for one in SHOWN if found[one]), JobState.COMPLETED)


def spec_named(state: State, job_id: str) -> JobSpec | None:
    """Return the submission of a job, an array or a task of an array; None for other IDs."""
    found = state.jobs.get(JobId(job_id)) or state.arrays.get(JobId(job_id))
    if found is not None:
        return found.spec
    awaiting = awaited(state, job_id)
    return awaiting[0].spec if awaiting else None
