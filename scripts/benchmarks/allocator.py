#!/usr/bin/env python3
"""How long the Lagrangian allocator takes, its certified gap, and how much longer GLPK takes.

Random planning rounds in several variants of what binds: 200 jobs x 48 options (8 sizes, 6 caps),
where GLPK solves the same round to the same gap in the same run, and 10,000 jobs x 48. Of a problem
the median of several calls counts, of a variant and of all the median over its problems; the
targets are held against the slowest variant. Every plan is checked in integers.

    scripts/benchmarks/allocator.py [--seeds 5] [--repeats 7] [--large 10000] [--json]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from wattfold.coordinator.solvers import glpk, glpk_engine, lagrangian
from wattfold.coordinator.solvers.glpk import GlpkOptions
from wattfold.coordinator.solvers.instances import VARIANTS, Variant, draw
from wattfold.coordinator.solvers.lagrangian import LagrangianOptions
from wattfold.coordinator.solvers.problem import Problem, Solution, check

GAP = 1e-3
SMALL = 200
TARGET_MS = {SMALL: 5.0, 10_000: 100.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One solver on one problem."""

    jobs: int
    variant: str
    seed: int
    solver: str
    options: int
    outcome: str
    median_ms: float
    best_ms: float
    worst_ms: float
    gap: float


def main() -> int:
    arguments = _arguments()
    glpk.warm_up()
    lagrangian.warm_up()
    rows: list[Row] = []
    for variant in VARIANTS:
        for seed in range(arguments.seeds):
            rows += _small(variant, seed, arguments.repeats)
    for variant in VARIANTS:
        for seed in range(arguments.large_seeds if arguments.large else 0):
            rows.append(_large(variant, seed, arguments.large, arguments.repeats))
    if arguments.json:
        print(json.dumps(_report(rows), indent=2))
    else:
        _print(rows)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="problems per variant (default 5)")
    parser.add_argument("--repeats", type=int, default=7, help="calls per problem (default 7)")
    parser.add_argument(
        "--large",
        type=int,
        default=10_000,
        metavar="JOBS",
        help="jobs of the large rounds, 0: none",
    )
    parser.add_argument(
        "--large-seeds", type=int, default=2, metavar="N", help="large problems per variant"
    )
    parser.add_argument("--json", action="store_true", help="all single measurements as JSON")
    return parser.parse_args()


def _small(variant: Variant, seed: int, repeats: int) -> list[Row]:
    problem = draw(replace(variant, jobs=SMALL), np.random.default_rng(seed))
    exact = LagrangianOptions(exact=True)
    solvers: list[tuple[str, int, Callable[[], Solution]]] = [
        ("lagrangian", repeats, lambda: _within_gap(problem)),
        ("glpk", 1, lambda: glpk.solve(problem, GlpkOptions(gap=GAP))),
        ("lagrangian exact", 1, lambda: lagrangian.solve(problem, exact)),
        ("glpk exact", 1, lambda: glpk.solve(problem)),
    ]
    return [_measure(problem, variant, seed, *entry) for entry in solvers]


def _large(variant: Variant, seed: int, jobs: int, repeats: int) -> Row:
    problem = draw(replace(variant, jobs=jobs), np.random.default_rng(seed))
    return _measure(problem, variant, seed, "lagrangian", repeats, lambda: _within_gap(problem))


def _within_gap(problem: Problem) -> Solution:
    return lagrangian.solve(problem, LagrangianOptions(gap=GAP))


def _measure(
    problem: Problem,
    variant: Variant,
    seed: int,
    solver: str,
    repeats: int,
    solve: Callable[[], Solution],
) -> Row:
    taken_ms = []
    gc.collect()
    for _ in range(repeats):
        began_ns = time.perf_counter_ns()
        solution = solve()
        taken_ms.append((time.perf_counter_ns() - began_ns) / 1e6)
    if broken := check(problem, solution):
        raise SystemExit(f"{solver} broke a limit on {variant.name}, seed {seed}: {broken}")
    return Row(
        jobs=problem.job_count,
        variant=variant.name,
        seed=seed,
        solver=solver,
        options=problem.option_count,
        outcome=solution.outcome.value,
        median_ms=statistics.median(taken_ms),
        best_ms=min(taken_ms),
        worst_ms=max(taken_ms),
        gap=solution.gap if np.isfinite(solution.gap) else -1.0,
    )


