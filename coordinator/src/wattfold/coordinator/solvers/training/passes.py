"""Randomised greedy and ruin and recreate, spelt out in loops over flat arrays.

Python runs it on lists, numba compiles it for arrays; both draw the same numbers and so make the
same plans. Indices of two dimensions are written out, as lists have one.

*Greedy* (Algorithm 1 of ANDREAS): jobs in the order of their pressures, some of them swapped with
the next; each gets its preferred option, or in some passes another of the best, drawn with a
probability inversely proportional to its cost; where there is no room for that, the first of its
options that an open node has room for, then any node. The node that it fills best is taken.

*Ruin and recreate* (Schrimpf et al., J. Comp. Phys. 159, 2000): all jobs of some nodes are taken
off, and put back together with some of those that are postponed, one after the other, each where
it adds least to the objective. A plan that is not worse is kept, a little worse one for a while.
"""

from __future__ import annotations

from typing import Any, NamedTuple

NONE = -1
NEVER_S = 1e300
DRAWN = 3
"""Of so many options that a job prefers one is drawn, where one is."""
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


class Layout(NamedTuple):
    """Where is what in the two sequences of the loops, which hold numbers of either kind.

    One of each, as passing dozens of arrays from function to function took most of the time. Jobs
    are numbered in the order of their pressures.
    """

    jobs: int
    nodes: int
    resources: int
    kinds: int
    gpus: int
    """Of the node with most of them free."""

    # Of jobs and options; not to be changed.
    must: int
    first: int
    end: int
    """The options of a job are those from first up to end."""
    meets: int
    kind: int
    node: int
    amounts: int
    """O x R."""
    charge: int
    postponed: int
    swap: int
    """Probability with which a job changes places with the next."""
    time: int
    turn: int
    cost: int
    own: int
    all_postponed: int
    """One number: what it costs to postpone everybody."""

    # Of nodes; not to be changed.
    kind_of: int
    kind_from: int
    """K + 1: where the nodes of a kind are listed."""
    capacity: int
    """N x R."""
    power_left: int

    by_worth: int
    """The jobs, those first that must run, then those that it costs most to postpone."""

    # A plan in the making.
    option: int
    host: int
    free: int
    on: int
    """N x gpus: jobs of a node."""
    crowd: int
    """N: how many."""
    first_s: int
    first_eur: int
    left_uw: int
    listed: int
    """N: 1 for an open node with GPUs left, 2 for one without jobs, 0 for others,"""
    entry: int
    """and where it is among those of its kind, which are listed from ``kind_from`` on:"""
    open: int
    shut: int
    opened: int
    """K: how many of each."""
    shuts: int
    waits: int
    """Jobs that are postponed,"""
    place: int
    """where each is among them,"""
    waiting: int
    """and how many: one number."""

    # The search.
    chance: int
    """One number: the state of the generator."""
    order: int
    best_option: int
    best_host: int
    changed: int
    """Jobs that an attempt has moved,"""
    was_option: int
    was_at: int
    """where they were before it,"""
    changes: int
    """and how many: one number."""
    marked: int
    """J: the attempt in which a job was moved last."""
    batch: int
    """Jobs to be put back."""


def draw(at: Layout, ints: Any) -> float:
    """The next number of 0..1 (Marsaglia's xorshift of 32 bits)."""
    bits = ints[at.chance]
    bits ^= (bits << 13) & 0xFFFFFFFF
    bits ^= bits >> 17
    bits ^= (bits << 5) & 0xFFFFFFFF
    ints[at.chance] = bits
    return float(bits / 4294967296.0)


def clear(at: Layout, ints: Any, reals: Any) -> None:
    """Nobody runs."""
    for job in range(at.jobs):
        ints[at.option + job] = NONE
        ints[at.host + job] = NONE
        ints[at.waits + job] = job
        ints[at.place + job] = job
    ints[at.waiting] = at.jobs
    for entry in range(at.nodes * at.resources):
        ints[at.free + entry] = ints[at.capacity + entry]
    for node in range(at.nodes):
        ints[at.crowd + node] = 0
        reals[at.first_s + node] = NEVER_S
        reals[at.first_eur + node] = 0.0
    for kind in range(at.kinds):
        ints[at.opened + kind] = 0
        ints[at.shuts + kind] = 0
    for node in range(at.nodes):
        ints[at.listed + node] = 0
        enlist(at, ints, node)
    ints[at.left_uw] = ints[at.power_left]


