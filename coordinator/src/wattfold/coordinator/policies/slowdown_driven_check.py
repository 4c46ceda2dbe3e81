"""Slowdown-driven on a pool, looked at after every decision: what holds in each instant.

For whole logs and tests: it costs time and changes no decision. The engine of the simulator checks
cores and power by itself; here are the rules of the policy.
"""

from __future__ import annotations

from collections.abc import Sequence

from wattfold.coordinator.policies.node_parts import Parts
from wattfold.coordinator.policies.scheduler import Decision
from wattfold.coordinator.policies.slowdown_driven_pool import SlowdownScheduler
from wattfold.coordinator.policies.slowdown_driven_queue import SlowdownQueue

ROUNDING_NS = 1000
"""Work is counted in whole nanoseconds, so predicted ends may move by as little."""


class BrokenRuleError(AssertionError):
    """A decision broke a rule of the policy."""


class CheckedSlowdownScheduler(SlowdownScheduler):
    """`SlowdownScheduler`, which raises BrokenRuleError where a decision

    * gives a job fewer cores of a node than it must have, or more than there are,
    * takes more of a mate than the sharing factor allows, or takes of one that may not lend,
    * starts beside mates who may not borrow,
    * with ``protects``, lets the first that waits start later than was reserved for it.
    """

    def decide(self, now_ns: int) -> Sequence[Decision | Parts]:  # type: ignore[override]
        """As the scheduler itself, and then a look at what it did."""
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
    """When so many nodes will be free, by the predicted ends of what runs."""
    free, start_ns = queue.free, now_ns
    for ends_ns, _, own in queue.running:
        if free >= size:
            break
        free, start_ns = free + own, max(ends_ns, now_ns)
    return start_ns
