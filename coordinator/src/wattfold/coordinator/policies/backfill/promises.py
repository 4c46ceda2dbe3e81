"""Planned starts and how a round keeps them: conservative backfilling with inexact clocks.

`reservations` assumes exact times, as in a simulation. In the service a job starts slightly after
its decision and ends slightly after its expected end, and the planning worker may be lost in any
round. So planned starts come from outside and are restored before anything else is planned. A round
processes the queue four times:

1. Every job gets its planned start again, within `LAG_NS`. No other job is placed yet.
2. A planned start may no longer be available, because running jobs are late or nodes or power are
   lost. Then all these jobs, in queue order, get their planned start or else the earliest possible
   start.
3. In order, each job moves up to the earliest start next to all others, if that is now or more than
   the lag earlier. A planned start does not change for seconds.
4. In order, jobs without a planned start get the earliest start next to all others, until ``most``
   jobs have a planned start. Jobs behind them start now next to all planned starts, or wait.

So a job without a planned start delays no planned start, whatever its priority. Every job gets the
lag in addition to its estimate, so a late start alone does not cause step 2.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from wattfold.coordinator.core.model.jobs.promise import Promise
from wattfold.coordinator.policies.backfill.reservations import ConservativeQueue, FreeUnitProfile

LAG_NS = 30_000_000_000
"""Tolerance: a planned start is kept if the job starts at most this much later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A reservation from a start to an end; ``promised_ns`` is the planned start that users see."""

    start_ns: int
    end_ns: int
    promised_ns: int


N = TypeVar("N", bound=Hashable)
H = TypeVar("H", bound=Hold)


class TimedRequest(NamedTuple, Generic[N]):
    """A waiting job with its need and run time. Identical jobs have equal needs."""

    job: int
    need: N
    takes_ns: int
    promise: Promise | None


class Space(Protocol[N, H]):
    """Free resources over time."""

    def at(self, request: TimedRequest[N], start_ns: int, end_ns: int) -> H | None:
        """Return a place from a start to an end, or None."""

    def earliest(
        self, request: TimedRequest[N], takes_ns: int, from_ns: int, before_ns: int | None
    ) -> H | None:
        """Return the earliest place for ``takes_ns`` within a range of starts (None = no end)."""

    def moments(self, from_ns: int, until_ns: int) -> Iterable[int]:
        """Return the times of changes after one time and up to another, in order."""

    def take(self, hold: H) -> None:
        """Reserve a place."""

    def give_back(self, hold: H) -> None:
        """Undo `take`."""


def expected_end_ns(end_ns: int, now_ns: int, lag_ns: int) -> int:
    """Return the assumed end of a running job with the expected end ``end_ns``.

    An overdue job ends at any moment within the lag. Later its end moves in steps that double, so
    that planned starts change seldom.
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
    """Planning of one round. ``space`` has the running jobs; ``held`` has the results by job."""

    def __init__(self, space: Space[N, H], *, now_ns: int, lag_ns: int, most: int) -> None:
        self._space, self._now_ns = space, now_ns
        self._lag_ns, self._most = lag_ns, most
        self.held: dict[int, H] = {}

    def settle(self, queue: Sequence[TimedRequest[N]]) -> None:
        """Give every job of the queue its start, as far as possible."""
        promised = [one for one in queue if one.promise is not None]
        if not self._as_promised(promised):
            self._in_turn(promised)
        for one in promised:
            self._move_up(one)
        self._promise(one for one in queue if one.promise is None)

    def _as_promised(self, promised: Sequence[TimedRequest[N]]) -> bool:
        """Place all jobs at their planned starts, or none of them and return False."""
        for one in sorted(promised, key=_in_time):
            hold = self._again(one)
            if hold is None:
                for held in self.held.values():
                    self._space.give_back(held)
                self.held.clear()
                return False
            self._hold(one, hold)
        return True

    def _in_turn(self, promised: Sequence[TimedRequest[N]]) -> None:
        for one in promised:
            takes_ns = one.takes_ns + self._lag_ns
            hold = self._again(one) or self._space.earliest(one, takes_ns, self._now_ns, None)
            if hold is not None:
                self._hold(one, hold)

    def _again(self, request: TimedRequest[N]) -> H | None:
        """Return the planned place, from its start or slightly later."""
        assert request.promise is not None
        promised_ns, now_ns = request.promise.start_ns, self._now_ns
        latest_ns = promised_ns + self._lag_ns
        from_ns = max(promised_ns, now_ns)
        end_ns = max(latest_ns, now_ns) + request.takes_ns
        for start_ns in (from_ns, *self._space.moments(from_ns, latest_ns)):
            hold = self._space.at(request, start_ns, end_ns)
            if hold is not None:
                return replace(hold, promised_ns=promised_ns) if start_ns <= latest_ns else hold
        return None

    def _move_up(self, request: TimedRequest[N]) -> None:
        hold = self.held.get(request.job)
        if hold is None or hold.start_ns == self._now_ns:
            return
        self._space.give_back(hold)
        takes_ns = request.takes_ns + self._lag_ns
        found = self._space.earliest(request, takes_ns, self._now_ns, hold.start_ns)
        much = found is not None and found.start_ns <= hold.promised_ns - self._lag_ns
        if found is None or not (found.start_ns == self._now_ns or much):
            found = hold
        self._hold(request, found)

    def _promise(self, others: Iterable[TimedRequest[N]]) -> None:
        # From here on nothing is released, so a job that takes as long or longer starts no earlier.
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

    def _hold(self, request: TimedRequest[N], hold: H) -> None:
        self._space.take(hold)
        self.held[request.job] = hold


