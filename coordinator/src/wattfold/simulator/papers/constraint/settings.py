"""Settings of the evaluation: the paper's values, and assumptions for the rest."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple

from wattfold.simulator.papers.assumptions import assumption
from wattfold.simulator.papers.stand_in import StandIn

WINDOW_JOBS = 700
"""Number of jobs of the paper's test 2."""


class LogWindow(NamedTuple):
    """`WINDOW_JOBS` jobs of the union from a position on, with compressed submission times."""

    first: int
    factor: float
    """Factor for the times between submissions."""

    @property
    def name(self) -> str:
        """Name as in tables."""
        return f"{self.first} x{self.factor:g}"


WINDOWS = (
    LogWindow(0, 0.1),
    LogWindow(300, 0.05),
    LogWindow(600, 0.02),
    LogWindow(600, 0.1),
    LogWindow(900, 0.05),
    LogWindow(900, 0.1),
    LogWindow(1200, 0.05),
    LogWindow(1200, 0.1),
    LogWindow(1500, 0.05),
    LogWindow(1800, 0.1),
    LogWindow(2100, 0.05),
    LogWindow(2400, 0.02),
)
TEST_1, TEST_2 = WINDOWS[1], (WINDOWS[2], WINDOWS[4])
"""Windows on which the WQT of PBS is nearest to the published value; its TR is far below."""
WEEKS, WEEK_S, BLOCK_S = 5, 7 * 86400, 4 * 3600
QUICK_WINDOWS = (TEST_1,)
CHOICE_WINDOWS, HELD_OUT_WINDOWS = (WINDOWS[1], WINDOWS[4]), (WINDOWS[10], WINDOWS[11])
"""Windows of the first half of the union, for the choice of weights, and of the second half."""

FIFO, LOOK, WALLTIME = "pbs-fifo", "pbs-fifo look", "pbs-walltime"
OURS, CP = "constraint", "constraint-cp"
POLICIES = (FIFO, LOOK, WALLTIME, OURS, CP)
"""``LOOK`` is the other reading of backfilling over the first ten: only they are considered."""
PREDICTED = "constraint predicted"
"""Our policy under a power budget, with the predicted power of jobs."""
WEIGHTED = {
    f"{OURS} {lateness:g}/{late:g}": (lateness, late)
    for lateness, late in ((1.0, 0.2), (0.0, 0.0), (1.0, 1.0), (5.0, 1.0))
}
"""Policies by the weights of lateness and of a late job. The first weights are the defaults."""
COLUMNS = (*POLICIES, PREDICTED, *WEIGHTED)
"""All policies, in the order of tables."""
BASELINES = (FIFO, WALLTIME)
"""Baselines for our policy: of the two readings, the stronger."""
NAMES = {LOOK: "pbs-fifo", PREDICTED: OURS, **dict.fromkeys(WEIGHTED, OURS)}
MEASURES = {
    "wqt": "sum of wait / expected wait of the queue",
    "nl": "jobs that wait longer than the maximum of their queue",
    "tr_s": "total lateness, s",
    "ao_s": "mean time of a decision, s",
    "ao_max_s": "longest decision, s",
    "ao_cpu_s": "mean CPU time of a decision, s",
    "ao_cpu_max_s": "maximum CPU time of a decision, s",
    "start_error_s": "median deviation of starts from the first announced start, s",
    "start_kept": "share of jobs that start at that time, within a minute, or earlier",
    "wqt_mean": "WQT a job",
    "cores_used": "mean cores in use, first submission to last end",
    "makespan_s": "first submission to last end, s",
    "drawn_w_mean": "mean power, W, as nodes are charged here",
    "predicted_w_peak": "maximum total of the predicted power of the running jobs, W",
    "jobs": "jobs",
}


class Published(NamedTuple):
    """A column of the paper's Table 1."""

    test: str
    policy: str
    wqt: float
    nl: int
    tr_s: float
    ao_s: float


