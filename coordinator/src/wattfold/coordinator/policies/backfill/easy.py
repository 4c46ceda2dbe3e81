"""FCFS, EASY and conservative backfilling, unaware of power except for the budget.

Every job gets its requested size at the maximum cap, as on a machine without power management.
(Alternatively all jobs get one given cap, PARM's naive overprovisioning.) Jobs that exceed the
budget at that cap wait. ``size`` selects the end of a size range that counts as requested; users of
rigid systems request the largest size that is known to work. A range is cut to the size of the
machine and to its budget.

If all jobs take whole nodes, all nodes are identical and all caps are equal, counting is exact.
Then `counts` or `reservations` decides, notified of each change. Otherwise `easy_search` examines
every node in each round.

Conservative backfilling in this module is for pools, where times are exact: the queue itself stores
the planned starts. The service uses `fifo.conservative`, where planned starts return with the jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from wattfold.coordinator.core.model.jobs.job_units import count_text
from wattfold.coordinator.core.power.charge import held_uw, node_uw
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill.counts import AT_ONCE, EasyQueue, Passes
from wattfold.coordinator.policies.backfill.easy_search import (
    BEHIND,
    FIRST,
    EasySearch,
    EasySettings,
    SearchCache,
    never,
)
from wattfold.coordinator.policies.backfill.expected_starts import STARTS_MAX
from wattfold.coordinator.policies.backfill.reservations import ConservativeQueue
from wattfold.coordinator.policies.port import (
    NOTHING,
    Change,
    Decision,
    Held,
    JobInformation,
    NamedJobs,
    Reason,
    Scheduler,
    Site,
    SizeRequest,
)

METHODS = ("easy", "fcfs", "conservative")
NOWHERE = Site(count=0, spendable_uw=0, kind=None, most_uw=0)
NEVER = (0, 0)

Queue = EasyQueue | ConservativeQueue


class EasyScheduler(Scheduler):
    """Queue order with backfilling.

    ``method`` is ``easy``, ``fcfs`` (no backfilling) or ``conservative``. ``cap_uw`` is the cap of
    all jobs; None = the maximum. ``kills_at_limit``: see `counts`; only for jobs that never exceed
    their estimate. ``passes`` limits EASY on counted pools and requires that all jobs are counted.
    """

    each_event = True
    solver_ns: Sequence[int] = ()
    new_cache: Callable[[], SearchCache] = SearchCache
    """Constructor of the cache that searches of the same site share."""

    def __init__(
        self,
        *,
        method: str = "easy",
        size: str = "max",
        cap_uw: int | None = None,
        kills_at_limit: bool = True,
        passes: Passes = AT_ONCE,
    ) -> None:
        if method not in METHODS:
            raise ValueError(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")
        if passes != AT_ONCE and method != "easy":
            raise ValueError(f"{method} has no backfilling passes to limit")
        self.method = method
        self.size = size
        self.cap_uw = cap_uw
        self.kills_at_limit = kills_at_limit
        self.passes = passes
        self._jobs: JobInformation
        self._site = NOWHERE
        self._asks: dict[int, SizeRequest] = {}
        self._running: set[int] = set()
        self._queue: Queue | None = None
        """None: must be rebuilt, or counting is not exact."""
        self._entered: dict[int, tuple[int, int]] = {}
        """Size and estimate of the waiting jobs in the queue. Jobs of size 0 never start."""
        self._last_ns = 0
        """Latest submission time of the jobs in the queue."""
        self._units = 0
        self._each_uw = 0
        self._cap_uw = 0
        self._level_uw = 0
        self._search: EasySearch | None = None
        self._known = self.new_cache()
        self._told_all = False
        self._first = -1
        self._starts: dict[int, int] = {}
        """Expected starts at the head of the queue, as last reported by `reasons`."""
        self._now_ns = 0

    @property
    def name(self) -> str:
        """``easy``, ``fcfs`` or ``conservative``."""
        return self.method

    @property
    def revisit_ns(self) -> int:
        """Time of the next pass if passes are not immediate; else 0."""
        if not self.passes.every:
            return 0
        return self._queue.due if isinstance(self._queue, EasyQueue) else 0

    def attach(self, jobs: JobInformation) -> None:
        """Receive the jobs. Called once before all other methods."""
        self._jobs = jobs

    def site(self, site: Site) -> None:
        """Set nodes and power from now on."""
        before, self._site = self._site, site
        if site != before or site.nodes != before.nodes:
            self._known = self.new_cache()
        queue, self._queue = self._queue, None
        if queue is None or site.kind is not before.kind:
            return
        before_units, self._units = self._units, self._fed()
        asks = self._asks
        if all(self._asked(job, asks[job])[0] == size for job, (size, _) in self._entered.items()):
            if before_units != self._units:
                queue.resize(self._units - before_units)
            self._queue = queue

    def submit(self, job: int, now_ns: int) -> None:  # noqa: ARG002 - `JobInformation` has its time
        """A job enters the queue, or returns to it."""
        ask = self._asks[job] = self._jobs.ask(job)
        queue = self._queue
        if queue is None:
            return
        if ask.submitted_ns >= self._last_ns and self._counts(ask):
            self._enter(queue, job, ask)
        else:
            self._queue = None

    def end(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """A job has ended, or no longer waits."""
        del self._asks[job]
        if job in self._running:
            self._running.remove(job)
            if self._queue is not None:
                self._queue.end(job)
        elif self._entered.pop(job, NEVER)[0]:
            self._queue = None

    def change(self, job: int, now_ns: int) -> None:
        """A job has changed: its request, its estimate, its state or its nodes."""
        ask = self._asks[job] = self._jobs.ask(job)
        held = self._held(job)
        if held is None and job in self._running:
            self._running.remove(job)
            self._queue = None
        elif held is None:
            known = self._queue is not None and self._counts(ask)
            if not known or self._asked(job, ask) != self._entered[job]:
                self._queue = None
        else:
            self._run(job, held, now_ns)

    def decide(self, now_ns: int) -> Decision:
        """Return the jobs that start, and those that are preempted for the head of a queue."""
        queue = self._queue
        if queue is None:
            queue = self._queue = self._counted(now_ns)
        self._now_ns = now_ns
        if queue is None:
            return self._searched(now_ns)
        started = queue.decide(now_ns)
        if not started:
            return NOTHING
        self._running.update(started)
        entered, asks, cap_uw = self._entered, self._asks, self._cap_uw
        return Decision(
            [Change(job, entered.pop(job)[0], asks[job].cap_uw or cap_uw) for job in started]
        )

    def reasons(self, jobs: Iterable[int]) -> Iterable[Reason]:
        """Return the reasons of these jobs and of all jobs whose reason or start has changed."""
        if self._search is not None:
            return self._search.reasons
        assert isinstance(self._queue, EasyQueue), "only `conservative` promises start times"
        first = self._queue.queue[0][0] if self._queue.queue else -1
        told, starts = self._starts, self._queue.starts(self._now_ns, STARTS_MAX)
        moved = {job for job, _ in told.items() ^ starts.items()}
        shown = (self._first, first, *sorted(moved), *jobs)
        named = dict.fromkeys(shown) if self._told_all else self._entered
        self._told_all, self._first, self._starts = True, first, starts
        return [self._reason(job, first) for job in named if job in self._entered]

    def _reason(self, job: int, first: int) -> Reason:
        if not self._entered[job][0]:
            return Reason(job, never(count_text(self._asks[job].least, SizeUnit.NODES)), never=True)
        return Reason(job, FIRST if job == first else BEHIND, start_ns=self._starts.get(job, 0))

    def _searched(self, now_ns: int) -> Decision:
        """Decide by examining every node."""
        if self._known.full:
            self._known = self.new_cache()
        waits = sorted(self._asks.keys() - self._running)
        self._search = self._round(
            jobs=cast("NamedJobs", self._jobs),
            site=self._site,
            running=sorted(self._running),
            waiting=sorted(waits, key=self._place),
            settings=EasySettings(
                size=self.size, cap_uw=self.cap_uw, backfill=self.method == "easy"
            ),
            now_ns=now_ns,
            known=self._known,
        )
        decision = self._search.decide()
        self._running.update(change.job for change in decision.changes)
        self._told_all = False
        return decision

    def _round(self, **inputs: Any) -> EasySearch:
        """Return the search of one round, for the inputs of `EasySearch`."""
        return EasySearch(**inputs)

    def _held(self, job: int) -> Held | None:
        """Return the resources of a job, as far as this decision needs them."""
        return self._jobs.held(job)

    def _place(self, job: int) -> tuple[float, int, int]:
        """Return the sort key of a job in the queue."""
        ask = self._asks[job]
        return -ask.priority, ask.submitted_ns, job

    # Counting.

    def _counted(self, now_ns: int) -> Queue | None:
        """Return the current queue, or None if counting is not exact."""
        self._search, self._told_all = None, False
        kind = self._site.kind
        if kind is None:
            return None
        self._cap_uw = kind.most_uw if self.cap_uw is None else self.cap_uw
        helds = {job: self._held(job) for job in sorted(self._running)}
        # A pool without named nodes lowers caps below the level only while its budget is lower.
        scaled = not self._site.nodes
        levels_uw = {held_uw(kind, held.cap_uw) for held in helds.values() if held and not scaled}
        waits = sorted((job for job in self._asks if job not in helds), key=self._place)
        levels_uw.update(held_uw(kind, self._asks[job].cap_uw or self._cap_uw) for job in waits)
        here = all(held and held.here for held in helds.values())
        if not here or len(levels_uw) > 1 or not all(ask.whole for ask in self._asks.values()):
            return None
        self._level_uw = levels_uw.pop() if levels_uw else held_uw(kind, self._cap_uw)
        self._units = self._fed()
        queue = self._empty()
        self._entered.clear()
        self._last_ns = 0
        for job in helds:
            self._adopt(queue, job, now_ns)
        for job in waits:
            self._enter(queue, job, self._asks[job])
        return queue

    def _empty(self) -> Queue:
        if self.method == "conservative":
            return ConservativeQueue(self._units, kills_at_limit=self.kills_at_limit)
        backfill = self.method == "easy"
        return EasyQueue(
            self._units,
            backfill=backfill,
            kills_at_limit=self.kills_at_limit,
            passes=self.passes,
        )

    def _counts(self, ask: SizeRequest) -> bool:
        """Return whether a job can be counted: it takes whole nodes, at the common level."""
        cap_uw = ask.cap_uw or self._cap_uw
        if cap_uw == self._level_uw:
            return ask.whole
        kind = self._site.kind
        return ask.whole and kind is not None and held_uw(kind, cap_uw) == self._level_uw

    def _enter(self, queue: Queue, job: int, ask: SizeRequest) -> None:
        size, estimate_ns = self._entered[job] = self._asked(job, ask)
        if ask.submitted_ns > self._last_ns:
            self._last_ns = ask.submitted_ns
        if size:
            queue.submit(job, size, estimate_ns, ask.priority)

    def _asked(self, job: int, ask: SizeRequest) -> tuple[int, int]:
        """Return size and estimate of a waiting job, or `NEVER` if no size is possible."""
        least = ask.least
        size = least if self.size == "min" else ask.greatest
        if not least <= size <= self._units:
            site = self._site
            size = max(least, min(size, self._units))
            if size > site.count or size * self._each_uw > site.most_uw:
                return NEVER
        return size, self._jobs.estimate_ns(job, size, ask.cap_uw or self._cap_uw)

    def _fed(self) -> int:
        """Return the number of nodes within the power at the level."""
        kind = self._site.kind
        assert kind is not None
        self._each_uw = node_uw(kind, self._level_uw)
        spendable_uw = self._site.spendable_uw
        if spendable_uw < 0:
            return 0  # While power is overdrawn no job starts, even on nodes at their floor.
        return min(
            self._site.count, spendable_uw // self._each_uw if self._each_uw else self._site.count
        )

    def _run(self, job: int, held: Held, now_ns: int) -> None:
        queue, kind = self._queue, self._site.kind
        if job not in self._running:
            self._running.add(job)
            self._entered.pop(job, None)
            self._queue = None
        elif queue is not None and kind is not None:
            if held.here and held_uw(kind, held.cap_uw) == self._level_uw:
                self._adopt(queue, job, now_ns)
            else:
                self._queue = None

    def _adopt(self, queue: Queue, job: int, now_ns: int) -> None:
        held = self._held(job)
        assert held is not None
        began_ns = held.started_ns if held.started_ns >= 0 else now_ns
        takes_ns = self._jobs.estimate_ns(job, held.size, held.cap_uw)
        queue.adopt(job, held.size, began_ns + takes_ns)
