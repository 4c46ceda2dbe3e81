"""Which running jobs lend cores to a new one: the mates of slowdown-driven malleable backfill.

M. D'Amico, A. Jokanovic, J. Corbalan, ICPP 2019, Section 3.2. Of the running jobs choose mates with

    least  PI = sum p_i      with every  p_i < P  and  sum w_i = W                       (1)-(3)
    p_i = (wait_i + increase_i + asked_i) / asked_i                                      (4)

w_i are the nodes a mate holds, W those the new job asks for, P is MAX_SLOWDOWN. The heuristic looks
at the first ``nm`` mates by penalty and at all combinations of at most ``m`` of them.

**What sharing costs.** A new job that asks for C cores of a node for a time R and gets g of them on
each of its nodes takes R C / g by the worst-case model (Eq. 6). A mate that gives g of its C cores
meanwhile does R C / g (C - g) / C of its own work; it ends R later than it would, whatever g is.
Where it is known what a job loses on fewer cores (`models.amdahl`), it is later by less, the less
the fewer it gives; its penalty counts the most that it may give, so it is one number as well.

Times are whole numbers of one clock. Ties go to more cores, fewer mates, and the mates of least
penalty, then those named first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from wattfold.coordinator.models.amdahl import delay, takes

INFINITE = float("inf")

Found = tuple[float, tuple[int, ...]]
"""A performance impact, and positions of mates."""


class Lender(NamedTuple):
    """A running job that may lend cores of all the nodes it holds."""

    job: int
    nodes: int
    """w_i."""
    waited: int
    """How long it waited, and how much longer it takes already by having lent before."""
    asked: int
    """The time its user asked for."""
    ends: int
    """When it is predicted to end as things are."""
    lends: int
    """Cores it may lend on each node: what the sharing factor and its least size leave."""
    serial_ppm: int = 0
    """What of its time fewer cores do not stretch, as far as is known."""
    power_uw: int = 0
    """What it adds to each of its nodes, with all of its cores."""
    lent: int = 0
    """Cores of each node that it lends already."""


class Guest(NamedTuple):
    """A new job that may run on fewer cores than it asks for."""

    nodes: int
    """W."""
    asked: int
    """The time its user asked for."""
    cores: int
    """Cores it asks for on each node."""
    least: int
    """Cores it must have on each node: one for each of its ranks at least."""
    serial_ppm: int = 0
    """As of a lender."""
    power_uw: int = 0
    """What it adds to each of its nodes, with all cores it asks for."""


class Pick(NamedTuple):
    """Mates of a new job, and how it runs beside them."""

    mates: tuple[int, ...]
    cores: int
    """On each of the mates' nodes."""
    takes: int
    """How long it runs by the worst-case model."""
    free: int
    """Free nodes that complete the combination."""
    impact: float
    """PI."""


def no_free(takes: int) -> int:  # noqa: ARG001 - whatever it takes
    """No free node may complete a combination."""
    return 0


def always(jobs: tuple[int, ...]) -> bool:  # noqa: ARG001
    """Any combination will do."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Settings of the choice: MAX_SLOWDOWN, m, nm (0 = all)."""

    most_slowdown: float = 10.0
    mates: int = 2
    looked_at: int = 0


def takes_on(guest: Guest, used: int) -> int:
    """Time of a new job that gets so many cores of each node all the time, rounded up."""
    return takes(guest.asked, guest.cores, used, guest.serial_ppm)


def later(lender: Lender, guest: Guest, given: int) -> int:
    """How much later a mate ends that gives so many cores of each node for all of a guest's run."""
    if not lender.serial_ppm and not guest.serial_ppm:
        return guest.asked
    return delay(takes_on(guest, given), guest.cores, given, lender.serial_ppm, lender.lent)


def penalty(lender: Lender, guest: Guest) -> float:
    """p_i of Eq. 4: the mate's predicted slowdown once it has lent for all of the guest's run.

    As if it gave all it may: no combination slows it by more.
    """
    most = min(lender.lends, guest.cores)
    return (lender.waited + later(lender, guest, most) + lender.asked) / (lender.asked or 1)


