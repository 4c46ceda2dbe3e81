"""Plans of training jobs: gap to the exact program, beside the paper's search, and CPU per call.

Targets: a mean gap of at most 3 % on small problems, and 100 ms of CPU for a problem of 100 nodes
and 1,000 jobs.
"""

from __future__ import annotations

import statistics
import sys
import time

from wattfold.coordinator.solvers.training import exact
from wattfold.coordinator.solvers.training.choice import PLAIN, compiled_loops
from wattfold.coordinator.solvers.training.instances import Mix, drawn
from wattfold.coordinator.solvers.training.planner import Effort, planned
from wattfold.coordinator.solvers.training.problem import Plan, Problem

GAP, CPU_S = 0.03, 0.1
SEEDS = 20
SMALL = (
    Mix(nodes=4, jobs=10),
    Mix(nodes=4, jobs=10, gpus=(4, 2)),
    Mix(nodes=4, jobs=6, gpus=(4, 2), waited_s=0, running=0.5),
    Mix(nodes=4, jobs=14, gpus=(4, 2), waited_s=0, running=0.5),
)
LARGE = (Mix(nodes=100, jobs=1000), Mix(nodes=100, jobs=1000, gpus=(4, 2)))
PAPER, OURS = Effort(passes=10_000, attempts=0), Effort()
"""Ten times the passes of the paper take about as long as ours."""


def timed(problem: Problem, effort: Effort) -> tuple[Plan, float]:
    """A plan, and its CPU seconds."""
    loops = compiled_loops() or PLAIN
    began_s = time.thread_time()
    plan = planned(problem, effort, lambda: loops)
    return plan, time.thread_time() - began_s


def gaps(mix: Mix) -> tuple[float, float, float, float]:
    """Mean gaps of the paper's search and ours, and their mean CPU seconds."""
    rows = []
    for seed in range(SEEDS):
        problem = drawn(mix, seed)
        best = exact.solved(problem, time_limit_s=60)
        if best is None or not best.proven:
            print(f"  seed {seed}: no proof within 60 s, left out")
            continue
        (paper, paper_s), (ours, ours_s) = timed(problem, PAPER), timed(problem, OURS)
        least = max(abs(best.objective), 1e-9)
        rows.append(
            (
                (paper.objective - best.objective) / least,
                (ours.objective - best.objective) / least,
                paper_s,
                ours_s,
            )
        )
    columns = [statistics.mean(column) for column in zip(*rows, strict=True)]
    return columns[0], columns[1], columns[2], columns[3]


def main() -> int:
    """Prints a table; 1 if a target was missed."""
    met = True
    print("nodes jobs GPUs   gap, paper   gap, ours   CPU, paper   CPU, ours")
    for mix in SMALL:
        paper, ours, paper_s, ours_s = gaps(mix)
        met = met and ours <= GAP
        print(
            f"{mix.nodes:5} {mix.jobs:4} {mix.gpus[0]}+{mix.gpus[1]}  {paper:10.1%} {ours:11.2%} "
            f"{paper_s * 1e3:9.1f} ms {ours_s * 1e3:8.1f} ms"
        )
    for mix in LARGE:
        problem = drawn(mix, 1)
        (paper_plan, paper_s), (our_plan, ours_s) = timed(problem, PAPER), timed(problem, OURS)
        met = met and ours_s <= CPU_S
        print(
            f"{mix.nodes:5} {mix.jobs:4} {mix.gpus[0]}+{mix.gpus[1]}  objective "
            f"{paper_plan.objective:.4g} and {our_plan.objective:.4g} EUR, CPU "
            f"{paper_s * 1e3:.1f} and {ours_s * 1e3:.1f} ms"
        )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
