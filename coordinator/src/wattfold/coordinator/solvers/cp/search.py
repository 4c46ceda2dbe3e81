"""What the child process is asked for: the whole model, or repairs of a few jobs at a time.

Both begin with a plan and give a better one or none; both are bounded by OR-Tools' deterministic
time and by conflicts, and by wall time beside that, which alone may differ from run to run. What a
search finds is shifted to the left at the end: a start that was found late for no reason is early.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from wattfold.coordinator.solvers.cp.grid import (
    Grid,
    Place,
    grid_of,
    places_of,
    plan_of,
    settled,
)
from wattfold.coordinator.solvers.cp.limits import Answer, Limits, Repairs
from wattfold.coordinator.solvers.cp.model import NodeModel
from wattfold.coordinator.solvers.lists.problem import Plan, Problem

LEAST_WALL_S = 0.02
OTHER_NODES = 4
"""Of those that free tasks are not on, in a repair: each is a cumulative for every resource."""


def solve_whole(
    problem: Problem, incumbent: Plan, seed: int, limits: Limits, most: int = 0
) -> Answer:
    """The paper's model of all jobs that have a place, from the incumbent.

    With more than ``most`` of them (0 = any number) it is of those alone that the incumbent starts
    first, as the paper cuts its overhead; the others follow, where the incumbent has them, as soon
    as they fit then. It is the plan of all that must be better.
    """
    begin_s = time.monotonic()
    grid = grid_of(problem, incumbent)
    places = settled(grid, places_of(grid, problem, incumbent))
    if places is None:
        return Answer(plan=None, status="ROUNDED")
    if not places:
        return Answer(plan=None, status="EMPTY", proven=True)
    cut = 0 < most < len(places)
    order = sorted(range(len(places)), key=lambda one: (places[one].start, one))
    free = sorted(order[:most]) if cut else range(len(places))
    model = NodeModel(grid, places, free, alone=True)
    left_s = limits.wall_s - (time.monotonic() - begin_s)
    found = model.solve(replace(limits, wall_s=max(left_s, LEAST_WALL_S)), seed)
    whole: Sequence[Place] | None = found.places
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
    problem: Problem, incumbent: Plan, seed: int, limits: Limits, repairs: Repairs
) -> Answer:
    """Few jobs free, the others where they are, again and again. ``limits`` are of all together."""
    begin_s = time.monotonic()
    grid = grid_of(problem, incumbent)
    found = settled(grid, places_of(grid, problem, incumbent))
    if found is None:
        return Answer(plan=None, status="ROUNDED")
    # A seed of its own for each choice and search; nothing of it keeps a secret.
    chance = random.Random(seed)  # noqa: S311
    places: Sequence[Place] = found
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
    grid: Grid, places: Sequence[Place], most: int, chance: random.Random
) -> list[int]:
    """Tasks to be moved together: one that waits, and those that start around its time.

    What lists do badly is drawn more often: units together, closed nodes, options.
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
    # Farther ones now and then: the nearest alone would be the same again and again.
    others.sort(key=lambda one: (abs(places[one].start - at) * (0.5 + chance.random()), one))
    return sorted([pivot, *others[: most - 1]])


def surroundings(
    grid: Grid, places: Sequence[Place], free: Sequence[int], chance: random.Random
) -> set[int]:
    """The nodes on which tasks are that are to be moved, and some others that they could be on."""
    theirs = {node for number in free for node in places[number].nodes}
    able = {slot.node for number in free for slot in grid.tasks[number].slots} - theirs
    return theirs | set(chance.sample(sorted(able), min(len(able), OTHER_NODES)))


def _hard(grid: Grid, number: int) -> bool:
    task = grid.tasks[number]
    units = sum(slot.units for slot in task.slots[:1])
    return len(task.durations) > 1 or bool(task.closed) or units > 1


def _better(
    grid: Grid,
    problem: Problem,
    incumbent: Plan,
    places: Sequence[Place] | None,
    maker: str,
    before: Collection[int] = (),
) -> Plan | None:
    if places is None:
        return None
    shifted = settled(grid, places, sooner=True, before=before) or places
    plan = plan_of(grid, problem, incumbent, shifted, maker)
    return plan if plan.objective < incumbent.objective else None
