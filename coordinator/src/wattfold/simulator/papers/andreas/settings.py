"""Settings of the evaluation of ANDREAS: published values, and assumptions for the rest.

F. Filippini, D. Ardagna, M. Lattuada, E. Amaldi, M. Ciavotta, M. Riedl, K. Materka, P. Skrzypek, F.
Magugliani, M. Cicala: ANDREAS, Artificial intelligence traiNing scheDuler foR accElerAted resource
clusterS. FiCloud 2021 (arXiv 2105.05080).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple

from wattfold.simulator.papers.assumptions import assumption
from wattfold.simulator.papers.stand_in import StandIn

OURS, FIFO, EDF, PRIORITY = "andreas", "fifo", "edf", "priority"
BASELINES = (FIFO, EDF, PRIORITY)
WAITING = ("fifo, waits", "edf, waits", "priority, waits")
"""The same, but a job waits for GPUs if that costs less: stronger than the paper's baselines."""
POLICIES = (OURS, *BASELINES)
"""The paper's policies; ours uses the better search."""
PAPERS = "andreas, greedy"
"""The paper's objective and search."""
UNAWARE = "andreas, mean price"
"""Plans with the mean of the prices."""
CAPPED = "andreas, limits"
"""Also chooses limits of the GPUs."""
CONSTANT_EUR = 0.172
"""EUR per kWh."""
PUE = 1.33
MEASURED, COMPOSED = "measured", "composed"
WORKLOADS = (MEASURED, COMPOSED)
"""Jobs measured by the authors, and jobs composed from other published figures."""
HIGH, LOW = 1.3 / 3, 1.3 / 12
"""Arrival rates of the two kinds of clusters, relative to the capacity of the GPUs."""
MEASURED_HIGH, MEASURED_LOW = 1 / 2.5, 1 / 10
"""The same for measured jobs."""
CLUSTER = "cluster"
CLUSTER_JOBS = 10
DUE = 1.0, 3.0
"""Time to the due date, relative to the fastest time of the job."""
WEIGHT_EUR = 2 * 0.0015, 2 * 0.0075
"""Cost of a second of tardiness."""
JOBS_A_NODE = 10
NODES = tuple(range(10, 101, 10))
QUICK_NODES = (10,)
SEEDS, QUICK_SEEDS = 5, 2
PRICE_NODES = CAPS_NODES = 10
BUDGET_SHARES = (1.0, 0.6, 0.4, 0.2)
LEVELS = 4
"""Number of selectable limits."""
GAP_SEEDS, QUICK_GAP_SEEDS = 100, 10
CONSTANT, TABLE = "constant", "two prices"
SPRING_SPOT, SPRING_SITE = "spring, spot", "spring, site"
WINTER_SPOT, WINTER_SITE = "winter, spot", "winter, site"
PRICES = (CONSTANT, TABLE, SPRING_SPOT, SPRING_SITE, WINTER_SPOT, WINTER_SITE)
MOST_S = 10 * 86400.0
"""A job with a longer slowest time is drawn again."""


class Scenario(NamedTuple):
    """GPUs of the two halves of the nodes, and the paper's saving of total cost."""

    number: int
    v100: int
    t4: int
    published_saving: float


SCENARIOS = (Scenario(1, 2, 1, 0.62), Scenario(2, 4, 2, 0.30))
PUBLISHED_CALL_S = 0.1
"""Maximum time of a call of the optimizer."""


MEASURES = {
    "total_eur": "energy of nodes with a job, and tardiness, EUR: the paper's total cost",
    "energy_eur": "energy of nodes with a job, EUR",
    "tardiness_eur": "sum of weight x tardiness, EUR",
    "idle_eur": "energy of nodes without a job, first submission to last end, EUR",
    "energy_kwh": "energy of all nodes, without PUE, kWh",
    "jobs_late": "jobs that end after they are due",
    "tardiness_h": "total tardiness, h",
    "makespan_h": "first submission to last end, h",
    "response_h": "mean time from submission to end, h",
    "preemptions": "preemptions to resume later or elsewhere",
    "wasted_share": "work lost by preemption, of the time jobs ran",
    "call_s": "mean time of a decision, s",
    "call_s_max": "longest decision, s",
    "calls": "decisions",
    "committed_w_peak": "maximum committed power, W",
    "jobs": "jobs",
}


