"""Ruin and recreate (Schrimpf et al., J. Comp. Phys. 159, 2000), in loops as of `loop_state`.

All jobs of some nodes are taken off, and put back together with some of those that are postponed,
one after the other, each where it adds least to the objective. A plan that is not worse is kept, a
little worse one for a while.
"""

from __future__ import annotations

from typing import Any

from wattfold.coordinator.solvers.training.greedy_loops import fed_option
from wattfold.coordinator.solvers.training.loop_state import (
    NEVER_S,
    NONE,
    Layout,
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
"""So many nodes are ruined at most."""
PRICED = 0.7
"""In so many attempts a GPU has a price: what some job that waits would save with it."""
STEEP = 6
"""The price is that to a power of 0..1: small ones are as likely as large ones."""
BLINKS = 0.2
"""So many of a job's options are passed over when it is put back, once it has one."""
HEAT = 0.3
"""At first a plan may be worse by up to that share of what the jobs of a node add to it."""
TOP = 4
"""The first of the postponed are tried more often: an index is drawn to this power."""


def stay(at: Layout, ints: Any, reals: Any) -> float:
    """Jobs that run stay where they are; by how much the objective changes."""
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


def priced(at: Layout, ints: Any, reals: Any, value: float) -> float:
    """The best of the best plan, of that objective, of one in which those that run stay, and of
    some made with prices of GPUs.

    Jobs that it costs most to postpone come first, each where it adds least at that price.
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


def note(at: Layout, ints: Any, job: int, attempt: int) -> None:
    """Remembers where a job was before an attempt."""
    if ints[at.marked + job] == attempt:
        return
    ints[at.marked + job] = attempt
    number = ints[at.changes]
    ints[at.changed + number] = job
    ints[at.was_option + number] = ints[at.option + job]
    ints[at.was_at + number] = ints[at.host + job]
    ints[at.changes] = number + 1


def undo(at: Layout, ints: Any, reals: Any) -> None:
    """All jobs that an attempt has moved are where they were."""
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


def ruin(at: Layout, ints: Any, reals: Any, node: int, attempt: int) -> float:
    """Postpones all jobs of a node that may be; by how much the objective changes."""
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


def insert(at: Layout, ints: Any, reals: Any, job: int, gpu_eur: float, blinks: float) -> float:
    """Puts a job where it adds least, if it has room at all; by how much the objective changes.

    ``gpu_eur``: what each GPU that it takes is worth to others. ``blinks``: see `BLINKS`.
    """
    best, chosen, where = NEVER_S, NONE, NONE
    for option in range(ints[at.first + job], ints[at.end + job]):
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


def drawn_waiting(at: Layout, ints: Any) -> int:
    """One of the postponed jobs, those before in the order the likelier."""
    first = at.jobs
    for _ in range(TOP):
        job = ints[at.waits + int(draw(at, ints) * ints[at.waiting])]
        first = min(first, job)
    return int(first)


def recreated(at: Layout, ints: Any, reals: Any, attempt: int) -> float:
    """Ruins some nodes and puts jobs back; by how much the objective changes."""
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
    # Those that it costs most to postpone come first, more or less; or in any order.
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
        change += insert(at, ints, reals, job, gpu_eur, BLINKS)
    return change


def filled_up(at: Layout, ints: Any, reals: Any) -> float:
    """Nobody is postponed who has room; by how much the objective changes."""
    left, change = free_gpus(at, ints), 0.0
    for job in range(at.jobs):
        if left <= 0:
            break
        if ints[at.option + job] >= 0:
            continue
        more = insert(at, ints, reals, job, 0.0, 0.0)
        if ints[at.option + job] >= 0:
            left -= ints[at.amounts + ints[at.option + job] * at.resources]
            change += more
    return change


def improved(at: Layout, ints: Any, reals: Any, attempts: int, value: float) -> float:
    """The best plan after so many attempts from the best one, of that objective; its objective."""
    value = priced(at, ints, reals, value)
    back_to_best(at, ints, reals)
    best, now, heat = value, value, abs(value)
    for entry in range(ints[at.waiting]):
        heat -= reals[at.postponed + ints[at.waits + entry]]
    heat = HEAT * max(heat, 0.0) / at.nodes
    for job in range(at.jobs):
        ints[at.marked + job] = NONE
    for attempt in range(attempts):
        # It cools to nothing.
        allowed = heat * (1.0 - attempt / attempts) * draw(at, ints) ** 4
        change = recreated(at, ints, reals, attempt)
        if now + change > now + allowed:
            undo(at, ints, reals)
            continue
        now += change
        if now < best * (1.0 - 1e-9) - 1e-12:
            now += filled_up(at, ints, reals)
            if now < best:
                best = now
                keep(at, ints)
    return best
