"""Functions for the child process. They load OR-Tools when called, not at import."""

from __future__ import annotations

from wattfold.coordinator.solvers.cp.limits import Answer, Limits, Repairs
from wattfold.coordinator.solvers.lists.problem import QueuePlan, QueueProblem


def load() -> None:
    """Load OR-Tools before the first call."""
    from wattfold.coordinator.solvers.cp import search  # noqa: F401


def whole(
    problem: QueueProblem, incumbent: QueuePlan, seed: int, limits: Limits, most: int = 0
) -> Answer:
    """Return `search.solve_whole`."""
    from wattfold.coordinator.solvers.cp.search import solve_whole

    return solve_whole(problem, incumbent, seed, limits, most)


def repaired(
    problem: QueueProblem, incumbent: QueuePlan, seed: int, limits: Limits, repairs: Repairs
) -> Answer:
    """Return `search.repair`."""
    from wattfold.coordinator.solvers.cp.search import repair

    return repair(problem, incumbent, seed, limits, repairs)
