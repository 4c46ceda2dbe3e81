"""Measurement of a case: it draws and runs jobs, and reduces the record to the paper's measures.

Arrivals are Poisson; the number of iterations of a job is exponential with a mean of 100. Its
minimum size is uniform over all sizes, its maximum is all processors; a rigid job has only its
minimum size. Everything is drawn from the seed alone, so that every load and scheduler has the same
jobs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wattfold.contract.units import NS_PER_S, ns_from_s
from wattfold.coordinator.models.pass_model import APPLICATIONS, PassProfile
from wattfold.coordinator.policies.equipartition.policy import EquipartitionScheduler
from wattfold.coordinator.policies.equipartition.settings import EquipartitionSettings
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.engine import simulate
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.papers.equipartition.case import (
    STALLED,
    TRADITIONAL,
    LoadCase,
)
from wattfold.simulator.papers.equipartition.settings import (
    NODES,
    RUN_S,
    EquipartitionAssumptions,
)
from wattfold.simulator.results.metrics import metrics_of
from wattfold.simulator.sweep.case import Case, Values

MEASURES = {
    "response_s": "mean response, submission to end, s",
    "utilisation": "processors held, of all over the makespan",
    "resizes": "changes of size of running jobs",
    "wait_s": "mean wait, s",
    "makespan_s": "first submission to last end, s",
}
"""Results of `measure`."""
MACHINE = Machine.of_watts(NODES, base_w=38, dram_w=18, cap_w_min=25, cap_w_max=60)
"""Power does not matter here: the budget feeds the whole machine."""
PUBLISHED = EquipartitionSettings(patience=0.0, costs="ignore")
"""The paper's rule ignores the cost of changes, and holds no nodes."""


def measure(case: Case) -> Values:
    """Run a case. Raises SimulationError."""
    if not isinstance(case, LoadCase):
        raise TypeError(f"not a case of this evaluation: {case.label}")
    stalled = case.scheduler == STALLED and case.settings.stall_s > 0
    record = simulate(
        jobs_of(case),
        MACHINE,
        EquipartitionScheduler(PUBLISHED),
        BudgetSchedule.constant(MACHINE.full_uw),
        resize_costs=False,
        restart_ns=ns_from_s(case.settings.stall_s) if stalled else None,
        seed=case.seed,
    )
    found = metrics_of(record)
    return {
        "response_s": found.response_s_mean,
        "utilisation": found.utilisation,
        "resizes": float(found.resizes),
        "wait_s": found.wait_s_mean,
        "makespan_s": found.makespan_s,
    }


def jobs_of(case: LoadCase) -> JobTable:
    """Return the jobs of a case, in order of submission."""
    rng = np.random.default_rng(np.random.SeedSequence(case.seed))
    iterations = rng.exponential(100.0, case.jobs)
    gaps_s = rng.exponential(RUN_S, case.jobs) / case.load
    least = rng.integers(1, NODES + 1, case.jobs)
    rigid = case.scheduler == TRADITIONAL
    greatest = least if rigid else np.full(case.jobs, NODES, dtype=np.int64)
    program, cap_w = program_of(case.settings), MACHINE.cap_uw_max / 1e6
    profiles = tuple(program.scaled(max(count, 1e-3) / 100) for count in iterations)
    run_ns = np.array(
        [
            round(profile.time_s(int(size), cap_w) * NS_PER_S)
            for profile, size in zip(profiles, greatest, strict=True)
        ],
        dtype=np.int64,
    )
    return JobTable(
        job_ids=np.arange(1, case.jobs + 1),
        submit_ns=np.round(np.cumsum(gaps_s) * NS_PER_S).astype(np.int64),
        size_min=least,
        size_max=greatest,
        run_ns=run_ns,
        estimate_ns=run_ns,
        priority=np.ones(case.jobs),
        users=np.zeros(case.jobs, dtype=np.int64),
        malleable=np.full(case.jobs, not rigid),
        profiles=profiles,
    )


def program_of(settings: EquipartitionAssumptions) -> PassProfile:
    """Return the profile of the molecular dynamics program for 100 iterations.

    Its power is that of another program.
    """
    any_profile = next(iter(APPLICATIONS.values()))
    unit = replace(
        any_profile,
        average_parallelism=settings.parallelism,
        sigma=settings.sigma,
        t1_s=1.0,
    )
    return unit.scaled(RUN_S / unit.time_s(NODES, MACHINE.cap_uw_max / 1e6))
