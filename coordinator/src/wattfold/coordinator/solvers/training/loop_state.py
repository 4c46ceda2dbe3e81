"""State of a plan during its construction, and the operations of all loops on it.

The state is in flat sequences of numbers. Python runs the loops on lists, and numba compiles them
for arrays (`compiled`). Both draw the same random numbers and so make the same plans. Indices of
two dimensions are explicit, because lists have a single dimension.
"""

from __future__ import annotations

from typing import Any, NamedTuple

NONE = -1
NEVER_S = 1e300


class LoopLayout(NamedTuple):
    """Positions of all fields in the two sequences of the loops, one of integers and one of reals.

    There are only two sequences, because passing dozens of arrays between functions took most of
    the time. Jobs are numbered in the order of their pressures.
    """

    jobs: int
    nodes: int
    resources: int
    kinds: int
    gpus: int
    """Number of GPUs of the node with the most free GPUs."""

    # Constants of jobs and options.
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
    """Probability that a job changes places with the next."""
    time: int
    turn: int
    cost: int
    own: int
    all_postponed: int
    """A single number: the cost of postponing all jobs."""

    # Constants of nodes.
    kind_of: int
    kind_from: int
    """K + 1: start of the nodes of each kind."""
    capacity: int
    """N x R."""
    power_left: int

    by_worth: int
    """Jobs: must-run jobs first, then in descending order of the cost of postponing them."""

    # The current plan.
    option: int
    host: int
    free: int
    on: int
    """N x gpus: jobs of a node."""
    crowd: int
    """N: number of jobs."""
    first_s: int
    first_eur: int
    left_uw: int
    listed: int
    """N: 1 for an open node with free GPUs, 2 for a node without jobs, 0 for others."""
    entry: int
    """N: position of each node in the list of its kind, which begins at ``kind_from``."""
    open: int
    shut: int
    opened: int
    """K: number of nodes in each list."""
    shuts: int
    waits: int
    """Postponed jobs."""
    place: int
    """Position of each job among the postponed jobs."""
    waiting: int
    """A single number: how many jobs are postponed."""

    # The search.
    chance: int
    """A single number: the state of the random generator."""
    order: int
    best_option: int
    best_host: int
    changed: int
    """Jobs that an attempt has moved."""
    was_option: int
    was_at: int
    """The places of these jobs before the attempt."""
    changes: int
    """A single number: how many jobs were moved."""
    marked: int
    """J: the attempt in which a job was moved last."""
    batch: int
    """Jobs to be inserted again."""

    # The enumeration.
    named: int
    """N: 1 for a node that an option names."""
    cursor: int
    """J: current option and node of a job, by its position in ``by_worth``."""
    entered: int
    """J: the objective before a job was decided."""
    rest: int
    """J + 1: the minimum that the jobs from there on add to the objective."""


def draw(at: LoopLayout, ints: Any) -> float:
    """Draw the next number of 0..1 (Marsaglia's xorshift of 32 bits)."""
    bits = ints[at.chance]
    bits ^= (bits << 13) & 0xFFFFFFFF
    bits ^= bits >> 17
    bits ^= (bits << 5) & 0xFFFFFFFF
    ints[at.chance] = bits
    return float(bits / 4294967296.0)


def clear(at: LoopLayout, ints: Any, reals: Any) -> None:
    """Postpone all jobs."""
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


def enlist(at: LoopLayout, ints: Any, node: int) -> None:
    """Update the lists of nodes with free GPUs."""
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


def fits(at: LoopLayout, ints: Any, option: int, node: int) -> bool:
    """Whether a node has room for an option, regardless of power."""
    base, asked = node * at.resources, option * at.resources
    for resource in range(at.resources):
        if ints[at.free + base + resource] < ints[at.amounts + asked + resource]:
            return False
    return True


def put(at: LoopLayout, ints: Any, reals: Any, job: int, option: int, node: int) -> None:
    """Start a postponed job."""
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


def take_off(at: LoopLayout, ints: Any, reals: Any, job: int) -> None:
    """Postpone a running job."""
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


def added(at: LoopLayout, reals: Any, job: int, option: int, node: int) -> float:
    """Return the change of the objective if a postponed job runs with this option and node."""
    ends, cost = reals[at.turn + option], reals[at.cost + option]
    first = reals[at.first_s + node]
    more = reals[at.own + option] - reals[at.postponed + job]
    if ends < first or (ends == first and cost < reals[at.first_eur + node]):
        more += cost - reals[at.first_eur + node]
    return float(more)


def best_filled(at: LoopLayout, ints: Any, option: int) -> int:
    """Return the node that an option fills best, open nodes first; NONE if it has no room."""
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


def first_shut(at: LoopLayout, ints: Any, option: int) -> int:
    """Return a node without jobs that has room for an option; NONE if there is none."""
    base = ints[at.kind_from + ints[at.kind + option]]
    for entry in range(base, base + ints[at.shuts + ints[at.kind + option]]):
        if fits(at, ints, option, ints[at.shut + entry]):
            return int(ints[at.shut + entry])
    return NONE


def free_gpus(at: LoopLayout, ints: Any) -> int:
    """Return the total number of free GPUs."""
    total = 0
    for node in range(at.nodes):
        total += ints[at.free + node * at.resources]
    return int(total)


def keep(at: LoopLayout, ints: Any) -> None:
    """Store the plan as the best plan."""
    for job in range(at.jobs):
        ints[at.best_option + job] = ints[at.option + job]
        ints[at.best_host + job] = ints[at.host + job]


def back_to_best(at: LoopLayout, ints: Any, reals: Any) -> None:
    """Restore the best plan."""
    clear(at, ints, reals)
    for job in range(at.jobs):
        option = ints[at.best_option + job]
        if option >= 0:
            put(at, ints, reals, job, option, ints[at.best_host + job])
