"""What the child process is asked to do. OR-Tools is loaded when it is called, not before."""

from __future__ import annotations

from wattfold.coordinator.solvers.cp.limits import Answer, Limits, Repairs
from wattfold.coordinator.solvers.lists.problem import Plan, Problem


def load() -> None:
    """Before the first call."""
    from wattfold.coordinator.solvers.cp import search  # noqa: F401


def whole(problem: Problem, incumbent: Plan, seed: int, limits: Limits, most: int = 0) -> Answer:
    """`search.solve_whole`."""
    from wattfold.coordinator.solvers.cp.search import solve_whole

    return solve_whole(problem, incumbent, seed, limits, most)


def repaired(
    problem: Problem, incumbent: Plan, seed: int, limits: Limits, repairs: Repairs
) -> Answer:
    """`search.repair`."""
    from wattfold.coordinator.solvers.cp.search import repair

    return repair(problem, incumbent, seed, limits, repairs)
