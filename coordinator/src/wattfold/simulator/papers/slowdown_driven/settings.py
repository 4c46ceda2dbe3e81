"""Assumptions for values that the evaluation needs and the paper does not state, with reasons."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from wattfold.simulator.papers.assumptions import assumption
from wattfold.simulator.papers.stand_in import StandIn

SEEDS = 3
QUICK_SEEDS = 2
QUICK_JOBS = {
    "cirne": 400,
    "cirne-exact": 400,
    "ricc": 1000,
    "curie": 3000,
    "kth": 1000,
    "mira": 500,
}
"""Number of first jobs of each workload in a quick run."""
RICC_FIRST_ID = 415_556
RICC_JOBS = 10_000
GAINS_TRIED = (0.0, 2.0, 5.0, 10.0, 20.0, 50.0)
"""Candidates for the gain of *worth it*."""
CHOSEN_GAIN = 0.0
"""Best candidate on the logs of the choice (`gain`)."""
LIMITS = (5.0, 10.0, 50.0, 0.0)
"""MAX_SLOWDOWN of Figures 1 to 3; 0 = infinite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowdownAssumptions:
    """Assumptions with an option."""

    looked: int = assumption(
        1000, help="Number of jobs that a pass of the limited scheduler considers.", metavar="N"
    )
    every_s: float = assumption(23.0, help="Time between two passes of the limited scheduler.")
    sharing_factor: float = assumption(
        0.5, help="Maximum fraction of the cores of a mate that a guest may borrow.", metavar="F"
    )
    least_gain: float = assumption(
        10.0,
        help="Predicted slowdown that a job must gain by sharing, in the variant that is not from "
        "the paper.",
        metavar="G",
    )
    tested: int = assumption(
        200,
        help="Number of waiting jobs for which mates are searched, if passes are not limited.",
        metavar="N",
    )

    def __post_init__(self) -> None:
        if self.looked < 1 or not 0 < self.every_s <= 86_400:
            raise ValueError(
                "a limited scheduler examines 1 job or more, every day or more often; got "
                f"{self.looked} jobs every {self.every_s:g} s"
            )
        if not 0 < self.sharing_factor < 1:
            raise ValueError(f"a sharing factor is between 0 and 1, got {self.sharing_factor:g}")
        if not 0 <= self.least_gain <= 1e6:
            raise ValueError(f"a gain in slowdown is 0 or more, got {self.least_gain:g}")
        if self.tested < 1:
            raise ValueError(f"at least 1 waiting job must be examined, got {self.tested}")

    def document(self) -> dict[str, object]:
        """Return the settings as plain data."""
        return asdict(self)


def stand_ins(settings: SlowdownAssumptions, *, quick: bool) -> tuple[StandIn, ...]:
    """Return the assumptions for everything that the paper leaves open."""
    found = [
        StandIn(
            name="static backfill",
            value="ideal: EASY at every event; limited: EASY with the limits of Slurm, "
            f"{settings.looked} jobs examined, a pass every {settings.every_s:g} s, only "
            "in-order starts between passes",
            why="the paper has Slurm's scheduler and does not state its parameters; both are run, "
            "and slowdown-driven under the same limits",
            option="--looked, --every",
        ),
        StandIn(
            name="not modelled of Slurm",
            value="reservations for more than the head of the queue, its window of a day and its "
            "time slots, scheduling time",
            why="its backfill reserves for every job it examines, which EASY does not",
        ),
        StandIn(
            name="workloads 1 and 2",
            value="forms of Cirne and Berman refitted to SDSC SP2, sizes up to 128 nodes; minimum "
            "and maximum request (60 s, 48 h) and mean gap (30 s) fitted to Table 1",
            why="neither the constants of the model nor ANL's arrivals are public",
        ),
        StandIn(
            name="workload 3",
            value=f"the {RICC_JOBS} jobs of RICC 2010 from id {RICC_FIRST_ID} on",
            why="only the month is stated; of these jobs the largest has the 72 nodes of Table 1",
        ),
        StandIn(
            name="workload 4",
            value="CEA Curie 2011, partition 10, without 11 jobs of no size",
            why="the log has 198,509 jobs as in Table 1",
        ),
        StandIn(
            name="jobs without a run time",
            value="take 1 s",
            why="the reader of logs repairs them so",
        ),
        StandIn(
            name="malleable jobs",
            value="all jobs, one rank on a node",
            why="shares are not stated for the simulations",
        ),
        StandIn(
            name="head of the queue",
            value="keeps its reservation",
            why="not said in the paper",
        ),
        StandIn(
            name="end of a guest",
            value="by the ends of its mates without it (before), and by their delayed ends (after)",
            why="new jobs must finish inside mates' allocation, which the paper does not define; "
            "both readings are run",
        ),
        StandIn(
            name="sharing factor",
            value=f"{settings.sharing_factor:g}",
            why="the paper's; one of two sockets",
            option="--sharing-factor",
        ),
        StandIn(
            name="worth it",
            value=f"no limit, and a predicted slowdown lower by at least {settings.least_gain:g}",
            why="not the paper's: with EASY, jobs that gain little by sharing harm the jobs "
            "behind them. The gain was chosen on these workloads, so no claim is made; the "
            "experiment gain chooses it on other logs",
            option="--least-gain",
        ),
        StandIn(
            name="jobs examined for mates",
            value=f"{settings.tested} waiting jobs (ideal), {settings.looked} (limited)",
            why="a bound on the time of a decision",
            option="--tested",
        ),
    ]
    if quick:
        counts = ", ".join(f"{name} {count}" for name, count in QUICK_JOBS.items())
        found.append(StandIn(name="quick", value=f"first jobs only: {counts}", why="for a look"))
    return tuple(found)
