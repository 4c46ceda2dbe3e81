"""Slowdown-driven on a pool, with a check of all rules after every decision.

For whole logs and tests: the check takes time and changes no decision. The engine of the simulator
checks cores and power; this module checks the rules of the policy.
"""

from __future__ import annotations

from collections.abc import Sequence

from wattfold.coordinator.policies.backfill.node_parts import Parts
from wattfold.coordinator.policies.port import Decision
from wattfold.coordinator.policies.slowdown_driven.pool import SlowdownScheduler
from wattfold.coordinator.policies.slowdown_driven.queue import SlowdownQueue

ROUNDING_NS = 1000
"""Tolerance in ns: work is counted in whole nanoseconds, so predicted ends may move slightly."""


class BrokenRuleError(AssertionError):
    """A decision broke a rule of the policy."""


class CheckedSlowdownScheduler(SlowdownScheduler):
    """A `SlowdownScheduler` that raises BrokenRuleError if a decision

    * gives a job fewer cores of a node than its minimum, or more than the node has,
    * takes more of a mate than the sharing factor allows, or takes cores of a job that must not
      lend,
    * starts a job next to mates although it must not borrow,
    * with ``protects``, delays the head of the queue beyond its reserved start.
    """

    def decide(self, now_ns: int) -> Sequence[Decision | Parts]:  # type: ignore[override]
        """Return the scheduler's decision after checking it."""
        queue = self._queue
        assert queue is not None
        waits = bool(queue.queue) and self._rules.protects
        head = queue.queue[0] if waits else None
        before_ns = _start_of(queue, head[1], now_ns) if head else 0
        decisions = super().decide(now_ns)
        for one in decisions:
            if isinstance(one, Parts):
                self._look_at(one, queue, now_ns)
        if head is not None and decisions and queue.queue and queue.queue[0] == head:
            after_ns = _start_of(queue, head[1], now_ns)
            if after_ns > before_ns + ROUNDING_NS:
                raise BrokenRuleError(
                    f"at {now_ns} ns the start of job {head[0]}, the head of the queue, "
                    f"moved {after_ns - before_ns} ns later than reserved"
                )
        return decisions

    def _look_at(self, parts: Parts, queue: SlowdownQueue, now_ns: int) -> None:
        job, sharing = parts.job, self._sharing(parts.job)
        given = [parts.cores] if isinstance(parts.cores, int) else parts.cores
        where = f"at {now_ns} ns job {job}"
        if min(given) < sharing.least or max(given) > queue.cores:
            raise BrokenRuleError(
                f"{where} has {min(given)} to {max(given)} cores of its nodes; it needs "
                f"{sharing.least} and a node has {queue.cores}"
            )
        taken = queue.cores - min(given)
        if queue.guest_of(job) is not None and not (
            sharing.lends and taken <= self._rules.factor * queue.cores
        ):
            raise BrokenRuleError(
                f"{where} lends {taken} of {queue.cores} cores; only malleable jobs may "
                f"lend, at most {self._rules.factor:g} of the cores"
            )
        if queue.hosts_of(job) and not sharing.borrows:
            raise BrokenRuleError(f"{where} has mates but may not borrow cores")


def _start_of(queue: SlowdownQueue, size: int, now_ns: int) -> int:
    """Return when ``size`` nodes will be free, by the predicted ends of running jobs."""
    free, start_ns = queue.free, now_ns
    for ends_ns, _, own in queue.running:
        if free >= size:
            break
        free, start_ns = free + own, max(ends_ns, now_ns)
    return start_ns
