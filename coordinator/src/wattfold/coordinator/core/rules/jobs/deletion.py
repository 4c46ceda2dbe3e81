"""Deletion of the oldest ended jobs and of submission keys beyond the limits of the settings."""

from __future__ import annotations

from wattfold.contract.ids import JobId, array_of
from wattfold.coordinator.core.rules.job_arrays.array_counts import is_spent
from wattfold.coordinator.core.rules.jobs import start_conditions
from wattfold.coordinator.core.state.state import State


def drop_oldest(state: State) -> None:
    """Drop the oldest ended jobs and submission keys beyond the limits.

    Open jobs do not count, so a job that has just ended is always known. An array is dropped with
    its last ended task.
    """
    index, ended, limit = state.index, state.index.ended, state.settings.kept_ended_jobs
    while len(ended) > limit:
        job_id = next(iter(ended))
        start_conditions.forget(state, job_id)
        last = state.jobs.pop(job_id).state
        _forget(state, job_id)
        array = state.arrays.get(array_of(job_id))
        if array is not None:
            array.ends[last.value] = array.ends.get(last.value, 0) + 1
            index.show_job(array.array_id)
            if is_spent(state, array):
                start_conditions.forget(state, array.array_id)
                del state.arrays[array.array_id]
                _forget(state, array.array_id)
    while len(index.spent_keys) > state.settings.kept_keys:
        key = next(iter(index.spent_keys))
        del index.spent_keys[key], state.keys[key]
        state.key_prints.pop(key, None)


def _forget(state: State, job_id: JobId) -> None:
    index = state.index
    index.forget_job(job_id)
    key = index.key_of.pop(job_id, "")
    if key:
        index.spent_keys[key] = None