def enlist(at: Layout, ints: Any, node: int) -> None:
    """Keeps the lists of nodes with GPUs left."""
    wanted = 0
    if ints[at.free + node * at.resources] > 0:
        wanted = 1 if ints[at.crowd + node] > 0 else 2
    before = ints[at.listed + node]
    if wanted == before:
        return
    kind = ints[at.kind_of + node]
    base, entry = ints[at.kind_from + kind], ints[at.entry + node]
    if before == 1:
        last = ints[at.opened + kind] - 1
        other = ints[at.open + base + last]
        ints[at.open + base + entry] = other
        ints[at.entry + other] = entry
        ints[at.opened + kind] = last
    elif before == 2:
        last = ints[at.shuts + kind] - 1
        other = ints[at.shut + base + last]
        ints[at.shut + base + entry] = other
        ints[at.entry + other] = entry
        ints[at.shuts + kind] = last
    if wanted == 1:
        ints[at.entry + node] = ints[at.opened + kind]
        ints[at.open + base + ints[at.opened + kind]] = node
        ints[at.opened + kind] += 1
    elif wanted == 2:
        ints[at.entry + node] = ints[at.shuts + kind]
        ints[at.shut + base + ints[at.shuts + kind]] = node
        ints[at.shuts + kind] += 1
    ints[at.listed + node] = wanted


def fits(at: Layout, ints: Any, option: int, node: int) -> bool:
    """Whether a node has room for an option; power is not looked at."""
    base, asked = node * at.resources, option * at.resources
    for resource in range(at.resources):
        if ints[at.free + base + resource] < ints[at.amounts + asked + resource]:
            return False
    return True


def put(at: Layout, ints: Any, reals: Any, job: int, option: int, node: int) -> None:
    """A job that waited runs."""
    base, asked = node * at.resources, option * at.resources
    for resource in range(at.resources):
        ints[at.free + base + resource] -= ints[at.amounts + asked + resource]
    ints[at.left_uw] -= ints[at.charge + option]
    ints[at.option + job] = option
    ints[at.host + job] = node
    ints[at.on + node * at.gpus + ints[at.crowd + node]] = job
    ints[at.crowd + node] += 1
    enlist(at, ints, node)
    ends, cost = reals[at.turn + option], reals[at.cost + option]
    first = reals[at.first_s + node]
    if ends < first or (ends == first and cost < reals[at.first_eur + node]):
        reals[at.first_s + node] = ends
        reals[at.first_eur + node] = cost
    last = ints[at.waiting] - 1
    other, where = ints[at.waits + last], ints[at.place + job]
    ints[at.waits + where] = other
    ints[at.place + other] = where
    ints[at.waits + last] = job
    ints[at.place + job] = last
    ints[at.waiting] = last


def take_off(at: Layout, ints: Any, reals: Any, job: int) -> None:
    """A job that runs is postponed."""
    option, node = ints[at.option + job], ints[at.host + job]
    base, asked = node * at.resources, option * at.resources
    for resource in range(at.resources):
        ints[at.free + base + resource] += ints[at.amounts + asked + resource]
    ints[at.left_uw] += ints[at.charge + option]
    row = node * at.gpus
    kept = 0
    first, cheapest = NEVER_S, 0.0
    for entry in range(ints[at.crowd + node]):
        other = ints[at.on + row + entry]
        if other == job:
            continue
        ints[at.on + row + kept] = other
        kept += 1
        ends, cost = (
            reals[at.turn + ints[at.option + other]],
            reals[at.cost + ints[at.option + other]],
        )
        if ends < first or (ends == first and cost < cheapest):
            first, cheapest = ends, cost
    ints[at.crowd + node] = kept
    enlist(at, ints, node)
    reals[at.first_s + node] = first
    reals[at.first_eur + node] = cheapest
    ints[at.option + job] = NONE
    ints[at.host + job] = NONE
    last = ints[at.waiting]
    other, where = ints[at.waits + last], ints[at.place + job]
    ints[at.waits + where] = other
    ints[at.place + other] = where
    ints[at.waits + last] = job
    ints[at.place + job] = last
    ints[at.waiting] = last + 1


