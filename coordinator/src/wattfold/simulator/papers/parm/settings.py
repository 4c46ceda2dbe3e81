"""Assumptions for values that the evaluation needs and the paper does not state, with reasons.

Every assumption can be set on the command line, so that a claim can be tested under others. All of
them are part of the key of a result, and printed with the verdicts.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from wattfold.simulator.papers.assumptions import assumption

if TYPE_CHECKING:
    from wattfold.simulator.papers.stand_in import StandIn

BASE_W = 38.0
"""W_base of a node of the published cluster, without memory (section VI-B)."""
DRAM_W = 18.0
"""Its DRAM cap (section VI-D)."""
FULL_CAP_W = 60.0
"""Maximum power of its packages; the cap of the baseline, which ignores power."""
FULL_NODE_W = BASE_W + DRAM_W + FULL_CAP_W

CLUSTER_NODES = 38
CLUSTER_BUDGET_W = 3300.0
CLUSTER_BASELINE_NODES = int(CLUSTER_BUDGET_W // FULL_NODE_W)
CLUSTER_SIZES = (12, CLUSTER_BASELINE_NODES)
"""Range of the maximum sizes of jobs on the cluster."""
CLUSTER_JOBS = 10
CLUSTER_SPAN_S = 5 * 3600.0
CLUSTER_MEAN_RUN_S = 3600.0

LARGE_BASELINE_NODES = 40_960
LARGE_BUDGET_W = LARGE_BASELINE_NODES * FULL_NODE_W
LARGE_JOBS = 1000
QUICK_JOBS = 300
"""Jobs of each set in a quick run."""
SIZES = 8
"""|N_j|, the number of node counts offered to a job."""
RESIZE_INTERVAL_S = 500.0
"""f_se of section VII-C."""

GAMMAS = (0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
QUICK_GAMMAS = (0.8, 0.5, 0.2)
SWEEP_GAMMA = 0.5
ALPHAS = (0.28, 0.98, 1.28, 1.48)
LEVELS = (2, 3, 4, 5, 6, 7, 8)
QUICK_LEVELS = (2, 4, 6, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParmAssumptions:
    """The assumptions. Other ranges are the paper's."""

    nodes: int = assumption(55_248, help="Number of nodes of the large machine.", metavar="N")
    alpha: float = assumption(0.28, help="Weight of waiting in the objective.", metavar="A")
    parallelism_factor: float = assumption(
        2.0,
        help="Range of the average parallelism A: maximum size / F to maximum size * F.",
        metavar="F",
    )
    memory_mb: float = assumption(2048.0, help="Data of a job on a node, which a resize moves.")
    link_mb_per_s: float = assumption(
        425.0, help="Bandwidth of a network link.", metavar="MB/S", option="--link"
    )
    cluster_size_least: int = CLUSTER_SIZES[0]
    cluster_size_most: int = CLUSTER_SIZES[1]
    estimates: str = assumption(
        "exact",
        help="Run times that the baseline knows. exact: the real run times. log: the requested "
        "times of the log.",
        choices=("exact", "log"),
    )

    def __post_init__(self) -> None:
        from wattfold.simulator.workloads.annotations import AnnotationRanges

        if self.nodes < LARGE_BASELINE_NODES:
            raise ValueError(
                f"the overprovisioned machine has at least the {LARGE_BASELINE_NODES} nodes of the "
                f"baseline, got {self.nodes}"
            )
        if not 0 <= self.alpha <= 10:
            raise ValueError(f"alpha is a number from 0 to 10, got {self.alpha}")
        if not (self.memory_mb > 0 and self.link_mb_per_s > 0):
            raise ValueError("memory and link bandwidth are above zero")
        if not 1 <= self.cluster_size_least <= self.cluster_size_most <= CLUSTER_BASELINE_NODES:
            raise ValueError(
                f"sizes on the cluster are 1 to {CLUSTER_BASELINE_NODES}, which the baseline can "
                f"power; got {self.cluster_size_least} to {self.cluster_size_most}"
            )
        if self.estimates not in ("exact", "log"):
            raise ValueError(f"estimates are 'exact' or 'log', got {self.estimates!r}")
        # This also checks the factor.
        AnnotationRanges(parallelism_factor=self.parallelism_factor)

    def document(self) -> dict[str, object]:
        """Return the settings as plain data."""
        return asdict(self)


