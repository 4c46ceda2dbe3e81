"""Calls of the child process: the whole model, or repairs of a few jobs at a time.

Both start from a plan and return a better plan or none. Their limits are OR-Tools' deterministic
time, conflicts and wall time. Wall time alone may vary between runs. The result of a search is
shifted to the left at the end: a start that is late without a reason becomes early.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from wattfold.coordinator.solvers.cp.grid import (
    Grid,
    TaskPlacement,
    grid_of,
    places_of,
    plan_of,
    settled,
)
from wattfold.coordinator.solvers.cp.limits import Answer, Limits, Repairs
from wattfold.coordinator.solvers.cp.model import NodeModel
from wattfold.coordinator.solvers.lists.problem import QueuePlan, QueueProblem

LEAST_WALL_S = 0.02
OTHER_NODES = 4
"""Number of additional nodes in a repair: each adds a cumulative for every resource."""


def solve_whole(
    problem: QueueProblem, incumbent: QueuePlan, seed: int, limits: Limits, most: int = 0
) -> Answer:
    """Solve the paper's model of all jobs that have a place, starting from the incumbent.

    With more than ``most`` jobs (0 = any number) the model contains only the jobs that the
    incumbent starts first, as the paper limits its overhead. The other jobs follow on the nodes of
    the incumbent, as soon as they fit. The whole plan must be better.
    """
    begin_s = time.monotonic()
    grid = grid_of(problem, incumbent)
    places = settled(grid, places_of(grid, problem, incumbent))
    if places is None:
        return Answer(plan=None, status="ROUNDED")
    if not places:
        return Answer(plan=None, status="EMPTY", proven=True)
    cut = 0 < most < len(places)
    order = sorted(range(len(places)), key=lambda task: (places[task].start, task))
    free = sorted(order[:most]) if cut else range(len(places))
    model = NodeModel(grid, places, free, alone=True)
    left_s = limits.wall_s - (time.monotonic() - begin_s)
    found = model.solve(replace(limits, wall_s=max(left_s, LEAST_WALL_S)), seed)
    whole: Sequence[TaskPlacement] | None = found.places
    if cut and whole is not None:
        whole = settled(grid, whole, before=free)
    proven = found.proven and grid.exact and not cut and len(places) == len(problem.jobs)
    return Answer(
        plan=_better(grid, problem, incumbent, whole, "cp", free if cut else ()),
        status=found.status,
        proven=proven,
        solves=1,
        deterministic=found.deterministic,
    )


def repair(
    problem: QueueProblem, incumbent: QueuePlan, seed: int, limits: Limits, repairs: Repairs
) -> Answer:
    """Repair a few free jobs at a time, with the others fixed. ``limits`` apply to all together."""
    begin_s = time.monotonic()
    grid = grid_of(problem, incumbent)
    found = settled(grid, places_of(grid, problem, incumbent))
    if found is None:
        return Answer(plan=None, status="ROUNDED")
    # Each choice and search has its own seed; no secret depends on it.
    chance = random.Random(seed)  # noqa: S311
    places: Sequence[TaskPlacement] = found
    status, solves, deterministic = "EMPTY", 0, 0.0
    for _ in range(repairs.rounds):
        left_s = limits.wall_s - (time.monotonic() - begin_s)
        free = neighbourhood(grid, places, repairs.free, chance)
        if not free or left_s < LEAST_WALL_S:
            break
        share = Limits(
            deterministic=limits.deterministic / repairs.rounds,
            conflicts=max(limits.conflicts // repairs.rounds, 1),
            wall_s=left_s,
            memory_mb=limits.memory_mb,
        )
        nodes = surroundings(grid, places, free, chance)
        solved = NodeModel(grid, places, free, nodes).solve(share, chance.getrandbits(30))
        status, solves = solved.status, solves + 1
        deterministic += solved.deterministic
        if solved.places is not None:
            places = settled(grid, solved.places, sooner=True) or places
    return Answer(
        plan=_better(grid, problem, incumbent, places, "cp-repair"),
        status=status,
        solves=solves,
        deterministic=deterministic,
    )


def neighbourhood(
    grid: Grid, places: Sequence[TaskPlacement], most: int, chance: random.Random
) -> list[int]:
    """Return tasks to move together: a waiting task, and tasks that start around its time.

    Tasks that lists handle badly are drawn more often: units together, closed nodes, options.
    """
    waiting = [number for number, place in enumerate(places) if place.start > 0]
    if not waiting:
        return []
    weights = [3 if _hard(grid, number) else 1 for number in waiting]
    pivot = chance.choices(waiting, weights)[0]
    at = places[pivot].start
    able = {slot.node for slot in grid.tasks[pivot].slots}
    others = [
        number
        for number, place in enumerate(places)
        if number != pivot and not able.isdisjoint(place.nodes)
    ]
    # Include more distant tasks at times: the nearest tasks would always be the same.
    others.sort(key=lambda task: (abs(places[task].start - at) * (0.5 + chance.random()), task))
    return sorted([pivot, *others[: most - 1]])


def surroundings(
    grid: Grid, places: Sequence[TaskPlacement], free: Sequence[int], chance: random.Random
) -> set[int]:
    """Return the nodes of the tasks to move, and some other nodes that they could use."""
    theirs = {node for number in free for node in places[number].nodes}
    able = {slot.node for number in free for slot in grid.tasks[number].slots} - theirs
    return theirs | set(chance.sample(sorted(able), min(len(able), OTHER_NODES)))


def _hard(grid: Grid, number: int) -> bool:
    task = grid.tasks[number]
    units = sum(slot.units for slot in task.slots[:1])
    return len(task.durations) > 1 or bool(task.closed) or units > 1


def _better(
    grid: Grid,
    problem: QueueProblem,
    incumbent: QueuePlan,
    places: Sequence[TaskPlacement] | None,
    maker: str,
    before: Collection[int] = (),
) -> QueuePlan | None:
    if places is None:
        return None
    shifted = settled(grid, places, sooner=True, before=before) or places
    plan = plan_of(grid, problem, incumbent, shifted, maker)
    return plan if plan.objective < incumbent.objective else None
