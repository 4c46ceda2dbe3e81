#!/usr/bin/env python3
"""Measure the time of a planning round: Pyomo + GLPK exact and at a gap of 0.1 %, and greedy.

Problems are random rounds of the size named in the paper, 200 jobs x 8 sizes x 6 caps, in several
variants of the binding constraint. Times are wall times of one process after its imports. "build"
is pruning and the Pyomo model with its compilation.

    scripts/benchmarks/ilp.py [--seeds 5] [--jobs 200] [--pure-limit 0] [--json]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pyomo.version

from wattfold.coordinator.solvers.allocator import glpk, glpk_engine, greedy
from wattfold.coordinator.solvers.allocator.glpk import GlpkOptions
from wattfold.coordinator.solvers.allocator.instances import VARIANTS, draw
from wattfold.coordinator.solvers.allocator.problem import AllocationProblem, Solution, check

EXACT_LIMIT_S = 15.0
ROUGH_GAP = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One solver on one problem."""

    variant: str
    seed: int
    solver: str
    options: int
    outcome: str
    build_s: float
    solve_s: float
    gap: float
    loss: float
    """Relative distance from the exact optimum."""


def main() -> int:
    arguments = _arguments()
    glpk.warm_up()
    rows: list[Row] = []
    for variant in VARIANTS:
        for seed in range(arguments.seeds):
            sized = replace(variant, jobs=arguments.jobs)
            problem = draw(sized, np.random.default_rng(seed))
            rows += _measure(variant.name, seed, problem, arguments.pure_limit)
    versions = {
        "python": platform.python_version(),
        "pyomo": pyomo.version.version,
        "glpk": glpk_engine.version(),
    }
    if arguments.json:
        print(json.dumps({"versions": versions, "rows": [asdict(row) for row in rows]}, indent=2))
    else:
        print(", ".join(f"{name} {version}" for name, version in versions.items()))
        _print_table(rows)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="problems per variant (default 5)")
    parser.add_argument("--jobs", type=int, default=200, help="jobs per problem (default 200)")
    parser.add_argument(
        "--pure-limit",
        type=float,
        default=0.0,
        metavar="S",
        help="also GLPK without preparation, for at most S seconds a problem",
    )
    parser.add_argument("--json", action="store_true", help="all single measurements as JSON")
    return parser.parse_args()


def _measure(variant: str, seed: int, problem: AllocationProblem, pure_limit_s: float) -> list[Row]:
    solvers: list[tuple[str, Callable[[], Solution]]] = [
        ("exact", lambda: glpk.solve(problem, GlpkOptions(time_limit_s=EXACT_LIMIT_S))),
        ("gap 0.1%", lambda: glpk.solve(problem, GlpkOptions(gap=ROUGH_GAP))),
        ("greedy", lambda: greedy.solve(problem)),
    ]
    if pure_limit_s > 0:
        pure = GlpkOptions(presolve=False, time_limit_s=pure_limit_s)
        solvers.append(("pure exact", lambda: glpk.solve(problem, pure)))
    rows = []
    best = 0.0
    for name, solve in solvers:
        solution = solve()
        if check(problem, solution):
            raise SystemExit(f"{name} broke a limit on {variant}, seed {seed}")
        best = max(best, solution.objective)
        rows.append(
            Row(
                variant=variant,
                seed=seed,
                solver=name,
                options=problem.option_count,
                outcome=solution.outcome.value,
                build_s=solution.build_ns / 1e9,
                solve_s=solution.solve_ns / 1e9,
                gap=solution.gap if np.isfinite(solution.gap) else -1.0,
                loss=1.0 - solution.objective / best,
            )
        )
    return rows


def _print_table(rows: Sequence[Row]) -> None:
    names = [*dict.fromkeys(row.variant for row in rows), "all"]
    print(
        f"{'variant':<22}{'solver':<12}{'runs':>5}{'proven':>7}{'build s':>9}"
        f"{'total s':>9}{'max s':>8}{'loss max':>11}"
    )
    for name in names:
        chosen = [row for row in rows if name in (row.variant, "all")]
        for solver in dict.fromkeys(row.solver for row in chosen):
            group = [row for row in chosen if row.solver == solver]
            totals = [row.build_s + row.solve_s for row in group]
            print(
                f"{name:<22}{solver:<12}{len(group):>5}"
                f"{sum(row.outcome == 'optimal' for row in group):>7}"
                f"{statistics.median(row.build_s for row in group):>9.3f}"
                f"{statistics.median(totals):>9.3f}{max(totals):>8.3f}"
                f"{max(row.loss for row in group):>11.1e}"
            )


if __name__ == "__main__":
    raise SystemExit(main())
