"""Settings of the evaluation: the paper's values, and assumptions for the rest."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from wattfold.simulator.papers.assumptions import assumption
from wattfold.simulator.papers.stand_in import StandIn

NODES = 64
"""Processors of its cluster, 32 nodes with two each, used independently."""
RUN_S = 64.5
"""Run time of 100 iterations on all processors."""
LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SHORT_JOBS, LONG_JOBS = 50, 10_000
SHORT_SEEDS, LONG_SEEDS = 20, 5
QUICK_JOBS, QUICK_SEEDS = 500, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class EquipartitionAssumptions:
    """Assumptions with an option."""

    parallelism: float = assumption(
        64.0, help="Average parallelism of the program (Downey).", metavar="A"
    )
    sigma: float = assumption(
        1.0,
        help="Coefficient of variation of the parallelism (Downey): 0 = linear speed-up up to the "
        "average parallelism.",
        metavar="S",
    )
    stall_s: float = assumption(
        5.0, help="Time that a change of size costs a job, in runs with resize costs."
    )

    def __post_init__(self) -> None:
        if not self.parallelism >= 1 or not 0 <= self.sigma <= 1:
            raise ValueError(
                "a program has an average parallelism of 1 or more and a sigma between 0 and 1, "
                f"got {self.parallelism:g} and {self.sigma:g}"
            )
        if not 0 <= self.stall_s <= 3600:
            raise ValueError(f"a stall is between 0 and 3600 s, got {self.stall_s:g}")

    def document(self) -> dict[str, object]:
        """Return the settings as plain data."""
        return asdict(self)


def stand_ins(settings: EquipartitionAssumptions) -> tuple[StandIn, ...]:
    """Return the assumptions for everything that the paper leaves open."""
    return (
        StandIn(
            name="speed-up",
            value=f"Downey's model, A = {settings.parallelism:g}, sigma = {settings.sigma:g}",
            why="its Figure 6 says sub-linear and has no numbers in the text",
            option="--parallelism, --sigma",
        ),
        StandIn(
            name="load factor",
            value=f"arrival rate times the mean time on all {NODES} processors, {RUN_S:g} s",
            why="the mean service time depends on sizes, which the scheduler chooses",
        ),
        StandIn(
            name="traditional scheduler",
            value="equipartition of jobs with equal minimum and maximum size, which is first fit",
            why="of PBS and DQS it says first fit and no more; one code decides for both",
        ),
        StandIn(
            name="cost of a resize",
            value=f"none, and {settings.stall_s:g} s without progress",
            why="its simulation states none; 5 s is the bound that it takes from earlier work",
            option="--stall",
        ),
        StandIn(
            name="utilisation",
            value="processors held, of all of them, from the first submission to the last end",
            why="not defined",
        ),
    )
