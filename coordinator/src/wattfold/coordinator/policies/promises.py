"""Promised starts, and how a round keeps them: conservative backfilling with clocks that run late.

`reservations` reckons with times that are exact, as in a simulation. Here a job starts a little
after it is decided, ends a little after it was expected to, and the worker that plans may be lost
in any round. What is promised therefore comes from outside, is put in as it was, and only then
anything else is looked at. A round goes through the queue four times:

1. Everybody gets the promised start again, give or take `LAG_NS`. Nobody else is there yet.
2. If somebody's is not to be had any more (what runs is late, or nodes or power are gone), all of
   them in order of the queue get their start, or else the earliest one beside those before them.
3. In order, each moves up to the earliest start there is beside all others, if that is now or by
   more than the lag: a promise does not change for seconds.
4. In order, who has no promise gets the earliest start beside all others, as long as not ``most``
   jobs have one; those behind start now beside all promises, or wait.

So nobody's start becomes later for a job without a promise, whatever its priority. Every job is
given the lag on top of its estimate: what starts late is no reason for step 2.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from wattfold.coordinator.core.promise import Promise
from wattfold.coordinator.policies.reservations import ConservativeQueue, Profile

LAG_NS = 30_000_000_000
"""A promise is kept if the job starts so much later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Something kept from a start up to an end; ``promised_ns`` is the start that is told."""

    start_ns: int
    end_ns: int
    promised_ns: int


N = TypeVar("N", bound=Hashable)
H = TypeVar("H", bound=Hold)


class Request(NamedTuple, Generic[N]):
    """A waiting job: what it needs, and for how long. Like jobs have the same need."""

    job: int
    need: N
    takes_ns: int
    promise: Promise | None


class Space(Protocol[N, H]):
    """What is free over time."""

    def at(self, one: Request[N], start_ns: int, end_ns: int) -> H | None:
        """A place from a start up to an end; None if there is none."""

    def earliest(
        self, one: Request[N], takes_ns: int, from_ns: int, before_ns: int | None
    ) -> H | None:
        """The first place for so long from a time on, and before another one (None = ever)."""

    def moments(self, from_ns: int, until_ns: int) -> Iterable[int]:
        """When something changes after a time, up to another one, in order."""

    def take(self, hold: H) -> None:
        """Keeps a place."""

    def give_back(self, hold: H) -> None:
        """Undoes `take`."""


def expected_end_ns(end_ns: int, now_ns: int, lag_ns: int) -> int:
    """When a running job is taken to end that was expected to at ``end_ns``.

    One that is over ends any moment; then in steps that double, so that promises move seldom.
    """
    if end_ns > now_ns:
        return end_ns
    if now_ns - end_ns <= lag_ns:
        return now_ns + 1
    step_ns = lag_ns or 1
    while end_ns + step_ns <= now_ns:
        step_ns *= 2
    return end_ns + step_ns


class Keeper(Generic[N, H]):
    """One round. ``space`` has what runs; what is held for whom is in ``held`` afterwards."""

    def __init__(self, space: Space[N, H], *, now_ns: int, lag_ns: int, most: int) -> None:
        self._space, self._now_ns = space, now_ns
        self._lag_ns, self._most = lag_ns, most
        self.held: dict[int, H] = {}

    def settle(self, queue: Sequence[Request[N]]) -> None:
        """Gives every job of the queue its start, as far as there is one."""
        promised = [one for one in queue if one.promise is not None]
        if not self._as_promised(promised):
            self._in_turn(promised)
        for one in promised:
            self._move_up(one)
        self._promise(one for one in queue if one.promise is None)

    def _as_promised(self, promised: Sequence[Request[N]]) -> bool:
        """Everybody at the start that was promised; False, and nobody anywhere, if one is not."""
        for one in sorted(promised, key=_in_time):
            hold = self._again(one)
            if hold is None:
                for held in self.held.values():
                    self._space.give_back(held)
                self.held.clear()
                return False
            self._hold(one, hold)
        return True

    def _in_turn(self, promised: Sequence[Request[N]]) -> None:
        for one in promised:
            takes_ns = one.takes_ns + self._lag_ns
            hold = self._again(one) or self._space.earliest(one, takes_ns, self._now_ns, None)
            if hold is not None:
                self._hold(one, hold)

    def _again(self, one: Request[N]) -> H | None:
        """The place promised, from its time on or a little later."""
        assert one.promise is not None
        promised_ns, now_ns = one.promise.start_ns, self._now_ns
        latest_ns = promised_ns + self._lag_ns
        from_ns = max(promised_ns, now_ns)
        end_ns = max(latest_ns, now_ns) + one.takes_ns
        for start_ns in (from_ns, *self._space.moments(from_ns, latest_ns)):
            hold = self._space.at(one, start_ns, end_ns)
            if hold is not None:
                return replace(hold, promised_ns=promised_ns) if start_ns <= latest_ns else hold
        return None

    def _move_up(self, one: Request[N]) -> None:
        hold = self.held.get(one.job)
        if hold is None or hold.start_ns == self._now_ns:
            return
        self._space.give_back(hold)
        takes_ns = one.takes_ns + self._lag_ns
        found = self._space.earliest(one, takes_ns, self._now_ns, hold.start_ns)
        much = found is not None and found.start_ns <= hold.promised_ns - self._lag_ns
        if found is None or not (found.start_ns == self._now_ns or much):
            found = hold
        self._hold(one, found)

    def _promise(self, others: Iterable[Request[N]]) -> None:
        # From here on nothing is given back: what takes as long, or longer, starts no earlier.
        first: dict[N, tuple[int, int | None]] = {}
        nowhere: set[N] = set()
        now_ns = self._now_ns
        for one in others:
            known_ns, from_ns = first.get(one.need, (one.takes_ns, now_ns))
            if known_ns > one.takes_ns:
                from_ns = now_ns
            beyond = len(self.held) >= self._most
            if from_ns is None or (beyond and (from_ns > now_ns or one.need in nowhere)):
                continue
            takes_ns = one.takes_ns + self._lag_ns
            if not beyond:
                hold = self._space.earliest(one, takes_ns, from_ns, None)
            else:
                hold = self._space.at(one, now_ns, now_ns + takes_ns)
                if hold is None and self._space.at(one, now_ns, now_ns + 1) is None:
                    nowhere.add(one.need)
            if hold is not None:
                self._hold(one, hold)
                first[one.need] = one.takes_ns, hold.start_ns
            else:
                first[one.need] = one.takes_ns, now_ns + 1 if beyond else None

    def _hold(self, one: Request[N], hold: H) -> None:
        self._space.take(hold)
        self.held[one.job] = hold


def _in_time(one: Request[Any]) -> tuple[bool, int]:
    """Those whose nodes are known come first; others find theirs in order of their starts."""
    assert one.promise is not None
    return not one.promise.nodes, one.promise.start_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedHold(Hold):
    """So many units that are kept."""

    size: int


class CountedSpace(Space[int, CountedHold]):
    """Like units over time."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def at(self, one: Request[int], start_ns: int, end_ns: int) -> CountedHold | None:
        """So many units from a start up to an end."""
        if not self._profile.holds(one.need, start_ns, end_ns):
            return None
        return CountedHold(start_ns=start_ns, end_ns=end_ns, promised_ns=start_ns, size=one.need)

    def earliest(
        self, one: Request[int], takes_ns: int, from_ns: int, before_ns: int | None
    ) -> CountedHold | None:
        """The first time from which on so many units stay free for so long."""
        start_ns = self._profile.earliest(one.need, takes_ns, from_ns, before_ns)
        if start_ns is None:
            return None
        end_ns = start_ns + takes_ns
        return CountedHold(start_ns=start_ns, end_ns=end_ns, promised_ns=start_ns, size=one.need)

    def moments(self, from_ns: int, until_ns: int) -> Iterable[int]:
        """When units come free or are taken."""
        return self._profile.moments(from_ns, until_ns)

    def take(self, hold: CountedHold) -> None:
        """Keeps them."""
        self._profile.add(hold.start_ns, hold.end_ns, -hold.size)

    def give_back(self, hold: CountedHold) -> None:
        """Undoes `take`."""
        self._profile.add(hold.start_ns, hold.end_ns, hold.size)