PUBLISHED = (
    Published("test 1", FIFO, 152.94, 65, 1298810, 0.47),
    Published("test 1", WALLTIME, 137.74, 60, 1223690, 3.14),
    Published("test 1", CP, 119.77, 46, 1003970, 11.45),
    Published("test 2", FIFO, 1034.2, 234, 16798300, 1.02),
    Published("test 2", WALLTIME, 853.681, 200, 13693000, 15.47),
    Published("test 2", CP, 2441.3, 376, 16774800, 34.82),
)
PUBLISHED_WEEKS = {CP: 2.50e-6, FIFO: 3.93e-6}
"""WQT per job on Eurora; mean cores in use were 510 to 573 and 520 to 599."""
WQT_SHARE, NL_SHARE, TR_SHARE = 0.65, 0.70, 0.55
"""Maximum sums over the windows, relative to the best baseline."""
AO_S, AO_MAX_S = 0.1, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintAssumptions:
    """Assumptions with an option."""

    budget_share: float = assumption(
        0.6,
        help="Power budget of the family budget, as a fraction of the maximum power above idle.",
        metavar="SHARE",
    )
    week_factor: float = assumption(
        0.77, help="Factor for the times between submissions in generated weeks.", metavar="F"
    )
    base_w: float = assumption(60.0, help="Base power of a node.")
    cap_min_w: float = assumption(50.0, help="Minimum package cap of a node.")
    cap_max_w: float = assumption(190.0, help="Maximum package cap of a node.")

    def __post_init__(self) -> None:
        if not 0 < self.budget_share <= 1:
            raise ValueError(
                f"the budget share must be above 0 and at most 1, got {self.budget_share:g}"
            )
        if not 0.01 <= self.week_factor <= 100:
            raise ValueError(f"the week factor must be 0.01 to 100, got {self.week_factor:g}")
        if not 0 < self.cap_min_w < self.cap_max_w < 10_000 or not 0 <= self.base_w < 10_000:
            raise ValueError(
                f"caps of a node must be above 0 W and ascend, got {self.cap_min_w:g} to "
                f"{self.cap_max_w:g} W with a base power of {self.base_w:g} W"
            )

    def document(self) -> dict[str, object]:
        """Return the settings as plain data."""
        return asdict(self)


def stand_ins(settings: ConstraintAssumptions) -> tuple[StandIn, ...]:
    """Return the assumptions for everything that the paper leaves open or that is lost."""
    return (
        StandIn(
            name="jobs of tests 1 and 2",
            value=f"{len(WINDOWS)} windows of {WINDOW_JOBS} jobs of the union of Eurora's traces "
            "of March and April 2014, times between submissions times 0.02 to 0.1",
            why="its instances are lost; raw traces hardly load the machine. The windows from "
            f"{TEST_1.name} and {' and '.join(one.name for one in TEST_2)} stand for tests 1 "
            "and 2: PBSFifo's WQT is near the published value there, its TR far below",
        ),
        StandIn(
            name="maximum waits of queues",
            value="debug 1 h, parallel 6 h, longpar 24 h, reservations 30 min",
            why="the file of queues that comes with the traces",
        ),
        StandIn(
            name="machine",
            value="64 nodes as listed with the traces; the login node is not among them",
            why="the paper's 65 nodes are these and the login node",
        ),
        StandIn(
            name="backfilling over the first N",
            value="N blocked jobs get reservations and any later job may be backfilled; also the "
            "reading in which only N jobs are examined",
            why="PBS allows both readings; ours is judged by the first, which is the stronger",
        ),
        StandIn(
            name="five weeks",
            value=f"weeks of blocks of {BLOCK_S // 3600} h drawn from the union, times between "
            f"submissions times {settings.week_factor:g}",
            why="the traces are 75 h; with the factor they offer as much work as was published",
            option="--week-factor",
        ),
        StandIn(
            name="power",
            value=f"{settings.base_w:g} W a node and packages of {settings.cap_min_w:g} to "
            f"{settings.cap_max_w:g} W; a budget leaves {settings.budget_share:.0%} of the "
            "power above idle",
            why="the paper has no power",
            option="--budget-share, --base, --cap-min, --cap-max",
        ),
        StandIn(
            name="times at lower caps",
            value="under a power budget jobs have the maximum cap, or their predicted power and a "
            "tenth more, which is assumed not to slow them",
            why="nothing is known of how caps slow the jobs of the traces",
        ),
    )
