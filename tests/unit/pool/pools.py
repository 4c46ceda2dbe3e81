"""Small job tables and machines for tests of the pool simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wattfold.coordinator.models.pass_model import APPLICATIONS, PassProfile
from wattfold.coordinator.policies.port import (
    FOR_NOBODY,
    Change,
    Decision,
    JobInformation,
    Parts,
    Scheduler,
    Site,
)
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.running_jobs.jobs import JobTable

S = 1_000_000_000
W = 1_000_000
MACHINE = Machine.of_watts(10, base_w=20, dram_w=10, cap_w_min=20, cap_w_max=60, idle_w=0)

Row = tuple[float, int, float]
"""Submission (s), nodes, run time (s)."""


def table(*rows: Row, estimates: Sequence[float] = (), app: str = "") -> JobTable:
    """Job table, with jobs numbered from 1."""
    count = len(rows)
    size = np.array([row[1] for row in rows], dtype=np.int64)
    run_ns = np.array([round(row[2] * S) for row in rows], dtype=np.int64)
    profiles: tuple[PassProfile, ...] = ()
    if app:
        profiles = tuple(
            replace(APPLICATIONS[app], t1_s=row[1] * row[2], average_parallelism=100.0, sigma=0.0)
            for row in rows
        )
    return JobTable(
        job_ids=np.arange(1, count + 1),
        submit_ns=np.array([round(row[0] * S) for row in rows], dtype=np.int64),
        size_min=np.ones(count, dtype=np.int64) if app else size,
        size_max=size,
        run_ns=run_ns,
        estimate_ns=np.array([round(e * S) for e in estimates]) if estimates else run_ns,
        priority=np.ones(count),
        users=np.zeros(count, dtype=np.int64),
        malleable=np.full(count, bool(app)),
        profiles=profiles,
    )


Step = tuple[float, Sequence[tuple[int, int, int] | Parts]]
"""Time in seconds, and jobs with size and cap, or with parts of nodes; size 0 preempts the job."""


def decision_of(given: Sequence[tuple[int, int, int] | Parts]) -> Decision:
    """Return a decision from jobs with size and cap, or with parts of nodes."""
    return Decision(
        [
            one if isinstance(one, Parts) else Change(*one)
            for one in given
            if isinstance(one, Parts) or one[1]
        ],
        [(one[0], FOR_NOBODY) for one in given if not isinstance(one, Parts) and not one[1]],
    )


class Script(Scheduler):
    """Scheduler that makes given decisions at given times."""

    name = "script"
    each_event = False
    solver_ns: Sequence[int] = ()

    def __init__(self, *steps: Step) -> None:
        self._steps = [(round(at * S), list(decisions)) for at, decisions in steps]
        self.seen: list[tuple[int, int]] = []
        self.jobs: JobInformation | None = None

    @property
    def revisit_ns(self) -> int:
        return self._steps[0][0] if self._steps else 0

    def attach(self, jobs: JobInformation) -> None:
        self.jobs = jobs

    def site(self, site: Site) -> None:
        self.seen.append((site.count, site.spendable_uw))

    def submit(self, job: int, now_ns: int) -> None: ...

    def end(self, job: int, now_ns: int) -> None: ...

    def decide(self, now_ns: int) -> Decision:
        out: list[tuple[int, int, int] | Parts] = []
        while self._steps and self._steps[0][0] <= now_ns:
            out += self._steps.pop(0)[1]
        return decision_of(out)
