"""Slowdown-driven malleable backfill on a simulated pool of identical nodes shared by cores.

`SlowdownQueue` decides by counts; this module assigns the nodes of sharing jobs. A job without
mates gets the first free whole nodes. A job with mates gets cores of all nodes of its mates, which
continue on the rest.

`CheckedSlowdownScheduler` checks the rules of the policy after every decision, for whole logs and
tests. The check takes time and changes no decision. The engine checks cores and power.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from wattfold.contract.units import uw_from_w
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.power.charge import node_uw
from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.coordinator.policies.backfill.counts import AT_ONCE, Passes
from wattfold.coordinator.policies.backfill.node_parts import NodeJobInformation
from wattfold.coordinator.policies.port import (
    NOTHING,
    Change,
    Decision,
    JobInformation,
    Parts,
    Scheduler,
    Site,
)
from wattfold.coordinator.policies.resources.serial_part import serial_of_profile_ppm
from wattfold.coordinator.policies.slowdown_driven.choice import always
from wattfold.coordinator.policies.slowdown_driven.queue import SlowdownQueue
from wattfold.coordinator.policies.slowdown_driven.rules import NodeSharing, SharingSettings


class SlowdownScheduler(Scheduler):
    """A scheduler of this policy on a pool.

    ``sharing`` defines for each kind of job how it shares nodes; ``kind_of`` is the kind of each
    job. ``cap_uw`` is the cap of all jobs; None = the maximum. ``kills_at_limit``: see
    `backfill.counts`. ``passes``: backfilling passes, which also search for mates. ``profiles``
    (empty, or one per job) give the power of jobs and their slowdown on fewer cores.
    """

    name = "slowdown-driven"
    each_event = True
    solver_ns: Sequence[int] = ()

    def __init__(
        self,
        *,
        rules: SharingSettings,
        sharing: Sequence[NodeSharing],
        kind_of: bytes,
        cap_uw: int | None = None,
        kills_at_limit: bool = True,
        passes: Passes = AT_ONCE,
        profiles: Sequence[PassProfile] = (),
    ) -> None:
        self._profiles = profiles
        self._profiled: dict[int, NodeSharing] = {}
        self._kind: NodeKind
        self._rules, self._kinds, self._kind_of = rules, tuple(sharing), kind_of
        self._passes = passes
        self._cap_uw, self._kills_at_limit = cap_uw or 0, kills_at_limit
        self._jobs: NodeJobInformation
        self._queue: SlowdownQueue | None = None
        self._units = 0
        self._own: dict[int, list[int]] = {}
        """Own nodes of jobs that share or have shared."""
        self.started_beside = 0
        self.mates: set[int] = set()

    @property
    def revisit_ns(self) -> int:
        """Time of the next pass if passes are not immediate; else 0."""
        return self._queue.due if self._queue is not None else 0

    @property
    def penalty(self) -> float:
        """Maximum penalty of all mates so far (`SlowdownQueue`)."""
        return self._queue.penalty if self._queue is not None else 0.0

    def attach(self, jobs: JobInformation) -> None:
        """Receive the jobs. Called once before all other methods."""
        self._jobs = cast("NodeJobInformation", jobs)

    def site(self, site: Site) -> None:
        """Set nodes and power from now on."""
        kind = site.kind
        if kind is None:
            raise ValueError(f"{self.name} is simulated only on identical nodes")
        self._cap_uw = self._cap_uw or kind.most_uw
        self._kind, each_uw = kind, node_uw(kind, self._cap_uw)
        self._kinds = tuple(one._replace(power_uw=each_uw) for one in self._kinds)
        fed = max(site.spendable_uw, 0) // each_uw if each_uw else site.count
        before, self._units = self._units, min(site.count, fed)
        if self._queue is not None:
            self._queue.resize(self._units - before)
            return
        self._queue = SlowdownQueue(
            self._units,
            kind.cores,
            self._sharing,
            self._rules,
            kills_at_limit=self._kills_at_limit,
            allowed=self._in_a_row if self._rules.contiguous else always,
            passes=self._passes,
        )

    def submit(self, job: int, now_ns: int) -> None:
        """A job enters the queue, or returns to it."""
        assert self._queue is not None
        ask = self._jobs.ask(job)
        size = ask.greatest
        estimate_ns = self._jobs.estimate_ns(job, size, self._cap_uw)
        self._queue.enter(job, size, estimate_ns, ask.priority, min(ask.submitted_ns, now_ns))

    def end(self, job: int, now_ns: int) -> None:
        """A job has ended, or no longer waits."""
        queue = self._queue
        assert queue is not None
        if not queue.runs(job):
            queue.leave(job)
            return
        self._profiled.pop(job, None)
        own, guest = self._own.pop(job, None), queue.guest_of(job)
        if guest is not None and own is not None:
            self._own.setdefault(guest, []).extend(own)
        queue.ended(job, now_ns)

    def change(self, job: int, now_ns: int) -> None:
        """The estimate of a running job has changed."""
        assert self._queue is not None
        size = self._queue.nodes_of(job)
        self._queue.replan(job, self._jobs.estimate_ns(job, size, self._cap_uw), now_ns)

    def ends_ns(self, job: int) -> int:
        """Return the planned end of a running job."""
        assert self._queue is not None
        return self._queue.ends_of(job)

    def decide(self, now_ns: int) -> Decision:
        """Return starts, mates that lend, and jobs that get cores back."""
        queue = self._queue
        assert queue is not None
        started = queue.decide(now_ns)
        if not started and not queue.changed:
            return NOTHING
        changes: list[Change | Parts] = []
        # From the other end than the nodes that jobs take by number.
        spare: list[int] | None = None
        for job in started:
            pick = queue.shared.get(job)
            if pick is None:
                changes.append(Change(job, queue.nodes_of(job), self._cap_uw))
                continue
            self.started_beside += 1
            self.mates.update(pick.mates)
            nodes: list[int] = []
            for mate in pick.mates:
                self._own[mate] = list(self._jobs.parts(mate))
                nodes += self._own[mate]
            cores = [pick.cores] * len(nodes)
            if pick.free:
                spare = self._jobs.empty(self._units) if spare is None else spare
                own = self._own[job] = [spare.pop() for _ in range(pick.free)]
                nodes += own
                cores += [queue.cores_of(job)[0]] * len(own)
            changes.append(Parts(job, nodes, cores, self._cap_uw))
        for job in queue.changed:
            changes.append(Parts(job, self._own[job], queue.cores_of(job)[0], self._cap_uw))
        queue.changed.clear()
        return Decision(changes)

    def _in_a_row(self, mates: tuple[int, ...]) -> bool:
        nodes = [node for mate in mates for node in self._jobs.parts(mate)]
        return max(nodes) - min(nodes) == len(nodes) - 1

    def _sharing(self, job: int) -> NodeSharing:
        sharing = self._kinds[self._kind_of[job]]
        if not self._profiles:
            return sharing
        if job not in self._profiled:
            profile, size = self._profiles[job], self._jobs.ask(job).greatest
            drawn_uw = node_uw(self._kind, min(self._cap_uw, uw_from_w(profile.p_high_w)))
            self._profiled[job] = sharing._replace(
                serial_ppm=serial_of_profile_ppm(profile, size), power_uw=drawn_uw
            )
        return self._profiled[job]


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

    def decide(self, now_ns: int) -> Decision:
        """Return the scheduler's decision after checking it."""
        queue = self._queue
        assert queue is not None
        waits = bool(queue.queue) and self._rules.protects
        head = queue.queue[0] if waits else None
        before_ns = _start_of(queue, head[1], now_ns) if head else 0
        decision = super().decide(now_ns)
        for one in decision.changes:
            if isinstance(one, Parts):
                self._look_at(one, queue, now_ns)
        if head is not None and decision.changes and queue.queue and queue.queue[0] == head:
            after_ns = _start_of(queue, head[1], now_ns)
            if after_ns > before_ns + ROUNDING_NS:
                raise BrokenRuleError(
                    f"at {now_ns} ns the start of job {head[0]}, the head of the queue, "
                    f"moved {after_ns - before_ns} ns later than reserved"
                )
        return decision

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
            sharing.lends and taken <= self._rules.sharing_factor * queue.cores
        ):
            raise BrokenRuleError(
                f"{where} lends {taken} of {queue.cores} cores; only malleable jobs may "
                f"lend, at most {self._rules.sharing_factor:g} of the cores"
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
