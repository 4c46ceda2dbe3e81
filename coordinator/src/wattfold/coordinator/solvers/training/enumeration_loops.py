"""Branch and bound over all valid plans, in loops as of `loop_state`.

It proves the best plan of a small problem, or finds a better plan. Jobs are decided one after the
other, in descending order of the cost of postponing them. A decision is an option and a node, or
none. A branch ends if its cost plus the minimum additional cost of the other jobs is not below the
best plan. Steps are limited: a large problem keeps its plan.
"""

from __future__ import annotations

from typing import Any

from wattfold.coordinator.solvers.training.greedy_loops import fed_option
from wattfold.coordinator.solvers.training.loop_state import (
    LoopLayout,
    added,
    best_filled,
    clear,
    fits,
    keep,
    put,
    take_off,
)

JOBS = 10
"""Problems with more jobs are not tried."""
BETTER = 1e-9
"""A plan is better by more than this share of its objective."""


def least_added(at: LoopLayout, ints: Any, reals: Any, job: int) -> float:
    """Return the minimum that a job adds to the objective, relative to postponing it."""
    least = 0.0
    for option in range(ints[at.first + job], ints[at.end + job]):
        least = min(least, reals[at.own + option] - reals[at.postponed + job])
    return least


def negative_costs(at: LoopLayout, ints: Any, reals: Any) -> bool:
    """Whether the cost of some option is below zero, as at negative prices: no bound holds then."""
    for job in range(at.jobs):
        for option in range(ints[at.first + job], ints[at.end + job]):
            if reals[at.cost + option] < 0:
                return True
    return False


def nodes_eur(at: LoopLayout, ints: Any, reals: Any) -> float:
    """Return the part of the cost of the nodes that later jobs may still lower.

    Where the last job to end counts (turns below zero), no later job lowers the cost of a node.
    """
    total = 0.0
    for node in range(at.nodes):
        if ints[at.crowd + node] > 0 and reals[at.first_s + node] > 0:
            total += reals[at.first_eur + node]
    return total


def somebody_has_room(at: LoopLayout, ints: Any) -> bool:
    """Whether a postponed job has room."""
    for position in range(ints[at.waiting]):
        job = ints[at.waits + position]
        for option in range(ints[at.first + job], ints[at.end + job]):
            if ints[at.charge + option] > ints[at.left_uw]:
                continue
            if best_filled(at, ints, option) >= 0:
                return True
    return False


def like_another(at: LoopLayout, ints: Any, node: int) -> bool:
    """Whether an earlier node without jobs is the same to all jobs: plans on it are the same."""
    if ints[at.crowd + node] > 0 or ints[at.named + node] > 0:
        return False
    for other in range(node):
        if ints[at.crowd + other] > 0 or ints[at.named + other] > 0:
            continue
        same = ints[at.kind_of + other] == ints[at.kind_of + node]
        for resource in range(at.resources):
            mine = ints[at.free + node * at.resources + resource]
            same = same and ints[at.free + other * at.resources + resource] == mine
        if same:
            return True
    return False


def next_place(at: LoopLayout, ints: Any, job: int, depth: int) -> int:
    """Move the cursor of a job to its next option and node with room; return the steps taken.

    The cursor is option * nodes + node; at the end of its options the job is postponed.
    """
    cursor, end = ints[at.cursor + depth], ints[at.end + job] * at.nodes
    steps = 0
    while cursor < end:
        steps += 1
        option, node = cursor // at.nodes, cursor % at.nodes
        only = ints[at.node + option]
        able = only == node or (only < 0 and ints[at.kind + option] == ints[at.kind_of + node])
        able = able and ints[at.charge + option] <= ints[at.left_uw]
        if (
            able
            and fits(at, ints, option, node)
            and (only >= 0 or not like_another(at, ints, node))
        ):
            break
        cursor += 1
    ints[at.cursor + depth] = cursor
    return steps + 1


def settled(at: LoopLayout, ints: Any, reals: Any) -> float:
    """Clear the plan and place the jobs that must run; return the objective."""
    clear(at, ints, reals)
    for node in range(at.nodes):
        ints[at.named + node] = 0
    value = float(reals[at.all_postponed])
    for job in range(at.jobs):
        for option in range(ints[at.first + job], ints[at.end + job]):
            if ints[at.node + option] >= 0:
                ints[at.named + ints[at.node + option]] = 1
        if ints[at.must + job]:
            option = fed_option(at, ints, job)
            value += added(at, reals, job, option, ints[at.node + option])
            put(at, ints, reals, job, option, ints[at.node + option])
    return value


def enumerated(at: LoopLayout, ints: Any, reals: Any, steps: int, value: float) -> float:
    """Return the objective of the best plan, at most ``value``; the plan is stored as the best."""
    if at.jobs > JOBS or negative_costs(at, ints, reals):
        return value
    best, now = value, settled(at, ints, reals)
    depth = 0
    # Jobs that must run are the first in this order.
    while depth < at.jobs and ints[at.must + ints[at.by_worth + depth]]:
        depth += 1
    top, rest = depth, 0.0
    for position in range(at.jobs - 1, top - 1, -1):
        rest += least_added(at, ints, reals, ints[at.by_worth + position])
        reals[at.rest + position] = rest
    reals[at.rest + at.jobs] = 0.0
    down = True
    while depth >= top and steps > 0:
        steps -= 1
        if down:
            whole = depth == at.jobs
            least = now if whole else now - nodes_eur(at, ints, reals) + reals[at.rest + depth]
            better = least < best - BETTER * abs(best)
            if whole and better and not somebody_has_room(at, ints):
                best = now
                keep(at, ints)
            if whole or not better:
                depth, down = depth - 1, False
                continue
        job = ints[at.by_worth + depth]
        end = ints[at.end + job] * at.nodes
        if down:
            ints[at.cursor + depth] = ints[at.first + job] * at.nodes
            reals[at.entered + depth] = now
        else:
            if ints[at.option + job] >= 0:
                take_off(at, ints, reals, job)
                now = reals[at.entered + depth]
            ints[at.cursor + depth] += 1
        if ints[at.cursor + depth] <= end:
            steps -= next_place(at, ints, job, depth)
        if ints[at.cursor + depth] > end:
            depth, down = depth - 1, False
            continue
        cursor = ints[at.cursor + depth]
        if cursor < end:
            option, node = cursor // at.nodes, cursor % at.nodes
            now += added(at, reals, job, option, node)
            put(at, ints, reals, job, option, node)
        depth, down = depth + 1, True
    return best
