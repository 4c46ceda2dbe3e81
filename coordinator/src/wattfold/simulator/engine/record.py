"""Record of a simulated run: a column per property of the jobs, and series over time.

Times are nanoseconds of the log, powers microwatts, energies microjoules. Only `RunRecord.wall_s`
and the times of decisions and solvers depend on the computer that ran the simulation. Files that
must be identical for the same seed leave them out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.prices import Prices
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.sleep.sleep_counts import SleepCounts
from wattfold.simulator.workloads.workload import Floats, Ints

Texts = NDArray[np.object_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobColumns:
    """One entry per job, in the order of the job table; -1 if a job has not got that far."""

    start_ns: Ints
    end_ns: Ints
    first_size: Ints
    """Nodes at its start."""
    last_size: Ints
    resizes: Ints
    stalled_ns: Ints
    """Time lost to resizes."""
    node_ns: Ints
    """Nodes held, integrated over time."""
    energy_uj: Ints
    """Energy of its nodes while it held them: base power, DRAM and packages."""
    first_cap_uw: Ints
    mean_cap_uw: Floats
    """Mean package cap over its run time."""
    first_cores: Ints | None = None
    """Cores of all its nodes at its start; with the next two, None for counted nodes."""
    last_cores: Ints | None = None
    core_ns: Ints | None = None
    """Cores held, integrated over time."""
    places: Texts | None = None
    """`TIME=PLACES|TIME=PLACES...`: nodes and cores from each time on, times in s.

    PLACES is formatted by `by_node.places_text`, and is empty while a job holds no cores.
    """
    attempts: Ints | None = None
    """Number of starts; times and sizes are those of the last attempt.

    With the next two, None if jobs have no limits and are not preempted.
    """
    wasted_ns: Ints | None = None
    """Time of earlier attempts whose work was lost."""
    timed_out: Ints | None = None
    """1 if its time limit ended it."""
    gpu_ns: Ints | None = None
    """GPUs held, integrated over time; None without training jobs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """State after each instant with a change; constant until the next entry."""

    time_ns: Ints
    queued: Ints
    running: Ints
    nodes_busy: Ints
    committed_uw: Ints
    drawn_uw: Ints
    budget_uw: Ints
    unused_uw: Ints | None = None
    """Power of nodes without a job, part of ``drawn_uw``; None without training jobs."""
    nodes_awake: Ints | None = None
    """Nodes that do not sleep; None if no node sleeps."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunRecord:
    """Results of one policy on one workload."""

    policy: str
    seed: int
    machine: Machine | NodeMachine
    jobs: JobTable
    columns: JobColumns
    series: Series
    energy_uj: int
    """Energy of the machine from the first submission to the last end, with idle nodes."""
    peak_committed_uw: int
    peak_drawn_uw: int
    over_budget_ns: int
    rounds: int
    """Planning rounds that had something to decide."""
    solver_ns: Ints
    """Time of each solved round; empty for policies without a solver."""
    wall_s: float
    events: int
    told_ns: Ints | None = None
    """First start reported to each waiting job, -1 = none; None if no job got a report."""
    decisions: int = 0
    """Number of requests for decisions, of runs of a pool."""
    deciding_ns: int = 0
    """Wall time of all decisions. This and the next three are 0 without training jobs and waits."""
    longest_decision_ns: int = 0
    deciding_cpu_ns: int = 0
    """CPU time of the deciding thread, which does not depend on other load of the machine."""
    longest_decision_cpu_ns: int = 0
    prices: Prices | None = None
    """Prices of energy and tardiness; None: no costs."""
    sleep: SleepCounts | None = None
    """Boots and nodes awake; None: no node sleeps."""

    def with_sleep(self, counts: SleepCounts) -> Self:
        """Return the record with the totals of a run whose nodes sleep."""
        awake = np.array(counts.awake, dtype=np.int64)
        return replace(self, sleep=counts, series=replace(self.series, nodes_awake=awake))