class PromiseQueue(ConservativeQueue):
    """`ConservativeQueue` by the rules of this module, which looks at all promises in each round.

    ``leaving``: units of jobs on their way out, which are free when these have gone.
    """

    __slots__ = ("lag_ns", "leaving", "most")

    def __init__(self, units: int, *, most: int, lag_ns: int, leaving: int = 0) -> None:
        super().__init__(units)
        self.most, self.lag_ns, self.leaving = most, lag_ns, leaving

    def tell(self, number: int, start: int | None) -> None:
        """What a job of the queue was promised elsewhere."""
        self.reserved[number] = start

    def decide(self, now: int) -> list[int]:
        """The jobs that start now, in order."""
        profile = Profile(self.units, now)
        profile.add(now, now + 1, -self.leaving)
        for ends, size in self._ends.values():
            profile.add(now, expected_end_ns(ends, now, self.lag_ns), -size)
        keeper = Keeper(CountedSpace(profile), now_ns=now, lag_ns=self.lag_ns, most=self.most)
        keeper.settle([self._request(number) for number in self.queue])
        held = keeper.held
        started = [n for n in self.queue if n in held and held[n].start_ns == now]
        self.reserved = {n: hold.promised_ns for n, hold in held.items()}
        for number in started:
            size, estimate = self.queue.pop(number)
            del self.reserved[number]
            self._ends[number] = (now + estimate, size)
        return started

    def _request(self, number: int) -> Request[int]:
        size, estimate = self.queue[number]
        start = self.reserved.get(number)
        promise = Promise(start) if start is not None else None
        return Request(job=number, need=size, takes_ns=estimate, promise=promise)

    def _renew(self) -> None:
        """Promises are never dropped: `decide` finds out which are to be had."""
