"""Ruin and recreate (Schrimpf et al., J. Comp. Phys. 159, 2000), in loops as of `loop_state`.

All jobs of some nodes are removed and inserted again, together with some postponed jobs. They are
inserted one after the other, each with the smallest increase of the objective. A plan that is not
worse is accepted; a slightly worse plan is accepted for a while.
"""

from __future__ import annotations

from typing import Any

from wattfold.coordinator.solvers.training.enumeration_loops import enumerated
from wattfold.coordinator.solvers.training.greedy_loops import fed_option
from wattfold.coordinator.solvers.training.loop_state import (
    NEVER_S,
    NONE,
    LoopLayout,
    added,
    back_to_best,
    clear,
    draw,
    first_shut,
    fits,
    free_gpus,
    keep,
    put,
    take_off,
)

PRICES = 7
RUINED = 3
"""Maximum number of nodes to ruin."""
PRICED = 0.7
"""Share of attempts in which a GPU has a price: the saving of some waiting job with it."""
STEEP = 6
"""Exponent of the random factor of the price: small prices are as likely as large prices."""
BLINKS = 0.2
"""Share of a job's options that are skipped at its insertion, once it has an option."""
HEAT = 0.3
"""Initially a plan may be worse by this share of the mean contribution of a node."""
ENUMERATED = 20
"""Steps of the enumeration after the attempts, per attempt."""
DARED = 0.1
"""Share of inserted jobs that get a random option, if that has room."""
FILLED = 16
"""Number of postponed jobs to try after an attempt. Before a plan is stored, all are tried."""
TOP = 4
"""Number of draws of an index, of which the minimum counts: earlier postponed jobs are likelier."""


def stay(at: LoopLayout, ints: Any, reals: Any) -> float:
    """Keep running jobs on their nodes. Return the change of the objective."""
    change = 0.0
    for position in range(at.jobs):
        job = ints[at.by_worth + position]
        for option in range(ints[at.first + job], ints[at.end + job]):
            node = ints[at.node + option]
            if node < 0 or ints[at.option + job] >= 0:
                continue
            fed = ints[at.charge + option] <= ints[at.left_uw] or ints[at.must + job] > 0
            if fed and fits(at, ints, option, node):
                change += added(at, reals, job, option, node)
                put(at, ints, reals, job, option, node)
    return change


def priced(at: LoopLayout, ints: Any, reals: Any, value: float) -> float:
    """Improve the best plan by a plan in which running jobs stay and by plans with GPU prices.

    Jobs are inserted in descending order of the cost of postponing them, each at the lowest cost
    with that price.
    """
    best, mean = value, reals[at.all_postponed] / max(at.jobs, 1)
    for level in range(PRICES):
        clear(at, ints, reals)
        total, left = reals[at.all_postponed], free_gpus(at, ints)
        gpu_eur = mean * 0.25**level if level + 1 < PRICES else 0.0
        if level == 0:
            gpu_eur = 0.0
            stayed = stay(at, ints, reals)
            total += stayed
            left = free_gpus(at, ints)
        for position in range(at.jobs):
            job = ints[at.by_worth + position]
            if ints[at.option + job] >= 0:
                continue
            if left <= 0 and not ints[at.must + job]:
                break
            if ints[at.must + job]:
                option = fed_option(at, ints, job)
                total += added(at, reals, job, option, ints[at.node + option])
                put(at, ints, reals, job, option, ints[at.node + option])
            else:
                total += insert(at, ints, reals, job, gpu_eur, 0.0)
            if ints[at.option + job] >= 0:
                left -= ints[at.amounts + ints[at.option + job] * at.resources]
        if total < best:
            best = total
            keep(at, ints)
    return best


