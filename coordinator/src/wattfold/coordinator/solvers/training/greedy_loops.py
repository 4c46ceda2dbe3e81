"""Greedy passes (Algorithm 1 of ANDREAS), in loops as of `loop_state`.

Jobs are placed in the order of their pressures; some are swapped with the next job. Each job gets
its preferred option. In some passes it gets another good option, drawn with a probability inversely
proportional to its cost. If there is no room for it, the job gets its first option with room on an
open node, and otherwise on any node. The job goes to the node that it fills best.
"""

from __future__ import annotations

from typing import Any

from wattfold.coordinator.solvers.training.loop_state import (
    NEVER_S,
    NONE,
    LoopLayout,
    best_filled,
    clear,
    draw,
    free_gpus,
    keep,
    put,
)

DRAWN = 3
"""Number of preferred options of a job from which a random option is drawn."""


def place(at: LoopLayout, ints: Any, reals: Any, job: int, preferred: int) -> bool:
    """Place a job as in Algorithm 1. Return whether there is room for it."""
    if ints[at.charge + preferred] <= ints[at.left_uw]:
        node = best_filled(at, ints, preferred)
        if node >= 0:
            put(at, ints, reals, job, preferred, node)
            return True
    chosen, where = NONE, NONE
    for option in range(ints[at.first + job], ints[at.end + job]):
        if ints[at.charge + option] > ints[at.left_uw]:
            continue
        node = best_filled(at, ints, option)
        if node < 0 or (chosen >= 0 and ints[at.crowd + node] == 0):
            continue
        chosen, where = option, node
        if ints[at.crowd + node] > 0:
            break
    if chosen < 0:
        return False
    put(at, ints, reals, job, chosen, where)
    return True


def fed_option(at: LoopLayout, ints: Any, job: int) -> int:
    """Return the first option of a must-run job within the power, or its option of lowest power."""
    least = ints[at.first + job]
    for option in range(ints[at.first + job], ints[at.end + job]):
        if ints[at.charge + option] <= ints[at.left_uw]:
            return int(option)
        if ints[at.charge + option] < ints[at.charge + least]:
            least = option
    return int(least)


def drawn_option(at: LoopLayout, ints: Any, reals: Any, job: int) -> int:
    """Draw one of the preferred options of a job; cheaper or faster options are more likely."""
    start, most = ints[at.first + job], ints[at.meets + job]
    by_cost = most > 0
    if not by_cost:
        most = ints[at.end + job] - start
    most = min(most, DRAWN)
    total = 0.0
    for option in range(start, start + most):
        total += 1.0 / max(reals[at.cost + option] if by_cost else reals[at.time + option], 1e-9)
    mark = draw(at, ints) * total
    for option in range(start, start + most):
        mark -= 1.0 / max(reals[at.cost + option] if by_cost else reals[at.time + option], 1e-9)
        if mark <= 0:
            return int(option)
    return int(start)


def greedy(at: LoopLayout, ints: Any, reals: Any, deviating: float) -> float:
    """Do a pass over the jobs in the order of ``at.order``; return the objective."""
    clear(at, ints, reals)
    total, left = reals[at.all_postponed], free_gpus(at, ints)
    for position in range(at.jobs):
        job = ints[at.order + position]
        if left <= 0 and not ints[at.must + job]:
            break
        if ints[at.first + job] == ints[at.end + job]:
            continue
        preferred = ints[at.first + job]
        if deviating > 0 and draw(at, ints) < deviating:
            preferred = drawn_option(at, ints, reals, job)
        if ints[at.must + job]:
            option = fed_option(at, ints, job)
            put(at, ints, reals, job, option, ints[at.node + option])
        elif not place(at, ints, reals, job, preferred):
            continue
        option = ints[at.option + job]
        left -= ints[at.amounts + option * at.resources]
        total += reals[at.own + option] - reals[at.postponed + job]
    for node in range(at.nodes):
        total += reals[at.first_eur + node]
    return float(total)


def swapped(at: LoopLayout, ints: Any, reals: Any, length: int) -> None:
    """Set the order by pressure, with some of its first jobs swapped with the next job."""
    for job in range(at.jobs):
        ints[at.order + job] = job
    for position in range(min(length, at.jobs) - 1):
        job = ints[at.order + position]
        if draw(at, ints) < reals[at.swap + job]:
            ints[at.order + position] = ints[at.order + position + 1]
            ints[at.order + position + 1] = job


def constructed(at: LoopLayout, ints: Any, reals: Any, passes: int, deviating: float) -> float:
    """Do ``passes`` greedy passes, the first without chance. Return the best objective."""
    best = NEVER_S
    length = 2 * free_gpus(at, ints) + 16
    for number in range(passes):
        swapped(at, ints, reals, length if number else 0)
        value = greedy(at, ints, reals, deviating if number else 0.0)
        if value < best:
            best = value
            keep(at, ints)
    return best