def select(
    guest: Guest,
    lenders: Iterable[Lender],
    now: int,
    limits: Limits,
    *,
    free: Callable[[int], int] = no_free,
    latest: int | None = None,
    allowed: Callable[[tuple[int, ...]], bool] = always,
) -> Pick | None:
    """The combination of least impact that meets all constraints; None if there is none.

    Args:
        guest: the new job.
        lenders: jobs that may lend, each at most once; must all be on different nodes.
        now: the new job would start now.
        limits: settings.
        free: free nodes that may complete a combination for a job that takes so long.
        latest: the new job must be predicted to end before this (its end by the static schedule);
            None = it need not.
        allowed: whether these jobs may be mates together, for contiguous nodes and the like.
    """
    able = _within(guest, lenders, now, limits)
    best: Pick | None = None
    for cores in sorted({min(one.lends, guest.cores) for one in able}, reverse=True):
        if cores < max(guest.least, 1):
            break
        takes_so = takes_on(guest, cores)
        if latest is not None and now + takes_so >= latest:
            break
        inside = _inside(able, guest, cores, now + takes_so)
        inside = inside[: limits.looked_at] if limits.looked_at else inside
        spare = min(free(takes_so), guest.nodes - 1)
        found = _least(inside, guest, (guest.nodes - spare, guest.nodes), limits, allowed)
        if found is not None and (best is None or found[0] < best.impact):
            impact, positions = found
            missing = guest.nodes - sum(inside[at].nodes for at in positions)
            mates = tuple(inside[at].job for at in positions)
            best = Pick(mates, cores, takes_so, missing, impact)
    return best


def _within(guest: Guest, lenders: Iterable[Lender], now: int, limits: Limits) -> list[Lender]:
    """Those that are not too large, too near their ends or slowed too much, by penalty.

    A guest ends inside its mate if it does so before the mate would, which by then has lent to it
    for all of the guest's run and ends so much later.
    """
    most, nodes, asked = limits.most_slowdown, guest.nodes, guest.asked
    # As `penalty`, of which most are of jobs of which nothing is known.
    plain = not guest.serial_ppm
    rated = [
        (
            (one.waited + asked + one.asked) / (one.asked or 1)
            if plain and not one.serial_ppm
            else penalty(one, guest),
            one.job,
            one,
        )
        for one in lenders
        if one.nodes <= nodes and one.ends >= now and one.lends > 0
    ]
    rated = [entry for entry in rated if entry[0] < most]
    rated.sort()
    return [one for _, _, one in rated]


def _inside(able: Sequence[Lender], guest: Guest, cores: int, ends: int) -> list[Lender]:
    """Those that may give so many cores, and inside whose runs a job ends that ends then."""
    if guest.serial_ppm or any(one.serial_ppm for one in able):
        return [o for o in able if o.lends >= cores and o.ends + later(o, guest, cores) >= ends]
    soonest = ends - guest.asked
    return [one for one in able if one.lends >= cores and one.ends >= soonest]


class _Weighed:
    """Lenders in order of penalty, also by their nodes."""

    def __init__(self, able: Sequence[Lender], guest: Guest) -> None:
        self.nodes = [one.nodes for one in able]
        self.jobs = [one.job for one in able]
        self.penalties = [penalty(one, guest) for one in able]
        self.of: dict[int, list[int]] = {}
        for at, nodes in enumerate(self.nodes):
            self.of.setdefault(nodes, []).append(at)

    def after(self, at: int, least: int, most: int) -> Iterator[list[int]]:
        """Later positions with so many nodes: those of each number of nodes by penalty."""
        few = most - least < len(self.of)
        sizes = range(least, most + 1) if few else (n for n in self.of if least <= n <= most)
        for nodes in sizes:
            places = self.of.get(nodes)
            if places:
                yield places[bisect_right(places, at) :]


def _least(
    able: Sequence[Lender],
    guest: Guest,
    weight: tuple[int, int],
    limits: Limits,
    allowed: Callable[[tuple[int, ...]], bool],
) -> Found | None:
    """The combination of least impact with so many nodes: depth first, cut at the best so far."""
    if not able:
        return None
    weighed = _Weighed(able, guest)
    best: Found | None = None
    for count in range(1, limits.mates + 1):
        best = _of_size(weighed, count, weight, (), 0.0, best, allowed)
    return best