def stand_ins(settings: ParmAssumptions, log_name: str | None) -> tuple[StandIn, ...]:
    """Return the assumptions for everything that the paper leaves open."""
    from wattfold.simulator.papers.stand_in import StandIn

    return (
        StandIn(
            name="job log",
            value=log_name or "none needed",
            why="the log of Intrepid has no open copy with these job ids; Mira (BG/Q, same site) "
            "stands for it: jobs 0-999, 5000-5999 and 10000-10999 by submission, sizes cut to "
            f"{LARGE_BASELINE_NODES} nodes",
            option="--log",
        ),
        StandIn(
            name="nodes of the large machine",
            value=f"N = {settings.nodes}",
            why="not stated; as many as the budget feeds at 30 W (Table VI)",
            option="--nodes",
        ),
        StandIn(
            name="parallelism A",
            value=f"log-uniform, max N_j / {settings.parallelism_factor:g} to "
            f"max N_j x {settings.parallelism_factor:g}",
            why="no range of the five applications is given",
            option="--parallelism-factor",
        ),
        StandIn(
            name="sigma", value="U[0, 1]", why="not stated; the whole domain of Downey's model"
        ),
        StandIn(
            name="T1",
            value="the logged run time at max N_j and 60 W",
            why="the log knows one size and no cap",
        ),
        StandIn(
            name="memory a node",
            value=f"{settings.memory_mb:g} MB",
            why="m_j is not stated; the memory of a node of a Blue Gene/P",
            option="--memory",
        ),
        StandIn(
            name="link bandwidth",
            value=f"{settings.link_mb_per_s:g} MB/s",
            why="b is not stated; a link of a Blue Gene/P",
            option="--link",
        ),
        StandIn(
            name="alpha",
            value=f"{settings.alpha:g} (all experiments but fairness)",
            why="not stated for Figures 4, 5 and 7; the throughput end of Figure 6",
            option="--alpha",
        ),
        StandIn(
            name="gamma of fairness and naive",
            value=f"{SWEEP_GAMMA:g}, Set1",
            why="Figure 7 states it, Figure 6 and Table VI do not",
        ),
        StandIn(
            name="jobs of the cluster",
            value=f"{CLUSTER_JOBS}, run times exponential with a mean of 1 h, arrivals uniform "
            "over 5 h",
            why="the mix of SetH has ten; only the mean and the span are stated",
        ),
        StandIn(
            name="sizes of the cluster",
            value=f"max N_j U{{{settings.cluster_size_least}..{settings.cluster_size_most}}}, "
            "min N_j = U[0.2, 0.6] of it",
            why="the paper says only that memory decides; the share is that of section VII",
            option="--cluster-sizes",
        ),
        StandIn(
            name="resizes on the cluster",
            value="cost what they do on the large machine",
            why="the cluster's own cost is not stated; its runtime kept processes on all nodes, so "
            "that nothing was booted: 73 s a resize less than here",
        ),
        StandIn(
            name="mix of SetL",
            value="7 Jacobi2D, 3 Wave2D (mean beta 0.104)",
            why="only its mean beta of 0.10 is stated",
        ),
        StandIn(
            name="requested times",
            value="exactly the run time" if settings.estimates == "exact" else "those of the log",
            why="section IV assumes that they are good; the baseline is given the same knowledge",
            option="--estimates",
        ),
        StandIn(
            name="idle nodes",
            value="0 W",
            why="Eq. 5 charges only nodes with a job",
        ),
        StandIn(
            name="measured figures",
            value="not in the text",
            why="Figures 4 to 7 and Tables V and VI are pictures; only what the text says of them "
            "is compared",
        ),
    )
