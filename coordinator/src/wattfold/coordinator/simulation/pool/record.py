"""What a simulated run leaves behind: a column per property of the jobs, and series over time.

Times are nanoseconds of the log, powers microwatts, energies microjoules. Nothing here depends on
the machine the simulation ran on but `RunRecord.wall_s` and times of decisions and solvers, which
stay out of files that must be the same for the same seed.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.coordinator.simulation.pool.jobs import JobTable
from wattfold.coordinator.simulation.pool.machine import Machine
from wattfold.coordinator.simulation.pool.node_machine import NodeMachine
from wattfold.coordinator.simulation.pool.prices import Prices
from wattfold.coordinator.simulation.workloads.workload import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobColumns:
    """One entry a job, in the order of the job table; -1 where a job has not got that far."""

    start_ns: Ints
    end_ns: Ints
    first_size: Ints
    """Nodes it started with."""
    last_size: Ints
    resizes: Ints
    stalled_ns: Ints
    """Time lost to resizes."""
    node_ns: Ints
    """Nodes held, integrated over time."""
    energy_uj: Ints
    """Drawn by its nodes while it held them: base power, DRAM and packages."""
    first_cap_uw: Ints
    mean_cap_uw: Floats
    """Package cap over the time it ran."""
    first_cores: Ints | None = None
    """Cores of all its nodes when it started; with the next two, None where nodes are counted."""
    last_cores: Ints | None = None
    core_ns: Ints | None = None
    """Cores held, integrated over time."""
    attempts: Ints | None = None
    """How often it was started; times and sizes are of the last one. With the next two, None where
    jobs are neither ended nor pre-empted."""
    wasted_ns: Ints | None = None
    """Time of earlier attempts whose work was lost."""
    timed_out: Ints | None = None
    """1 where it was ended by its time limit."""
    gpu_ns: Ints | None = None
    """GPUs held, integrated over time; None where nobody trains."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """State after each instant at which something changed; constant until the next entry."""

    time_ns: Ints
    queued: Ints
    running: Ints
    nodes_busy: Ints
    committed_uw: Ints
    drawn_uw: Ints
    budget_uw: Ints
    unused_uw: Ints | None = None
    """What nodes without a job draw, as part of what is drawn; None where nobody trains."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunRecord:
    """One policy on one workload."""

    policy: str
    seed: int
    machine: Machine | NodeMachine
    jobs: JobTable
    columns: JobColumns
    series: Series
    energy_uj: int
    """Of the whole machine from the first submission to the last end, idle nodes included."""
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
    """The first start each job was told while it waited, -1 = none; None where nobody was."""
    decisions: int = 0
    """How often the scheduler was asked, of runs of a pool."""
    deciding_ns: int = 0
    """Real time of them all. As the next three 0 unless jobs train or are promised waits."""
    longest_decision_ns: int = 0
    deciding_cpu_ns: int = 0
    """CPU time of the thread that decides, which other work on the machine does not stretch."""
    longest_decision_cpu_ns: int = 0
    prices: Prices | None = None
    """What it is charged for; None: nothing."""