def _of_size(
    weighed: _Weighed,
    left: int,
    weight: tuple[int, int],
    chosen: tuple[int, ...],
    impact: float,
    best: Found | None,
    allowed: Callable[[tuple[int, ...]], bool],
) -> Found | None:
    """Adds ``left`` more mates to those chosen, later ones than the last."""
    penalties, least, most = weighed.penalties, *weight
    last = chosen[-1] if chosen else -1
    if left == 1:
        for places in weighed.after(last, max(least, 1), most):
            for at in places:
                total = impact + penalties[at]
                if best is not None and not _better(total, (*chosen, at), best):
                    break
                if allowed(tuple(weighed.jobs[one] for one in (*chosen, at))):
                    best = total, (*chosen, at)
                    break
        return best
    for at in range(last + 1, len(penalties) - left + 1):
        if best is not None and impact + left * penalties[at] > best[0]:
            break  # The others that may follow are no better.
        rest = (max(least - weighed.nodes[at], 1), most - weighed.nodes[at])
        if rest[1] >= left - 1:
            best = _of_size(
                weighed, left - 1, rest, (*chosen, at), impact + penalties[at], best, allowed
            )
    return best


def _better(impact: float, positions: tuple[int, ...], best: Found) -> bool:
    """Less impact; of equal ones fewer mates, then the first by penalty."""
    return (impact, len(positions), positions) < (best[0], len(best[1]), best[1])


class NodeLender(NamedTuple):
    """A running job that may lend cores of the one node it is on."""

    job: int
    cores: int
    """It asked for."""
    waited: int
    asked: int
    ends: int
    lends: int
    """Cores it may lend beside those it lends already."""
    most: float = INFINITE
    """The predicted slowdown at which it lends nothing, beside that of the limits."""
    serial_ppm: int = 0
    """What of its time on these cores fewer of them do not stretch."""
    power_uw: int = 0
    """What it adds to its node."""
    lent: int = 0
    """Cores that it lends already."""


class NodePick(NamedTuple):
    """Mates on one node, and how a new job runs on their cores and those that are free."""

    impact: float
    cores: int
    """Of the new job."""
    takes: int
    gives: tuple[tuple[int, int], ...]
    """Mates, and the cores each of them gives."""


def select_on_node(
    guest: Guest,
    lenders: Iterable[NodeLender],
    free: int,
    now: int,
    limits: Limits,
    *,
    latest: int | None = None,
) -> NodePick | None:
    """Mates of a job on parts of one node, whose free cores it gets too; None if there are none.

    Here w_i = W = 1 and all mates are on the same node. Where the free cores alone are enough,
    nobody gives any. Of equal impact the one with most cores is chosen. ``latest`` as in `select`.
    """
    rated = sorted(
        (one for one in lenders if one.lends > 0),
        key=lambda one: (one.waited / (one.asked or 1), -one.asked, one.job),
    )
    rated = rated[: limits.looked_at] if limits.looked_at else rated
    best: NodePick | None = None
    for count in range(limits.mates + 1):
        for mates in combinations(rated, count):
            pick = _beside(guest, mates, free, now, limits, latest)
            if pick and (best is None or (pick.impact, -pick.cores) < (best.impact, -best.cores)):
                best = pick
    return best


def _beside(
    guest: Guest,
    mates: tuple[NodeLender, ...],
    free: int,
    now: int,
    limits: Limits,
    latest: int | None,
) -> NodePick | None:
    """How it would run beside these mates; None if a constraint forbids it."""
    most = sum(mate.lends for mate in mates)
    cores = min(guest.cores, free + most)
    taken = cores - free
    if cores < max(guest.least, 1) or (mates and taken < len(mates)):
        return None
    takes_so = takes_on(guest, cores)
    if latest is not None and now + takes_so >= latest:
        return None
    gives: list[tuple[int, int]] = []
    impact = 0.0
    for mate in mates:
        # In proportion to what each may lend, one core at least.
        given = min(max(-(-taken * mate.lends // most), 1), mate.lends)
        taken, most = taken - given, most - mate.lends
        longer = delay(takes_so, mate.cores, given, mate.serial_ppm, mate.lent)
        slowdown = (mate.waited + longer + mate.asked) / (mate.asked or 1)
        highest = min(limits.most_slowdown, mate.most)
        if slowdown >= highest or now + takes_so > mate.ends + longer:
            return None
        impact += slowdown
        gives.append((mate.job, given))
    return NodePick(impact, cores, takes_so, tuple(gives))
