"""Jobs of a simulation, one column per property, in order of submission.

The table is built from a workload and, if sizes and caps may be chosen, from annotations. A job
without a profile runs for ``run_ns`` at ``size_max`` nodes and any cap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core.model.queue import NO_WAITS, Waits
from wattfold.coordinator.models.pass_model import ANY_RANGE_W, PassProfile
from wattfold.coordinator.models.training import Training
from wattfold.simulator.workloads.annotations import Annotations
from wattfold.simulator.workloads.workload import Floats, Ints, Mask, Workload


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitColumns:
    """Request of each unit of a job to its node; one entry per job."""

    cores: Ints
    """0 = a whole node."""
    memory_bytes: Ints
    gpus: Ints
    features: tuple[tuple[str, ...], ...]

    def taken(self, order: Ints) -> UnitColumns:
        """Return the jobs at these positions, in that order."""
        return UnitColumns(
            cores=self.cores[order],
            memory_bytes=self.memory_bytes[order],
            gpus=self.gpus[order],
            features=tuple(self.features[index] for index in order.tolist()),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WaitColumns:
    """Expected and maximum wait of each job, from its queue, in ns; 0 = none."""

    expected_ns: Ints
    max_ns: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingColumns:
    """Training data of jobs: curves, due dates and weights; one entry per job."""

    trainings: tuple[Training | None, ...]
    """None: not a training job."""
    due_ns: Ints
    """In the time of the log, -1 = no due date."""
    weights: Floats
    """Weights of tardiness relative to other jobs."""
    snapshot_epochs: Ints
    """Epochs from one snapshot to the next."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobTable:
    """One entry per job; times in nanoseconds of the log, sizes in nodes, or in ``units``."""

    job_ids: Ints
    submit_ns: Ints
    size_min: Ints
    size_max: Ints
    """Requested nodes; a rigid job gets exactly these."""
    run_ns: Ints
    """Run time at ``size_max`` nodes and the reference cap of its annotations."""
    estimate_ns: Ints
    """Time requested by its user."""
    priority: Floats
    users: Ints
    malleable: Mask
    """Whether its size may change while it runs."""
    profiles: tuple[PassProfile, ...] = ()
    """Empty, or one per job."""
    limit_ns: Ints | None = None
    """Time limit of each attempt, 0 = unlimited; None: no job has a limit."""
    units: UnitColumns | None = None
    """None: a unit is a whole node without other requests."""
    apps: Ints | None = None
    """Applications; None: unknown."""
    waits: WaitColumns | None = None
    """None: no queue states a wait."""
    predicted_uw: Ints | None = None
    """Predicted power of each job above idle nodes, 0 = unknown; None: unknown for all."""
    training: TrainingColumns | None = None
    """None: no training jobs and no due dates."""

    def waits_of(self, job: int) -> Waits:
        """Return the waits that the queue of a job states."""
        if self.waits is None:
            return NO_WAITS
        return Waits(int(self.waits.expected_ns[job]), int(self.waits.max_ns[job]))

    def __len__(self) -> int:
        return len(self.job_ids)


def on_range(table: JobTable, cap_uw_min: int, cap_uw_max: int) -> JobTable:
    """Return the jobs with their profiles scaled to nodes with this range of caps."""
    ends_w = w_from_uw(cap_uw_min), w_from_uw(cap_uw_max)
    if all(profile.range_w in (ANY_RANGE_W, ends_w) for profile in table.profiles):
        return table
    return replace(table, profiles=tuple(profile.on(*ends_w) for profile in table.profiles))


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
    """Return the jobs of a workload in order of (submission, id).

    With annotations, every job is moldable. A share of them, drawn from the seed, is malleable. The
    profile of a job determines its run time. Raises ValueError for a job without a size, or with a
    run time or estimate below zero.

    - ``cut_at_estimate``: a job without a profile ends at the time that its user requested if the
      log says that it ran longer, as sites do.
    - ``priorities``: weights of users, 1 for other users.
    - ``ends_at_limit``: the requested time is a limit. Jobs run as long as the log or their
      profiles say, up to this limit.
    - ``units``: an entry for each job of the workload.
    - ``queue_waits``: waits of queues by their numbers in the workload.
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
    """Raise ValueError for a queue without jobs."""
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
