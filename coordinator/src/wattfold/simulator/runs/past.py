"""Ended jobs of a site as cases: a log and a file of profiles for each segment of the period.

Segments are the paired samples of the comparison, as seeds are for drawn jobs. Each segment starts
with an empty machine. `wattfold compare --log FILE --annotations FILE` repeats any case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from wattfold.coordinator.models.pass_model import APPLICATIONS, PassProfile
from wattfold.coordinator.models.scaling import scaled_time_s
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine
from wattfold.simulator.runs.case import PolicyChoice, SimulationCase, WorkloadSource
from wattfold.simulator.workloads.annotations import annotate, write_annotations
from wattfold.simulator.workloads.header import Header
from wattfold.simulator.workloads.selection import in_nodes
from wattfold.simulator.workloads.swf_writer import write_swf
from wattfold.simulator.workloads.workload import Workload

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S
SEGMENTS_MIN = 4
"""Smallest number of segments for an interval that can show a difference."""
JOBS_MIN = 10
"""Smallest number of jobs of a segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """The last attempt of an ended job. Times are seconds since 1970."""

    submitted_s: float
    run_s: float
    app: str
    """Empty = unknown."""
    cores: int
    """Cores of a job on a part of a node; 0 = whole nodes."""
    nodes: int
    """Mean number of nodes that it held, at least 1."""
    nodes_min: int
    nodes_max: int
    """Requested range; equal for a job that takes one size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastSegment:
    """Jobs submitted from ``start_s`` on, Unix seconds, in order of submission."""

    start_s: float
    jobs: tuple[PastJob, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """Equal parts of a period. ``sparse`` counts parts with too few jobs, which are left out."""

    length_s: float
    found: tuple[PastSegment, ...]
    sparse: int

    @property
    def jobs(self) -> int:
        """Number of jobs in all segments."""
        return sum(len(one.jobs) for one in self.found)

    @property
    def suffice(self) -> bool:
        """Whether an interval can show a difference."""
        return len(self.found) >= SEGMENTS_MIN


def segments_of(jobs: Sequence[PastJob], length_s: float | None = None) -> Segments:
    """Cut jobs into segments from the first submission on.

    Without a length, segments are weeks, or days if the weeks with enough jobs are too few.
    """
    if length_s is None:
        weeks = segments_of(jobs, WEEK_S)
        return weeks if weeks.suffice else segments_of(jobs, DAY_S)
    ordered = sorted(jobs, key=lambda job: job.submitted_s)
    parts: dict[int, list[PastJob]] = {}
    for job in ordered:
        part = int((job.submitted_s - ordered[0].submitted_s) // length_s)
        parts.setdefault(part, []).append(job)
    found = [
        PastSegment(start_s=ordered[0].submitted_s + part * length_s, jobs=tuple(members))
        for part, members in parts.items()
    ]
    kept = tuple(one for one in found if len(one.jobs) >= JOBS_MIN)
    return Segments(length_s=length_s, found=kept, sparse=len(found) - len(kept))


def machine_of(classes: Sequence[NodeClass], jobs: Sequence[PastJob]) -> Machine | NodeMachine:
    """Return counted nodes where counting is exact, else numbered nodes."""
    found = NodeMachine(classes=tuple(classes))
    shared = any(job.cores for job in jobs)
    counted = None if shared else found.counted
    return found if counted is None else counted


def write_segment(
    segment: PastSegment,
    folder: Path,
    procs_per_node: int,
    profiles: Mapping[str, PassProfile],
    seed: int,
) -> tuple[Path, Path]:
    """Write the log and the profiles of a segment; return both paths. Raises LogError."""
    name = f"{int(segment.start_s)}"
    log, annotations = folder / f"{name}.swf", folder / f"{name}.csv"
    scalings = _Scalings(segment, procs_per_node, profiles, seed)
    write_swf(scalings.workload, log)
    write_annotations(scalings.annotations, annotations)
    return log, annotations


class _Scalings:
    """Profiles of the jobs, and their run times at the maximum size.

    A job took its logged time at the mean size that it held. Its profile gives the time at the
    maximum size, which is the run time of the log.
    """

    def __init__(
        self, segment: PastSegment, each: int, profiles: Mapping[str, PassProfile], seed: int
    ) -> None:
        jobs = segment.jobs
        most = np.array([job.nodes_max for job in jobs], dtype=np.int64)
        held = self._workload(segment, each, [job.run_s for job in jobs])
        drawn = annotate(in_nodes(held, each), seed)
        a, sigma = drawn.average_parallelism.copy(), drawn.sigma.copy()
        apps, t1_s, run_s = list(drawn.apps), drawn.t1_s.copy(), np.array(held.run_s)
        for place, job in enumerate(jobs):
            known = profiles.get(job.app)
            if known is not None:
                a[place], sigma[place] = known.average_parallelism, known.sigma
                apps[place] = nearest_app(known)
            a_job, sigma_job = float(a[place]), float(sigma[place])
            t1_s[place] = job.run_s / scaled_time_s(1.0, a_job, sigma_job, job.nodes)
            run_s[place] = scaled_time_s(float(t1_s[place]), a_job, sigma_job, job.nodes_max)
        self.annotations = replace(
            drawn,
            size_min=np.array([job.nodes_min for job in jobs], dtype=np.int64),
            size_max=most,
            apps=tuple(apps),
            average_parallelism=a,
            sigma=sigma,
            t1_s=t1_s,
        )
        self.workload = held.changed(run_s=run_s)

    @staticmethod
    def _workload(segment: PastSegment, each: int, run_s: Sequence[float]) -> Workload:
        jobs = segment.jobs
        procs = [job.cores or job.nodes_max * each for job in jobs]
        apps = {app: number for number, app in enumerate(dict.fromkeys(j.app for j in jobs), 1)}
        return Workload.of_columns(
            Header().with_value("UnixStartTime", int(segment.start_s)),
            submit_s=[round(job.submitted_s - segment.start_s, 3) for job in jobs],
            run_s=run_s,
            procs=procs,
            requested_procs=procs,
            status=[1] * len(jobs),
            executables=[apps[job.app] for job in jobs],
        )


def nearest_app(profile: PassProfile) -> str:
    """Return the published application with the most similar sensitivity to frequency."""
    return min(sorted(APPLICATIONS), key=lambda name: abs(APPLICATIONS[name].beta - profile.beta))


def cases_of(
    logs: Sequence[tuple[Path, Path]],
    machine: Machine | NodeMachine,
    procs_per_node: int,
    policies: Sequence[PolicyChoice],
    budgets_uw: Sequence[int],
) -> list[SimulationCase]:
    """Return a case for each budget, policy and segment, in this order of nesting."""
    return [
        SimulationCase(
            source=WorkloadSource(
                log=log,
                annotations=annotations,
                profiles=True,
                procs_per_node=procs_per_node,
                share_nodes=isinstance(machine, NodeMachine),
            ),
            machine=machine,
            budget=BudgetSchedule.constant(budget_uw),
            policy=policy,
        )
        for budget_uw in budgets_uw
        for policy in policies
        for log, annotations in logs
    ]
