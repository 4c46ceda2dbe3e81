"""Who may lend to whom, for a queue of many jobs that are looked at again and again.

Most jobs that wait have no mates at all, whatever these would bring. That costs less to find out
than when a job would start without any, and it stays so until somebody joins who could be one of
its mates: time and those who leave bring none. Mates once found mostly still stand at the next
look. So the search is made when one of the two has changed, with the answer it would have given.

Times are whole numbers of one clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from wattfold.coordinator.models.amdahl import work
from wattfold.coordinator.policies.slowdown_driven_choice import (
    Guest,
    Lender,
    Limits,
    Pick,
    later,
    penalty,
    select,
    takes_on,
)

REMEMBERED = 4096
"""Bounds the lenders that are kept in the order in which they joined."""
_UNTRIED = -1, 0.0


@dataclass(slots=True)
class Lenders:
    """The jobs that may lend now.

    ``most_lent``: cores of a node that any of them lends at most. ``mates``: how many may lend to
    one job. ``allowed`` tells whether jobs may be mates together.
    """

    most_lent: int
    mates: int
    allowed: Callable[[tuple[int, ...]], bool]
    curved: bool = False
    """Whether it is known of any that it loses less than in proportion."""
    now: dict[int, Lender] = field(default_factory=dict)
    _joined: list[Lender] = field(default_factory=list)
    """Every lender there has been, in order, since `_tried` was cleared."""
    _tried: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Jobs without mates: how many lenders had joined then, and MAX_SLOWDOWN then."""
    _found: dict[int, tuple[Pick, tuple[Lender, ...]]] = field(default_factory=dict)
    """Mates of jobs that have some, and how the job would run beside them."""
    _sizes: set[int] = field(default_factory=set)
    """How many nodes lenders hold, or some held who have left since the last joined."""

    def join(self, lender: Lender) -> None:
        """A running job may lend from now on."""
        self.curved = self.curved or lender.serial_ppm > 0
        self.now[lender.job] = lender
        if len(self._joined) > REMEMBERED:
            self._joined.clear()
            self._tried.clear()
        self._joined.append(lender)
        self._sizes.clear()

    def leave(self, job: int) -> None:
        """A job has ended or lends already."""
        self.now.pop(job, None)

    def forget(self, job: int) -> None:
        """A job waits no more."""
        self._tried.pop(job, None)
        self._found.pop(job, None)

    def none_since(self, job: int, most_slowdown: float) -> bool:
        """Whether a job had no mates and nobody has joined since."""
        tried, most = self._tried.get(job, _UNTRIED)
        return tried == len(self._joined) and most_slowdown <= most

    def any_for(self, job: int, guest: Guest, now: int, limits: Limits) -> bool:
        """Whether a job that waits has mates, whatever they bring it and those before it."""
        if not self._hopeful(job, guest, now, limits):
            return False
        known = self._found.get(job)
        if known is not None and self._stand(*known, guest, now, limits):
            return True
        able, found = self.able(guest, now), None
        if self._may_fill(guest.nodes, able):
            found = select(guest, able, now, limits, allowed=self.allowed)
        if found is None:
            self._found.pop(job, None)
            self._tried[job] = len(self._joined), limits.most_slowdown
            return False
        self._found[job] = found, tuple(self.now[mate] for mate in found.mates)
        return True

    def able(self, guest: Guest, now: int) -> Collection[Lender]:
        """Those that are not too large for a job, nor too near their ends."""
        soonest, nodes = self._soonest(guest, now), guest.nodes
        lenders = self.now.values()
        return [one for one in lenders if one.ends >= soonest and one.nodes <= nodes]

    def least_takes(self, guest: Guest) -> int:
        """The least time a job can take beside mates."""
        return takes_on(guest, self._most_given(guest))

    def _soonest(self, guest: Guest, now: int) -> int:
        """A job can end inside nobody who is predicted to end before this as things are."""
        if not (guest.serial_ppm or self.curved):
            return now + self.least_takes(guest) - guest.asked
        # Its mates go on at least as fast as they have cores meanwhile, whatever they give.
        given = self._most_given(guest)
        return now + work(self.least_takes(guest), guest.cores, guest.cores - given)

    def _most_given(self, guest: Guest) -> int:
        return max(min(self.most_lent, guest.cores), 1)

    def _hopeful(self, job: int, guest: Guest, now: int, limits: Limits) -> bool:
        """Whether a job that had no mates may have some now."""
        tried, most = self._tried.get(job, _UNTRIED)
        if tried < 0 or limits.most_slowdown > most:
            return True
        joined, nodes, soonest = self._joined, guest.nodes, -1
        for at in range(tried, len(joined)):
            one = joined[at]
            missing = nodes - one.nodes
            if missing < 0 or self.now.get(one.job) is not one or not self._completes(missing):
                continue
            if soonest < 0:
                soonest = self._soonest(guest, now)
            if one.ends >= soonest and penalty(one, guest) < most:
                return True
        self._tried[job] = len(joined), most
        return False

    def _completes(self, missing: int) -> bool:
        """Whether other lenders may hold so many nodes."""
        if not missing or self.mates > 2:
            return True
        if not self._sizes:
            self._sizes.update(one.nodes for one in self.now.values())
        return self.mates == 2 and missing in self._sizes

    def _may_fill(self, nodes: int, able: Collection[Lender]) -> bool:
        """Whether some of these may hold just so many nodes."""
        if self.mates > 2:
            return bool(able)
        sizes = {one.nodes for one in able}
        return nodes in sizes or (self.mates == 2 and any(nodes - one in sizes for one in sizes))

    def _stand(
        self, found: Pick, mates: tuple[Lender, ...], guest: Guest, now: int, limits: Limits
    ) -> bool:
        """Whether mates found before would still do."""
        ends = now + found.takes
        return all(
            self.now.get(mate.job) is mate
            and mate.ends + later(mate, guest, found.cores) >= ends
            and penalty(mate, guest) < limits.most_slowdown
            for mate in mates
        )