def _in_time(request: TimedRequest[Any]) -> tuple[bool, int]:
    """Sort key: jobs with known nodes first, then by start."""
    assert request.promise is not None
    return not request.promise.nodes, request.promise.start_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedHold(Hold):
    """A reservation of a number of units."""

    size: int


class CountedSpace(Space[int, CountedHold]):
    """Identical units over time."""

    def __init__(self, profile: FreeUnitProfile) -> None:
        self._profile = profile

    def at(self, request: TimedRequest[int], start_ns: int, end_ns: int) -> CountedHold | None:
        """Return a reservation of the needed units from a start to an end, or None."""
        if not self._profile.holds(request.need, start_ns, end_ns):
            return None
        return CountedHold(
            start_ns=start_ns, end_ns=end_ns, promised_ns=start_ns, size=request.need
        )

    def earliest(
        self, request: TimedRequest[int], takes_ns: int, from_ns: int, before_ns: int | None
    ) -> CountedHold | None:
        """Return the earliest reservation of the needed units for ``takes_ns``, or None."""
        start_ns = self._profile.earliest(request.need, takes_ns, from_ns, before_ns)
        if start_ns is None:
            return None
        end_ns = start_ns + takes_ns
        return CountedHold(
            start_ns=start_ns, end_ns=end_ns, promised_ns=start_ns, size=request.need
        )

    def moments(self, from_ns: int, until_ns: int) -> Iterable[int]:
        """Return the times at which the number of free units changes."""
        return self._profile.moments(from_ns, until_ns)

    def take(self, hold: CountedHold) -> None:
        """Reserve the units."""
        self._profile.add(hold.start_ns, hold.end_ns, -hold.size)

    def give_back(self, hold: CountedHold) -> None:
        """Undo `take`."""
        self._profile.add(hold.start_ns, hold.end_ns, hold.size)


class PromiseQueue(ConservativeQueue):
    """A `ConservativeQueue` with the rules of this module; it checks all starts in each round.

    ``leaving``: units of ending jobs, which are free after these have ended.
    """

    __slots__ = ("lag_ns", "leaving", "most")

    def __init__(self, units: int, *, most: int, lag_ns: int, leaving: int = 0) -> None:
        super().__init__(units)
        self.most, self.lag_ns, self.leaving = most, lag_ns, leaving

    def tell(self, number: int, start: int | None) -> None:
        """Set the planned start of a queued job from outside."""
        self.reserved[number] = start

    def decide(self, now: int) -> list[int]:
        """Return the jobs that start now, in order."""
        profile = FreeUnitProfile(self.units, now)
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

    def _request(self, number: int) -> TimedRequest[int]:
        size, estimate = self.queue[number]
        start = self.reserved.get(number)
        promise = Promise(start) if start is not None else None
        return TimedRequest(job=number, need=size, takes_ns=estimate, promise=promise)

    def _renew(self) -> None:
        """Do nothing: planned starts are never dropped, and `decide` checks which can be kept."""
