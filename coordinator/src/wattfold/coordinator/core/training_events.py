"""How what is told of epochs changes the state: how far a training is, and what an epoch takes.

Only what is in a snapshot counts as done: the rest is lost with the process. So a training that was
put back into the queue, for whatever reason, is where its snapshot is.
"""

from __future__ import annotations

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core import reports, restart
from wattfold.coordinator.core.epoch_times import (
    APPS_MAX,
    NOTHING_SEEN,
    AppEpochs,
    stored,
    training,
    with_epoch,
)
from wattfold.coordinator.core.job import MAX_DONE, Job, JobState
from wattfold.coordinator.core.state import State
from wattfold.coordinator.models.training import Training

MOVED = 0.05
"""Policies look at all jobs of an application again when a time has changed by this share."""


def training_of(state: State, job: Job) -> Training | None:
    """What is known of the epochs of a job; None = it is no training, or nothing is."""
    known = state.epoch_times.get(job.spec.app)
    if not job.spec.epochs or known is None or not known.times:
        return None
    return training(known, job.spec.epochs)


def epochs_told(state: State, event: ev.EpochsTold, now_ns: int) -> list[act.Action]:
    """A running training has that many epochs in its snapshot, the last of which took so long."""
    job = state.jobs.get(event.job_id)
    if job is None or job.state is not JobState.RUNNING or not job.spec.epochs:
        return []
    if event.attempt != job.attempt:
        return []
    share = _saved(job, event.saved)
    # It has something to do after its last epoch, such as to write a model.
    job.done, job.done_at_ns, job.over_since_ns = min(share, MAX_DONE), now_ns, -1
    restart.told_progress(state, job, share, now_ns)
    state.index.show_job(job.job_id)
    if event.epoch_ns > 0:
        job.epochs_timed += 1
        job.epoch_mean_ns += (event.epoch_ns - job.epoch_mean_ns) // job.epochs_timed
        _learn(state, job, event.epoch_ns / 1e9, now_ns)
    return []


def epochs_left(state: State, job: Job, end: reports.ProcessReading, now_ns: int) -> None:
    """A training has ended with that in its snapshot; of one too short to be heard of before, what
    its epochs took is learnt now."""
    _saved(job, end.epochs_saved)
    if end.epochs_timed and not job.epochs_timed:
        _learn(state, job, end.epoch_mean_ns / 1e9, now_ns)
    if end.epochs_timed:
        job.epochs_timed, job.epoch_mean_ns = end.epochs_timed, end.epoch_mean_ns


def _saved(job: Job, epochs: int) -> float:
    job.epochs_saved = min(max(epochs, 0), job.spec.epochs)
    return job.saved_share


def epoch_times_stored(state: State, event: ev.EpochTimesStored, now_ns: int) -> list[act.Action]:
    """Somebody has measured what epochs of an application take."""
    measured = AppEpochs(times=event.times, curves=event.curves, stored_ns=now_ns)
    before = state.epoch_times.get(event.app, NOTHING_SEEN)
    _put(state, event.app, stored(before, measured))
    _look_again(state, event.app)
    return []


def _learn(state: State, job: Job, seconds: float, now_ns: int) -> None:
    """Takes one epoch of a job into what is known of its application."""
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
