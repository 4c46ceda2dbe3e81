"""Records of small runs, made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wattfold.contract.units import NS_PER_S, UW_PER_W
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.record import JobColumns, RunRecord, Series
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.workloads.workload import Ints

Job = tuple[float, float, float, int]
"""Submission, start and end in seconds (-1: not yet), nodes."""
State = tuple[float, int, int, int, float, float, float]
"""Time in seconds, jobs queued, running, nodes busy, watts committed, drawn, budget."""


def ints(values: Sequence[float], scale: int = 1) -> Ints:
    return np.array([-1 if v < 0 else round(v * scale) for v in values], dtype=np.int64)


def record(
    jobs: Sequence[Job],
    states: Sequence[State] = (),
    *,
    policy: str = "easy",
    seed: int = 1,
    nodes: int = 4,
    static_run_s: Sequence[float] = (),
    stalled_s: Sequence[float] = (),
    solver_s: Sequence[float] = (),
    energy_j: float = 0.0,
) -> RunRecord:
    """A run whose jobs kept their size; static run times default to those of the run."""
    count = len(jobs)
    submit, start, end = (ints([job[i] for job in jobs], NS_PER_S) for i in range(3))
    sizes = ints([job[3] for job in jobs])
    ran = np.where(end >= 0, end - start, 0)
    static = ints(static_run_s, NS_PER_S) if static_run_s else ran
    stalled = ints(stalled_s or [0.0] * count, NS_PER_S)
    power = [ints([state[i] for state in states], UW_PER_W) for i in range(4, 7)]
    return RunRecord(
        policy=policy,
        seed=seed,
        machine=Machine.of_watts(nodes),
        jobs=JobTable(
            job_ids=np.arange(1, count + 1, dtype=np.int64),
            submit_ns=submit,
            size_min=np.ones(count, dtype=np.int64),
            size_max=sizes,
            run_ns=static,
            estimate_ns=static * 2,
            priority=np.ones(count, dtype=np.float64),
            users=np.arange(count, dtype=np.int64) % 3,
            malleable=np.arange(count) % 2 == 0,
        ),
        columns=JobColumns(
            start_ns=start,
            end_ns=end,
            first_size=sizes,
            last_size=sizes,
            resizes=(stalled > 0).astype(np.int64),
            stalled_ns=stalled,
            node_ns=ran * sizes,
            energy_uj=ran // 1000 * sizes * 116,
            first_cap_uw=np.full(count, 60_000_000, dtype=np.int64),
            mean_cap_uw=np.full(count, 55_500_000.5, dtype=np.float64),
        ),
        series=Series(
            time_ns=ints([state[0] for state in states], NS_PER_S),
            queued=ints([state[1] for state in states]),
            running=ints([state[2] for state in states]),
            nodes_busy=ints([state[3] for state in states]),
            committed_uw=power[0],
            drawn_uw=power[1],
            budget_uw=power[2],
        ),
        energy_uj=round(energy_j * 1e6),
        peak_committed_uw=int(power[0].max()) if len(states) else 0,
        peak_drawn_uw=int(power[1].max()) if len(states) else 0,
        over_budget_ns=0,
        rounds=len(solver_s),
        solver_ns=ints(solver_s, NS_PER_S),
        wall_s=0.5,
        events=2 * count,
    )


JOBS: tuple[Job, ...] = ((100, 100, 200, 2), (110, 200, 204, 4), (120, 204, 304, 1))
STATES: tuple[State, ...] = (
    (100, 0, 1, 2, 300.0, 250.0, 464.0),
    (110, 1, 1, 2, 300.0, 240.0, 464.0),
    (120, 2, 1, 2, 300.0, 250.0, 464.0),
    (200, 1, 1, 4, 464.0, 400.0, 464.0),
    (204, 0, 1, 1, 200.0, 150.0, 400.0),
    (304, 0, 0, 0, 100.0, 90.0, 400.0),
)


def small(**changed: object) -> RunRecord:
    """Three jobs on four nodes, one after the other."""
    return record(JOBS, STATES, energy_j=51_000, **changed)  # type: ignore[arg-type]
