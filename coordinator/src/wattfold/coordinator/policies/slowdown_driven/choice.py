"""Choice of running jobs that lend cores to a new job: mates of slowdown-driven backfill.

M. D'Amico, A. Jokanovic, J. Corbalan, ICPP 2019, Section 3.2. Mates are running jobs with

    minimum  PI = sum p_i      with every  p_i < P  and  sum w_i = W                     (1)-(3)
    p_i = (wait_i + increase_i + asked_i) / asked_i                                      (4)

w_i is the number of nodes of a mate, W the number that the new job requests, P is MAX_SLOWDOWN. The
heuristic considers the first ``nm`` mates by penalty and all combinations of at most ``m`` of them.

**Cost of sharing.** A new job requests C cores per node for a time R. With g cores on each of its
nodes it takes R C / g by the worst-case model (Eq. 6). Meanwhile a mate that gives g of its C cores
does R C / g (C - g) / C of its own work, so it ends R later, whatever g is. If the slowdown of a
job on fewer cores is known (`models.amdahl`), the delay is smaller, and the smaller g, the smaller
the delay. Its penalty uses the maximum g, so the penalty is a single number in this case, too.

Times are whole numbers of one clock. Ties go to more cores, then fewer mates, then the mates with
the lowest penalty, then the mates named first.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from wattfold.coordinator.models.amdahl import delay, takes

INFINITE = float("inf")

Found = tuple[float, tuple[int, ...]]
"""A performance impact, and the positions of mates."""


class MateEnd(enum.StrEnum):
    """Predicted end of a mate by which its guest must have ended (Section 3.2.4).

    The paper requires that new jobs finish inside the allocation of their mates. It does not say
    whether this allocation includes the time that a mate loses to this guest.
    """

    BEFORE = "before"
    """The end without lending to this guest."""
    AFTER = "after"
    """The end after the delay by this guest."""


class Lender(NamedTuple):
    """A running job that may lend cores of all its nodes."""

    job: int
    nodes: int
    """w_i."""
    waited: int
    """Its wait, plus its delay by earlier lending."""
    asked: int
    """Run time requested by its user."""
    ends: int
    """Its predicted end without further changes."""
    lends: int
    """Cores that it may lend on each node, by the sharing factor and its minimum size."""
    serial_ppm: int = 0
    """Share of its time that fewer cores do not stretch; 0 = unknown."""
    power_uw: int = 0
    """Additional power of each of its nodes, with all its cores."""
    lent: int = 0
    """Cores of each node that it already lends."""


class Guest(NamedTuple):
    """A new job that may run on fewer cores than requested."""

    nodes: int
    """W."""
    asked: int
    """Run time requested by its user."""
    cores: int
    """Requested cores on each node."""
    least: int
    """Minimum cores on each node, at least one for each of its ranks."""
    serial_ppm: int = 0
    """As for a lender."""
    power_uw: int = 0
    """Additional power of each of its nodes, with all requested cores."""


class MateChoice(NamedTuple):
    """Mates of a new job, and its resources next to them."""

    mates: tuple[int, ...]
    cores: int
    """Cores on each of the mates' nodes."""
    takes: int
    """Its run time by the worst-case model."""
    free: int
    """Number of free nodes that complete the combination."""
    impact: float
    """PI."""


def no_free(takes: int) -> int:  # noqa: ARG001 - whatever it takes
    """Return 0: no free node may complete a combination."""
    return 0