def note(at: LoopLayout, ints: Any, job: int, attempt: int) -> None:
    """Record the place of a job before an attempt."""
    if ints[at.marked + job] == attempt:
        return
    ints[at.marked + job] = attempt
    number = ints[at.changes]
    ints[at.changed + number] = job
    ints[at.was_option + number] = ints[at.option + job]
    ints[at.was_at + number] = ints[at.host + job]
    ints[at.changes] = number + 1


def undo(at: LoopLayout, ints: Any, reals: Any) -> None:
    """Restore the places of all jobs that an attempt has moved."""
    for number in range(ints[at.changes]):
        job = ints[at.changed + number]
        if ints[at.option + job] >= 0:
            take_off(at, ints, reals, job)
    for number in range(ints[at.changes]):
        if ints[at.was_option + number] >= 0:
            put(
                at,
                ints,
                reals,
                ints[at.changed + number],
                ints[at.was_option + number],
                ints[at.was_at + number],
            )


def ruin(at: LoopLayout, ints: Any, reals: Any, node: int, attempt: int) -> float:
    """Postpone all optional jobs of a node. Return the change of the objective."""
    change = -float(reals[at.first_eur + node])
    entry = 0
    while entry < ints[at.crowd + node]:
        job = ints[at.on + node * at.gpus + entry]
        if ints[at.must + job]:
            entry += 1
            continue
        note(at, ints, job, attempt)
        change += reals[at.postponed + job] - reals[at.own + ints[at.option + job]]
        take_off(at, ints, reals, job)
    return change + float(reals[at.first_eur + node])


def insert(at: LoopLayout, ints: Any, reals: Any, job: int, gpu_eur: float, blinks: float) -> float:
    """Insert a job at the lowest cost, if it has room. Return the change of the objective.

    ``gpu_eur`` is the value of each used GPU to other jobs. ``blinks``: see `BLINKS`.
    """
    first, end = ints[at.first + job], ints[at.end + job]
    return insert_among(at, ints, reals, job, first, end, gpu_eur, blinks)


def insert_among(
    at: LoopLayout,
    ints: Any,
    reals: Any,
    job: int,
    first: int,
    end: int,
    gpu_eur: float,
    blinks: float,
) -> float:
    """Insert a job as `insert` does, with the options from ``first`` up to ``end``."""
    best, chosen, where = NEVER_S, NONE, NONE
    for option in range(first, end):
        if ints[at.charge + option] > ints[at.left_uw]:
            continue
        if blinks > 0 and chosen >= 0 and draw(at, ints) < blinks:
            continue
        worth = gpu_eur * ints[at.amounts + option * at.resources]
        only = ints[at.node + option]
        if only >= 0:
            if fits(at, ints, option, only):
                more = added(at, reals, job, option, only) + worth
                if more < best:
                    best, chosen, where = more, option, only
            continue
        base = ints[at.kind_from + ints[at.kind + option]]
        for entry in range(base, base + ints[at.opened + ints[at.kind + option]]):
            node = ints[at.open + entry]
            if fits(at, ints, option, node):
                more = added(at, reals, job, option, node) + worth
                if more < best:
                    best, chosen, where = more, option, node
        node = first_shut(at, ints, option)
        if node >= 0:
            more = added(at, reals, job, option, node) + worth
            if more < best:
                best, chosen, where = more, option, node
    if chosen < 0:
        return 0.0
    change = added(at, reals, job, chosen, where)
    put(at, ints, reals, job, chosen, where)
    return change


def dared(at: LoopLayout, ints: Any, reals: Any, job: int) -> float:
    """Insert a postponed job with an option drawn at random, if it has room.

    Return the change of the objective. The best option of a job may not be best for the other jobs:
    it may have to use fewer or slower GPUs.
    """
    first, end = ints[at.first + job], ints[at.end + job]
    option = first + int(draw(at, ints) * (end - first))
    return insert_among(at, ints, reals, job, option, min(option + 1, end), 0.0, 0.0)