def _median_ms(rows: Sequence[Row], jobs: int, solver: str, variant: str = "") -> float:
    return statistics.median(
        row.median_ms
        for row in rows
        if row.jobs == jobs and row.solver == solver and variant in ("", row.variant)
    )


def _ratios(rows: Sequence[Row]) -> dict[str, float]:
    """Time of GLPK over time of the allocator, medians, at the same gap."""
    return {
        "gap 0.1%": _median_ms(rows, SMALL, "glpk") / _median_ms(rows, SMALL, "lagrangian"),
        "exact": _median_ms(rows, SMALL, "glpk exact")
        / _median_ms(rows, SMALL, "lagrangian exact"),
    }


def _verdicts(rows: Sequence[Row]) -> list[dict[str, object]]:
    out: list[dict[str, object]] = []
    for jobs in sorted({row.jobs for row in rows}):
        group = [row for row in rows if row.jobs == jobs and row.solver == "lagrangian"]
        slowest_ms = max(_median_ms(rows, jobs, "lagrangian", row.variant) for row in group)
        gap = max(row.gap for row in group)
        target_ms = TARGET_MS.get(jobs)
        within = target_ms is None or slowest_ms <= target_ms
        certified = all(row.outcome == "optimal" and 0 <= row.gap <= GAP for row in group)
        out.append(
            {
                "jobs": jobs,
                "slowest_variant_ms": slowest_ms,
                "target_ms": target_ms,
                "gap_max": gap,
                "met": within and certified,
            }
        )
    return out


def _report(rows: Sequence[Row]) -> dict[str, object]:
    return {
        "versions": _versions(),
        "gap": GAP,
        "verdicts": _verdicts(rows),
        "glpk_over_lagrangian": _ratios(rows),
        "rows": [asdict(row) for row in rows],
    }


def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "glpk": glpk_engine.version(),
        "cpus": str(os.cpu_count()),
    }


def _print(rows: Sequence[Row]) -> None:
    print(", ".join(f"{name} {version}" for name, version in _versions().items()))
    print(
        f"{'variant':<22}{'jobs':>7} {'solver':<18}{'problems':>9}{'proven':>7}"
        f"{'median ms':>11}{'max ms':>10}{'gap max':>10}"
    )
    for jobs in sorted({row.jobs for row in rows}):
        of_size = [row for row in rows if row.jobs == jobs]
        for name in [*dict.fromkeys(row.variant for row in of_size), "all"]:
            chosen = [row for row in of_size if name in (row.variant, "all")]
            for solver in dict.fromkeys(row.solver for row in chosen):
                _print_line(name, jobs, solver, [row for row in chosen if row.solver == solver])
    for kind, ratio in _ratios(rows).items():
        print(f"GLPK takes {ratio:.0f} times as long ({SMALL} jobs, {kind}, median over median)")
    for verdict in _verdicts(rows):
        met = "met" if verdict["met"] else "NOT met"
        target = f"{verdict['target_ms']:g} ms" if verdict["target_ms"] else "none"
        print(
            f"{verdict['jobs']} jobs: target {target} and gap {GAP:.1%}: {met} "
            f"({verdict['slowest_variant_ms']:.1f} ms in the slowest variant, "
            f"gap at most {verdict['gap_max']:.2%})"
        )


def _print_line(name: str, jobs: int, solver: str, group: Sequence[Row]) -> None:
    print(
        f"{name:<22}{jobs:>7} {solver:<18}{len(group):>9}"
        f"{sum(row.outcome == 'optimal' for row in group):>7}"
        f"{statistics.median(row.median_ms for row in group):>11.2f}"
        f"{max(row.worst_ms for row in group):>10.2f}"
        f"{max(row.gap for row in group):>10.1e}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