def added(at: Layout, reals: Any, job: int, option: int, node: int) -> float:
    """By how much the objective changes when a job that waits runs so."""
    ends, cost = reals[at.turn + option], reals[at.cost + option]
    first = reals[at.first_s + node]
    more = reals[at.own + option] - reals[at.postponed + job]
    if ends < first or (ends == first and cost < reals[at.first_eur + node]):
        more += cost - reals[at.first_eur + node]
    return float(more)


def best_filled(at: Layout, ints: Any, option: int) -> int:
    """The node of an option that it fills best, open ones before others; NONE if it has no room."""
    only = ints[at.node + option]
    if only >= 0:
        return int(only) if fits(at, ints, option, only) else NONE
    kind, found, least = ints[at.kind + option], NONE, 0
    base = ints[at.kind_from + kind]
    for entry in range(base, base + ints[at.opened + kind]):
        node = ints[at.open + entry]
        spare = ints[at.free + node * at.resources]
        if (found == NONE or spare < least) and fits(at, ints, option, node):
            found, least = node, spare
    return int(found if found != NONE else first_shut(at, ints, option))


def first_shut(at: Layout, ints: Any, option: int) -> int:
    """A node without jobs that has room for an option; NONE if there is none."""
    base = ints[at.kind_from + ints[at.kind + option]]
    for entry in range(base, base + ints[at.shuts + ints[at.kind + option]]):
        if fits(at, ints, option, ints[at.shut + entry]):
            return int(ints[at.shut + entry])
    return NONE


def place(at: Layout, ints: Any, reals: Any, job: int, preferred: int) -> bool:
    """Puts a job where Algorithm 1 does; whether there is room for it."""
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


def fed_option(at: Layout, ints: Any, job: int) -> int:
    """The first option of a job that must run which the power feeds, else the one of least."""
    least = ints[at.first + job]
    for option in range(ints[at.first + job], ints[at.end + job]):
        if ints[at.charge + option] <= ints[at.left_uw]:
            return int(option)
        if ints[at.charge + option] < ints[at.charge + least]:
            least = option
    return int(least)


def drawn_option(at: Layout, ints: Any, reals: Any, job: int) -> int:
    """One of the options that a job prefers, the cheaper or faster the likelier."""
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


def free_gpus(at: Layout, ints: Any) -> int:
    """GPUs that are free in all."""
    total = 0
    for node in range(at.nodes):
        total += ints[at.free + node * at.resources]
    return int(total)


def greedy(at: Layout, ints: Any, reals: Any, deviating: float) -> float:
    """One pass over the jobs in the order of ``at.order``; the objective."""
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


def swapped(at: Layout, ints: Any, reals: Any, length: int) -> None:
    """The order by pressure, with some of its first jobs swapped with the next one."""
    for job in range(at.jobs):
        ints[at.order + job] = job
    for position in range(min(length, at.jobs) - 1):
        job = ints[at.order + position]
        if draw(at, ints) < reals[at.swap + job]:
            ints[at.order + position] = ints[at.order + position + 1]
            ints[at.order + position + 1] = job


def keep(at: Layout, ints: Any) -> None:
    """Notes the plan as the best one."""
    for job in range(at.jobs):
        ints[at.best_option + job] = ints[at.option + job]
        ints[at.best_host + job] = ints[at.host + job]


def back_to_best(at: Layout, ints: Any, reals: Any) -> None:
    """The plan is the best one again."""
    clear(at, ints, reals)
    for job in range(at.jobs):
        option = ints[at.best_option + job]
        if option >= 0:
            put(at, ints, reals, job, option, ints[at.best_host + job])


def constructed(at: Layout, ints: Any, reals: Any, passes: int, deviating: float) -> float:
    """The best of so many greedy passes, the first without chance; its objective."""
    best = NEVER_S
    length = 2 * free_gpus(at, ints) + 16
    for number in range(passes):
        swapped(at, ints, reals, length if number else 0)
        value = greedy(at, ints, reals, deviating if number else 0.0)
        if value < best:
            best = value
            keep(at, ints)
    return best


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
