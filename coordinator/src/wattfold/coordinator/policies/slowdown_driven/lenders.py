"""Lenders for a queue of many jobs that are considered repeatedly.

Most waiting jobs have no mates at all, regardless of the benefit. Testing this is cheaper than
computing the start of a job without mates. The result holds until a possible mate joins; time and
leaving lenders add no mates. Mates that were found before are usually still valid. So the search is
repeated only if either has changed, with the same result as a full search.

Times are whole numbers of one clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from wattfold.coordinator.models.amdahl import work
from wattfold.coordinator.policies.slowdown_driven.choice import (
    Guest,
    Lender,
    MateChoice,
    MateEnd,
    MateLimits,
    penalty,
    select,
    takes_on,
)

REMEMBERED = 4096
"""Maximum length of the list of joined lenders."""
_UNTRIED = -1, 0.0


@dataclass(slots=True)
class Lenders:
    """The jobs that may lend now.

    ``most_lent``: maximum number of cores of a node that any of them lends. ``mates``: maximum
    number of lenders for a job. ``allowed``: whether jobs may be mates together.
    """

    most_lent: int
    mates: int
    allowed: Callable[[tuple[int, ...]], bool]
    curved: bool = False
    """Whether any lender is known to lose less than in proportion."""
    now: dict[int, Lender] = field(default_factory=dict)
    _joined: list[Lender] = field(default_factory=list)
    """All lenders in order of joining, since `_tried` was cleared."""
    _tried: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Jobs without mates: number of joined lenders and MAX_SLOWDOWN at that time."""
    _found: dict[int, tuple[MateChoice, tuple[Lender, ...]]] = field(default_factory=dict)
    """Mates of jobs, and the run of each job next to them."""
    _sizes: set[int] = field(default_factory=set)
    """Numbers of nodes of lenders; may include lenders that left since the last joined."""

    def join(self, lender: Lender) -> None:
        """Add a running job that may lend from now on."""
        self.curved = self.curved or lender.serial_ppm > 0
        self.now[lender.job] = lender
        if len(self._joined) > REMEMBERED:
            self._joined.clear()
            self._tried.clear()
        self._joined.append(lender)
        self._sizes.clear()

    def leave(self, job: int) -> None:
        """Remove a job that has ended or already lends."""
        self.now.pop(job, None)

    def forget(self, job: int) -> None:
        """Drop cached results for a job that no longer waits."""
        self._tried.pop(job, None)
        self._found.pop(job, None)

    def none_since(self, job: int, most_slowdown: float) -> bool:
        """Return whether a job had no mates and no lender has joined since."""
        tried, most = self._tried.get(job, _UNTRIED)
        return tried == len(self._joined) and most_slowdown <= most

    def any_for(self, job: int, guest: Guest, now: int, limits: MateLimits) -> bool:
        """Return whether a waiting job has mates, regardless of the benefit."""
        if not self._hopeful(job, guest, now, limits):
            return False
        known = self._found.get(job)
        if known is not None and self._stand(*known, guest, now, limits):
            return True
        able, found = self.able(guest, now, limits), None
        if self._may_fill(guest.nodes, able):
            found = select(guest, able, now, limits, allowed=self.allowed)
        if found is None:
            self._found.pop(job, None)
            self._tried[job] = len(self._joined), limits.most_slowdown
            return False
        self._found[job] = found, tuple(self.now[mate] for mate in found.mates)
        return True

    def able(self, guest: Guest, now: int, limits: MateLimits) -> Collection[Lender]:
        """Return the lenders that are not too large for a job and do not end too soon."""
        soonest, nodes = self._soonest(guest, now, limits), guest.nodes
        lenders = self.now.values()
        return [one for one in lenders if one.ends >= soonest and one.nodes <= nodes]

    def least_takes(self, guest: Guest) -> int:
        """Return the minimum run time of a job next to mates."""
        return takes_on(guest, self._most_given(guest))

    def _soonest(self, guest: Guest, now: int, limits: MateLimits) -> int:
        """Return the earliest predicted end of a possible mate."""
        if limits.mate_end is MateEnd.BEFORE:
            return now + self.least_takes(guest)
        if not (guest.serial_ppm or self.curved):
            return now + self.least_takes(guest) - guest.asked
        # Meanwhile its mates progress at least in proportion to their cores, whatever they give.
        given = self._most_given(guest)
        return now + work(self.least_takes(guest), guest.cores, guest.cores - given)

    def _most_given(self, guest: Guest) -> int:
        return max(min(self.most_lent, guest.cores), 1)

    def _hopeful(self, job: int, guest: Guest, now: int, limits: MateLimits) -> bool:
        """Return whether a job without mates may have mates now."""
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
                soonest = self._soonest(guest, now, limits)
            if one.ends >= soonest and penalty(one, guest) < most:
                return True
        self._tried[job] = len(joined), most
        return False

    def _completes(self, missing: int) -> bool:
        """Return whether other lenders may hold the missing number of nodes."""
        if not missing or self.mates > 2:
            return True
        if not self._sizes:
            self._sizes.update(one.nodes for one in self.now.values())
        return self.mates == 2 and missing in self._sizes

    def _may_fill(self, nodes: int, able: Collection[Lender]) -> bool:
        """Return whether some of these may hold exactly ``nodes`` nodes."""
        if self.mates > 2:
            return bool(able)
        sizes = {one.nodes for one in able}
        return nodes in sizes or (self.mates == 2 and any(nodes - one in sizes for one in sizes))

    def _stand(
        self,
        found: MateChoice,
        mates: tuple[Lender, ...],
        guest: Guest,
        now: int,
        limits: MateLimits,
    ) -> bool:
        """Return whether mates that were found before are still valid."""
        ends = now + found.takes
        return all(
            self.now.get(mate.job) is mate
            and limits.latest_end(mate, guest, found.cores) >= ends
            and penalty(mate, guest) < limits.most_slowdown
            for mate in mates
        )