def always(jobs: tuple[int, ...]) -> bool:  # noqa: ARG001
    """Return True: any combination is allowed."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class MateLimits:
    """Settings of the choice: MAX_SLOWDOWN, m, nm (0 = all), and the latest end of a guest."""

    most_slowdown: float = 10.0
    mates: int = 2
    looked_at: int = 0
    mate_end: MateEnd = MateEnd.BEFORE

    def latest_end(self, lender: Lender, guest: Guest, given: int) -> int:
        """Return the latest predicted end of a guest to which a mate gives cores of each node."""
        delayed = self.mate_end is MateEnd.AFTER
        return lender.ends + (later(lender, guest, given) if delayed else 0)


def takes_on(guest: Guest, used: int) -> int:
    """Return the time of a new job with ``used`` cores of each node, rounded up."""
    return takes(guest.asked, guest.cores, used, guest.serial_ppm)


def later(lender: Lender, guest: Guest, given: int) -> int:
    """Return the delay of a mate that gives cores of each node for the whole run of a guest."""
    if not lender.serial_ppm and not guest.serial_ppm:
        return guest.asked
    return delay(takes_on(guest, given), guest.cores, given, lender.serial_ppm, lender.lent)


def penalty(lender: Lender, guest: Guest) -> float:
    """Return p_i of Eq. 4: the mate's predicted slowdown after lending for the guest's whole run.

    It assumes that the mate gives all it may, so no combination slows it down more.
    """
    most = min(lender.lends, guest.cores)
    return (lender.waited + later(lender, guest, most) + lender.asked) / (lender.asked or 1)


def select(
    guest: Guest,
    lenders: Iterable[Lender],
    now: int,
    limits: MateLimits,
    *,
    free: Callable[[int], int] = no_free,
    latest: int | None = None,
    allowed: Callable[[tuple[int, ...]], bool] = always,
) -> MateChoice | None:
    """Return the combination with the lowest impact that meets all constraints, or None.

    Args:
        guest: the new job.
        lenders: jobs that may lend, each at most once; all must be on different nodes.
        now: start time of the new job.
        limits: settings.
        free: number of free nodes that may complete a combination, by the run time of the job.
        latest: upper bound of the predicted end (its end by the static schedule); None = no bound.
        allowed: whether these jobs may be mates together, for contiguous nodes and the like.
    """
    able = _within(guest, lenders, now, limits)
    best: MateChoice | None = None
    for cores in sorted({min(one.lends, guest.cores) for one in able}, reverse=True):
        if cores < max(guest.least, 1):
            break
        takes_so = takes_on(guest, cores)
        if latest is not None and now + takes_so >= latest:
            break
        inside = _inside(able, guest, cores, now + takes_so, limits)
        inside = inside[: limits.looked_at] if limits.looked_at else inside
        spare = min(free(takes_so), guest.nodes - 1)
        found = _best_combination(
            inside, guest, (guest.nodes - spare, guest.nodes), limits, allowed
        )
        if found is not None and (best is None or found[0] < best.impact):
            impact, positions = found
            missing = guest.nodes - sum(inside[at].nodes for at in positions)
            mates = tuple(inside[at].job for at in positions)
            best = MateChoice(mates, cores, takes_so, missing, impact)
    return best


def _within(guest: Guest, lenders: Iterable[Lender], now: int, limits: MateLimits) -> list[Lender]:
    """Return lenders that are not too large, overdue or slowed down too much, by penalty."""
    most, nodes, asked = limits.most_slowdown, guest.nodes, guest.asked
    # Same as `penalty`; for most jobs the serial share is unknown.
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


def _inside(
    able: Sequence[Lender], guest: Guest, cores: int, ends: int, limits: MateLimits
) -> list[Lender]:
    """Return lenders that may give ``cores`` and run at least until ``ends``."""
    soonest = ends
    if limits.mate_end is MateEnd.AFTER:
        if guest.serial_ppm or any(one.serial_ppm for one in able):
            return [
                one
                for one in able
                if one.lends >= cores and limits.latest_end(one, guest, cores) >= ends
            ]
        soonest -= guest.asked
    return [one for one in able if one.lends >= cores and one.ends >= soonest]


class _Weighed:
    """Lenders by penalty, and by number of nodes."""

    def __init__(self, able: Sequence[Lender], guest: Guest) -> None:
        self.nodes = [one.nodes for one in able]
        self.jobs = [one.job for one in able]
        self.penalties = [penalty(one, guest) for one in able]
        self.of: dict[int, list[int]] = {}
        for at, nodes in enumerate(self.nodes):
            self.of.setdefault(nodes, []).append(at)

    def after(self, at: int, min_nodes: int, most: int) -> Iterator[list[int]]:
        """Yield later positions of lenders within a range of node numbers, each list by penalty."""
        few = most - min_nodes < len(self.of)
        sizes = (
            range(min_nodes, most + 1) if few else (n for n in self.of if min_nodes <= n <= most)
        )
        for nodes in sizes:
            places = self.of.get(nodes)
            if places:
                yield places[bisect_right(places, at) :]


def _best_combination(
    able: Sequence[Lender],
    guest: Guest,
    weight: tuple[int, int],
    limits: MateLimits,
    allowed: Callable[[tuple[int, ...]], bool],
) -> Found | None:
    """Return the combination with the lowest impact: depth-first, pruned by the best so far."""
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
    """Add ``left`` more mates to the chosen mates, with positions after the last."""
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
            break  # Later combinations are no better.
        rest = (max(least - weighed.nodes[at], 1), most - weighed.nodes[at])
        if rest[1] >= left - 1:
            best = _of_size(
                weighed, left - 1, rest, (*chosen, at), impact + penalties[at], best, allowed
            )
    return best


def _better(impact: float, positions: tuple[int, ...], best: Found) -> bool:
    """Return whether the impact is lower; ties go to fewer mates, then lower penalties."""
    return (impact, len(positions), positions) < (best[0], len(best[1]), best[1])


class NodeLender(NamedTuple):
    """A running job on a single node that may lend cores of it."""

    job: int
    cores: int
    """Requested cores."""
    waited: int
    asked: int
    ends: int
    lends: int
    """Cores that it may lend in addition to its current loans."""
    most: float = INFINITE
    """Predicted slowdown at which it no longer lends, in addition to the general limit."""
    serial_ppm: int = 0
    """Share of its time on these cores that fewer cores do not stretch."""
    power_uw: int = 0
    """Additional power of its node."""
    lent: int = 0
    """Cores that it already lends."""


class NodePick(NamedTuple):
    """Mates on one node, and the run of a new job on their cores and the free cores."""

    impact: float
    cores: int
    """Cores of the new job."""
    takes: int
    gives: tuple[tuple[int, int], ...]
    """Mates, and the number of cores that each gives."""


def select_on_node(
    guest: Guest,
    lenders: Iterable[NodeLender],
    free: int,
    now: int,
    limits: MateLimits,
    *,
    latest: int | None = None,
) -> NodePick | None:
    """Return mates of a job on parts of one node, including its free cores; None if impossible.

    Here w_i = W = 1 and all mates are on the same node. If the free cores suffice, no job gives
    any. Among equal impacts, more cores win. ``latest`` as in `select`.
    """
    rated = sorted(
        (one for one in lenders if one.lends > 0),
        key=lambda lender: (lender.waited / (lender.asked or 1), -lender.asked, lender.job),
    )
    rated = rated[: limits.looked_at] if limits.looked_at else rated
    best: NodePick | None = None
    for count in range(limits.mates + 1):
        for mates in combinations(rated, count):
            pick = _pick_of(guest, mates, free, now, limits, latest)
            if pick and (best is None or (pick.impact, -pick.cores) < (best.impact, -best.cores)):
                best = pick
    return best


def _pick_of(
    guest: Guest,
    mates: tuple[NodeLender, ...],
    free: int,
    now: int,
    limits: MateLimits,
    latest: int | None,
) -> NodePick | None:
    """Return the run of a job next to these mates; None if a constraint forbids it."""
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
        # In proportion to the lendable cores of each mate, at least one core.
        given = min(max(-(-taken * mate.lends // most), 1), mate.lends)
        taken, most = taken - given, most - mate.lends
        longer = delay(takes_so, mate.cores, given, mate.serial_ppm, mate.lent)
        slowdown = (mate.waited + longer + mate.asked) / (mate.asked or 1)
        highest = min(limits.most_slowdown, mate.most)
        delayed = limits.mate_end is MateEnd.AFTER
        if slowdown >= highest or now + takes_so > mate.ends + (longer if delayed else 0):
            return None
        impact += slowdown
        gives.append((mate.job, given))
    return NodePick(impact, cores, takes_so, tuple(gives))
