"""The jobs of a simulation, one column a property, in order of submission.

Built from a workload and, where sizes and caps may be chosen, from annotations. A job without a
profile runs for ``run_ns`` at ``size_max`` nodes and any cap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wattfold.coordinator.core.queue import NO_WAITS, Waits
from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.coordinator.models.training import Training
from wattfold.coordinator.simulation.workloads.annotations import Annotations
from wattfold.coordinator.simulation.workloads.workload import Floats, Ints, Mask, Workload


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitColumns:
    """What each unit of a job asks of one node; one entry a job."""

    cores: Ints
    """0 = a whole node."""
    memory_bytes: Ints
    gpus: Ints
    features: tuple[tuple[str, ...], ...]

    def taken(self, order: Ints) -> UnitColumns:
        """The jobs at these positions, in that order."""
        return UnitColumns(
            cores=self.cores[order],
            memory_bytes=self.memory_bytes[order],
            gpus=self.gpus[order],
            features=tuple(self.features[index] for index in order.tolist()),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WaitColumns:
    """How long each job is expected to wait, and at most, as its queue says, ns; 0 = not said."""

    expected_ns: Ints
    max_ns: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingColumns:
    """What training jobs are of, when they are due, and what that is worth; one entry a job."""

    trainings: tuple[Training | None, ...]
    """None: it does not train."""
    due_ns: Ints
    """In the time of the log, -1 = no matter."""
    weights: Floats
    """What tardiness is worth beside that of others."""
    snapshot_epochs: Ints
    """Epochs from one snapshot to the next."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobTable:
    """One entry a job; times in nanoseconds of the log, sizes in nodes, or in ``units``."""

    job_ids: Ints
    submit_ns: Ints
    size_min: Ints
    size_max: Ints
    """Nodes asked for: what a rigid job gets."""
    run_ns: Ints
    """Time it takes at ``size_max`` nodes and the reference cap of its annotations."""
    estimate_ns: Ints
    """Time its user asked for."""
    priority: Floats
    users: Ints
    malleable: Mask
    """Whether its size may change while it runs."""
    profiles: tuple[PassProfile, ...] = ()
    """Empty, or one a job."""
    limit_ns: Ints | None = None
    """How long each may run in one attempt, 0 = as long as it takes; None: nobody has a limit."""
    units: UnitColumns | None = None
    """None: a unit is a whole node, and asks for nothing else."""
    apps: Ints | None = None
    """Applications; None: not known."""
    waits: WaitColumns | None = None
    """None: no queue says anything."""
    predicted_uw: Ints | None = None
    """What each is predicted to draw above idle nodes, 0 = not known; None: of no job it is."""
    training: TrainingColumns | None = None
    """None: nobody trains, and nothing is due."""

    def waits_of(self, job: int) -> Waits:
        """What the queue of a job says."""
        if self.waits is None:
            return NO_WAITS
        return Waits(int(self.waits.expected_ns[job]), int(self.waits.max_ns[job]))

    def __len__(self) -> int:
        return len(self.job_ids)


def job_table(
    workload: Workload,
    annotations: Annotations | None = None,
    *,
    malleable_share: float = 1.0,
    cut_at_estimate: bool = True,
    priorities: Mapping[int, float] | None = None,
    units: UnitColumns | None = None,
    ends_at_limit: bool = False,
    queue_waits: Mapping[int, Waits] | None = None,
    seed: int = 0,
) -> JobTable:
    """The jobs of a workload in order of (submission, id).

    With annotations every job is moldable and a share of them, drawn from the seed, malleable; its
    profile says how long it runs. ``cut_at_estimate``: a job without a profile that ran longer than
    its user asked for ends at that limit, as sites do. ``priorities`` are weights of users, 1 for
    those not named. ``ends_at_limit``: what users asked for is a limit, and jobs run as long as the
    log or their profiles say until they reach it. ``units`` has an entry for each
    job of the workload. ``queue_waits`` are of queues by their numbers in the workload.
    Raises ValueError for a job without a size or with a run time or estimate below zero.
    """
    order = np.lexsort((workload.job_ids, workload.submit_ns))
    jobs = workload.taken(order)
    sizes, runs = jobs.sizes, jobs.run_ns
    estimates = jobs.estimates_ns
    if cut_at_estimate and annotations is None and not ends_at_limit:
        runs = np.minimum(runs, estimates)
    odd = np.flatnonzero((sizes < 1) | (runs < 0) | (estimates < 0))
    if len(odd):
        raise ValueError(f"job {jobs.job_ids[odd[0]]} has no size or no run time")
    count = len(jobs)
    profiles: tuple[PassProfile, ...] = ()
    drawn = np.random.default_rng(np.random.SeedSequence(seed)).random(count)
    if annotations is None:
        least, malleable = sizes.copy(), np.zeros(count, dtype=np.bool_)
    else:
        if not np.array_equal(annotations.job_ids, workload.job_ids):
            raise ValueError("the annotations do not match the jobs of the workload")
        least = annotations.size_min[order]
        malleable = drawn < malleable_share
        profiles = tuple(annotations.profile(int(index)) for index in order)
    return JobTable(
        job_ids=jobs.job_ids,
        submit_ns=jobs.submit_ns,
        size_min=least,
        size_max=sizes,
        run_ns=runs,
        estimate_ns=estimates,
        priority=_priorities(jobs.users, priorities or {}),
        users=jobs.users,
        malleable=malleable,
        profiles=profiles,
        limit_ns=np.maximum(estimates, 1) if ends_at_limit else None,
        units=units.taken(order) if units is not None else None,
        apps=jobs.executables,
        waits=_waits(jobs.queues, queue_waits) if queue_waits else None,
    )


def _waits(queues: Ints, said: Mapping[int, Waits]) -> WaitColumns:
    """Raises ValueError for a queue that no job is of."""
    missing = sorted(said.keys() - set(queues.tolist()))
    if missing:
        raise ValueError(f"a wait is given for queue {missing[0]}, which has no jobs")
    each = [said.get(queue, NO_WAITS) for queue in queues.tolist()]
    return WaitColumns(
        expected_ns=np.array([one.expected_ns for one in each], dtype=np.int64),
        max_ns=np.array([one.max_ns for one in each], dtype=np.int64),
    )


def _priorities(users: Ints, weights: Mapping[int, float]) -> Floats:
    if any(not 0 < weight < np.inf for weight in weights.values()):
        raise ValueError("priorities of users must be above zero")
    found = np.ones(len(users), dtype=np.float64)
    for user, weight in weights.items():
        found[users == user] = weight
    return found