GAP_MEASURES = {
    "gap": "objective of the plan of one call above that of the best plan, relative; the paper's "
    "objective",
    "gap_own": "the same for the objective that we use",
    "gap_greedy": "the same for the paper's search alone",
    "proven": "1 if the best plan is proven optimal",
    "exact_s": "total time, s",
    "jobs_gap": "jobs of the problem",
    "nodes_gap": "its nodes",
}
GAP_MEAN = 0.03
GAP_JOBS, GAP_NODES = (4, 8), (2, 4)
"""Minimum and maximum numbers of jobs and nodes of a small problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AndreasAssumptions:
    """Assumptions with an option."""

    workload: str = assumption(
        MEASURED,
        help="Jobs of scenarios and prices. measured: as the authors measured them on their nodes. "
        "composed: from figures of other authors, with a higher load.",
        choices=WORKLOADS,
    )
    host_idle_w: float = assumption(200.0, help="Power of an idle node without its GPUs.")
    host_work_w: float = assumption(
        30.0, help="Additional power of a node, without its GPUs, when all GPUs are in use."
    )
    restart_s: float = assumption(
        60.0, help="Time without progress when a job resumes from a snapshot."
    )
    snapshot_epochs: int = assumption(
        1, help="Number of epochs between two snapshots.", metavar="N"
    )
    iterations: int = assumption(
        1000, help="Maximum number of iterations of the randomised greedy search of the paper."
    )

    def __post_init__(self) -> None:
        if self.workload not in WORKLOADS:
            raise ValueError(f"jobs must be {' or '.join(WORKLOADS)}, got {self.workload!r}")
        if not (0 < self.host_idle_w < 10_000 and 0 < self.host_work_w < 10_000):
            raise ValueError(
                f"a host must draw 0 to 10,000 W, got {self.host_idle_w:g} W idle and "
                f"{self.host_work_w:g} W more at work"
            )
        if not 0 <= self.restart_s < 86_400:
            raise ValueError(f"a restart must take 0 s to a day, got {self.restart_s:g} s")
        if self.snapshot_epochs < 1 or self.iterations < 1:
            raise ValueError("epochs of a snapshot and iterations are counted from 1")

    def document(self) -> dict[str, object]:
        """Return the settings as plain data."""
        return asdict(self)


def stand_ins(settings: AndreasAssumptions) -> tuple[StandIn, ...]:
    """Return the assumptions for everything that the paper leaves open."""
    return (
        *(_measured_jobs() if settings.workload == MEASURED else _composed_jobs(settings)),
        StandIn(
            name="nodes without a job",
            value="reported separately, not in the total cost",
            why="the cost in the paper is that of the used nodes",
        ),
        StandIn(
            name="snapshots and restarts",
            value=f"every {settings.snapshot_epochs} epochs; a restart takes "
            f"{settings.restart_s:g} s",
            why="snapshots are the paper's; its simulation counts no restarts, ours does",
            option="--restart, --snapshot-epochs",
        ),
        StandIn(
            name="the paper's search",
            value=f"{settings.iterations} passes. Running jobs keep their place without loss; "
            "another place costs a restart. One job in five draws one of its best three options. "
            "One in twenty changes places with the next. Without room, all options on any node "
            "are tried. The fullest of equal nodes is taken",
            why="the paper plans without restarts. It draws the option of every job, from an "
            "unknown number, and tries only options in time on open nodes",
            option="--iterations",
        ),
        StandIn(
            name="baselines",
            value="each job in order takes the cheapest free configuration that meets its due "
            "date, or else the fastest, and keeps it; further baselines wait for a cheaper "
            "configuration",
            why="the paper only says that they never change a started job; the code of the "
            "authors' later simulator has them so",
        ),
        StandIn(
            name="prices that change",
            value="a spring and a winter week of an hourly market with noise, alone and with 92 "
            "EUR/MWh added; two prices a day",
            why="the paper has one price",
        ),
    )


def _measured_jobs() -> tuple[StandIn, ...]:
    return (
        StandIn(
            name="jobs and nodes",
            value="ten kinds of jobs and the watts of whole nodes as the authors measured them; "
            "two V100 or one T4 a job at most",
            why="they are published with the code of their later simulator, not in the paper",
            option="--workload",
        ),
        StandIn(
            name="arrivals and due dates",
            value="clusters of ten jobs at a high and a low rate in turn, for two GPUs a node; due "
            "after U(fastest, slowest time), weights 2 U(0.0015, 0.0075) EUR a second",
            why="as that simulator's generators have it; one has weights of 0.025 to 0.044",
        ),
    )


def _composed_jobs(settings: AndreasAssumptions) -> tuple[StandIn, ...]:
    return (
        StandIn(
            name="profiles of the jobs",
            value="LSTM, EfficientNet and ConvNet put together from published rates, 12 kinds, of "
            "60, 80 or 160 epochs",
            why="for more kinds, with limits of GPUs; each number's source is in the module "
            "`profiles`",
            option="--workload",
        ),
        StandIn(
            name="arrivals and due dates",
            value="clusters of ten jobs at a high and a low rate in turn, for all GPUs of a node; "
            "due after U(1, 3) times the fastest time, weights 2 U(0.0015, 0.0075) EUR a second",
            why="as one of the generators of the authors' later simulator has it",
        ),
        StandIn(
            name="power of a node without its GPUs",
            value=f"{settings.host_idle_w:g} W, and {settings.host_work_w:g} W more with all GPUs "
            "in use; V100 36 to 250 W, T4 10 to 70 W",
            why="the paper measured whole nodes and does not say what",
            option="--host-idle, --host-work",
        ),
    )