def drawn_waiting(at: LoopLayout, ints: Any) -> int:
    """Draw a postponed job; jobs earlier in the order are more likely."""
    first = at.jobs
    for _ in range(TOP):
        job = ints[at.waits + int(draw(at, ints) * ints[at.waiting])]
        first = min(first, job)
    return int(first)


def recreated(at: LoopLayout, ints: Any, reals: Any, attempt: int) -> float:
    """Ruin some nodes and insert jobs again. Return the change of the objective."""
    ints[at.changes] = 0
    change = 0.0
    for _ in range(1 + int(draw(at, ints) * RUINED)):
        change += ruin(at, ints, reals, int(draw(at, ints) * at.nodes), attempt)
    size = ints[at.changes]
    for number in range(size):
        ints[at.batch + number] = ints[at.changed + number]
    more = min(size + 1, ints[at.waiting] - size)
    for _ in range(more):
        job = drawn_waiting(at, ints)
        known = False
        for number in range(size):
            known = known or ints[at.batch + number] == job
        if not known:
            ints[at.batch + size] = job
            size += 1
    gpu_eur = 0.0
    if ints[at.waiting] > 0 and draw(at, ints) < PRICED:
        worth = reals[at.postponed + drawn_waiting(at, ints)]
        gpu_eur = worth * draw(at, ints) ** STEEP
    # Jobs come roughly in descending order of the cost of postponing them, or in random order.
    by_worth = draw(at, ints) < 0.5
    for number in range(size):
        best, most = number, -NEVER_S
        for other in range(number, size):
            value = draw(at, ints)
            if by_worth:
                value = reals[at.postponed + ints[at.batch + other]] * (1.0 + value)
            if value > most:
                best, most = other, value
        job = ints[at.batch + best]
        ints[at.batch + best] = ints[at.batch + number]
        ints[at.batch + number] = job
        note(at, ints, job, attempt)
        if draw(at, ints) < DARED:
            change += dared(at, ints, reals, job)
        if ints[at.option + job] < 0:
            change += insert(at, ints, reals, job, gpu_eur, BLINKS)
    return change + filled(at, ints, reals, attempt, FILLED)


def filled(at: LoopLayout, ints: Any, reals: Any, attempt: int, tries: int) -> float:
    """Insert up to ``tries`` postponed jobs that have room; return the change of the objective.

    A plan may not postpone a job that has room. Without this step, the search descends to plans
    that do, and their objective says nothing about the valid plans next to them.
    """
    left, change = free_gpus(at, ints), 0.0
    position = ints[at.waiting] - 1
    while left > 0 and position >= 0 and tries > 0:
        job = ints[at.waits + position]
        note(at, ints, job, attempt)
        more = insert(at, ints, reals, job, 0.0, 0.0)
        if ints[at.option + job] >= 0:
            left -= ints[at.amounts + ints[at.option + job] * at.resources]
            change += more
        position -= 1
        tries -= 1
    return change


def improved(at: LoopLayout, ints: Any, reals: Any, attempts: int, value: float) -> float:
    """Return the best objective after ``attempts`` attempts from the best plan (``value``)."""
    value = priced(at, ints, reals, value)
    back_to_best(at, ints, reals)
    best, now, heat = value, value, abs(value)
    for entry in range(ints[at.waiting]):
        heat -= reals[at.postponed + ints[at.waits + entry]]
    heat = HEAT * max(heat, 0.0) / at.nodes
    for job in range(at.jobs):
        ints[at.marked + job] = NONE
    for attempt in range(attempts):
        # The temperature falls to zero.
        allowed = heat * (1.0 - attempt / attempts) * draw(at, ints) ** 4
        change = recreated(at, ints, reals, attempt)
        if now + change > now + allowed:
            undo(at, ints, reals)
            continue
        now += change
        if now < best * (1.0 - 1e-9) - 1e-12:
            now += filled(at, ints, reals, attempt, at.jobs)
            if now < best:
                best = now
                keep(at, ints)
    return enumerated(at, ints, reals, attempts * ENUMERATED, best)
