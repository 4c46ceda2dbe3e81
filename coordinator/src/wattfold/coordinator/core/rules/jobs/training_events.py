"""Reports of epochs as changes of the state: the progress of training jobs, and epoch times.

Only epochs in a snapshot count as done, because the rest is lost with the process. So a training
job that was requeued, for whatever reason, continues from its snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import MAX_DONE, Job, JobState
from wattfold.coordinator.core.model.jobs.epoch_times import (
    APPS_MAX,
    NOTHING_SEEN,
    AppEpochs,
    stored,
    training,
    with_epoch,
)
from wattfold.coordinator.core.rules.jobs import restart
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.training import Training

MOVED = 0.05
"""Policies examine all jobs of an application again if a time changed by this share."""


def training_of(state: State, job: Job) -> Training | None:
    """Return the known epoch times of a job; None = not a training job, or nothing is known."""
    known = state.epoch_times.get(job.spec.app)
    if not job.spec.epochs or known is None or not known.times:
        return None
    return training(known, job.spec.epochs)


def epochs_told(state: State, event: ev.EpochsTold, now_ns: int) -> list[act.Action]:
    """Record the number of epochs in the snapshot of a running training job, and its last epoch."""
    job = state.jobs.get(event.job_id)
    if job is None or job.state is not JobState.RUNNING or not job.spec.epochs:
        return []
    if event.attempt != job.attempt:
        return []
    share = _saved(job, event.saved)
    job.count_cap(now_ns)
    # It has work to do after its last epoch, such as writing a model.
    job.done, job.done_at_ns, job.over_since_ns = min(share, MAX_DONE), now_ns, -1
    restart.told_progress(state, job, share, now_ns)
    state.index.show_job(job.job_id)
    if event.epoch_ns > 0:
        job.epochs_timed += 1
        job.epoch_mean_ns += (event.epoch_ns - job.epoch_mean_ns) // job.epochs_timed
        _learn(state, job, event.epoch_ns / 1e9, now_ns)
    return []


def epochs_left(state: State, job: Job, end: reports.ProcessReading, now_ns: int) -> None:
    """Record the epochs in the snapshot of an ended training job.

    If the job was too short to report before, its epoch times are learnt now.
    """
    _saved(job, end.epochs_saved)
    if end.epochs_timed and not job.epochs_timed:
        _learn(state, job, end.epoch_mean_ns / 1e9, now_ns)
    if end.epochs_timed:
        job.epochs_timed, job.epoch_mean_ns = end.epochs_timed, end.epoch_mean_ns


def _saved(job: Job, epochs: int) -> float:
    job.epochs_saved = min(max(epochs, 0), job.spec.epochs)
    return job.saved_share


def epoch_times_stored(state: State, event: ev.EpochTimesStored, now_ns: int) -> list[act.Action]:
    """Store measured epoch times of an application."""
    measured = AppEpochs(times=event.times, curves=event.curves, stored_ns=now_ns)
    before = state.epoch_times.get(event.app, NOTHING_SEEN)
    _put(state, event.app, stored(before, measured))
    _look_again(state, event.app)
    return []


def _learn(state: State, job: Job, seconds: float, now_ns: int) -> None:
    """Add an epoch of a job to the known times of its application."""
    shares = job.target.shares if job.target else ()
    node = state.nodes.get(shares[0].node_id) if len(shares) == 1 else None
    if job.target is None or node is None or node.spec is None or not shares[0].gpus:
        return
    before = state.epoch_times.get(job.spec.app, NOTHING_SEEN)
    where = node.spec.gpu_model, len(shares[0].gpus)
    after = with_epoch(
        before,
        gpu_model=where[0],
        gpus=where[1],
        seconds=seconds,
        limit_w=w_from_uw(job.target.levels.gpu_uw),
        now_ns=now_ns,
    )
    known, now = before.at(*where), after.at(*where)
    if now is None or after is before:
        return
    _put(state, job.spec.app, after)
    if known is None or abs(now.seconds - known.seconds) > MOVED * known.seconds:
        _look_again(state, job.spec.app)


def _put(state: State, app: str, known: AppEpochs) -> None:
    if app not in state.epoch_times and len(state.epoch_times) >= APPS_MAX:
        del state.epoch_times[next(iter(state.epoch_times))]
    state.epoch_times[app] = known


def _look_again(state: State, app: str) -> None:
    for job in state.index.open.values():
        if job.spec.app == app and job.spec.epochs:
            state.index.touch_job(job)
            state.plan_needed = "epoch times changed"


HANDLERS: dict[type, Callable[[State, Any, int], list[act.Action]]] = {
    ev.EpochTimesStored: epoch_times_stored,
    ev.EpochsTold: epochs_told,
}
