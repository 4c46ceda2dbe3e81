"""Slowdown-driven malleable backfill on a simulated pool of like nodes shared by cores.

`SlowdownQueue` decides by counts; this names the nodes of those who share. A job that starts by its
turn gets whole nodes by their number; one that starts beside mates gets cores of all nodes of its
mates, which go on with the rest of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from wattfold.contract.units import uw_from_w
from wattfold.coordinator.core.charge import node_uw
from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.coordinator.policies.backfill import AT_ONCE, Passes
from wattfold.coordinator.policies.node_parts import NodeJobs, NodeScheduler, Parts
from wattfold.coordinator.policies.scheduler import Decision, Jobs, Site
from wattfold.coordinator.policies.slowdown_driven_choice import always
from wattfold.coordinator.policies.slowdown_driven_queue import SlowdownQueue
from wattfold.coordinator.policies.slowdown_driven_rules import Sharing, SharingRules
from wattfold.coordinator.policies.slowdown_driven_speed import serial_of_profile_ppm


class SlowdownScheduler(NodeScheduler):
    """The policy at work on a pool.

    ``sharing`` says of each kind of job, by ``kind_of`` each job, how it shares nodes. ``cap_uw``
    is the cap of all jobs; None = the greatest. ``kills_at_limit``: see `backfill`.
    ``passes``: of backfilling, in which mates are looked for too. ``profiles``, none or one a job,
    say what jobs lose on fewer cores, and what they draw.
    """

    name = "slowdown-driven"
    each_event = True
    solver_ns: Sequence[int] = ()

    def __init__(
        self,
        *,
        rules: SharingRules,
        sharing: Sequence[Sharing],
        kind_of: bytes,
        cap_uw: int | None = None,
        kills_at_limit: bool = True,
        passes: Passes = AT_ONCE,
        profiles: Sequence[PassProfile] = (),
    ) -> None:
        self._profiles = profiles
        self._profiled: dict[int, Sharing] = {}
        self._kind: NodeKind
        self._rules, self._kinds, self._kind_of = rules, tuple(sharing), kind_of
        self._passes = passes
        self._cap_uw, self._kills_at_limit = cap_uw or 0, kills_at_limit
        self._jobs: NodeJobs
        self._queue: SlowdownQueue | None = None
        self._units = 0
        self._own: dict[int, list[int]] = {}
        """The nodes that are their own, of jobs that share or did."""
        self.started_beside = 0
        self.mates: set[int] = set()

    @property
    def revisit_ns(self) -> int:
        """When the next pass is due, where passes are not at once; else 0."""
        return self._queue.due if self._queue is not None else 0

    @property
    def penalty(self) -> float:
        """The greatest of all mates so far (`SlowdownQueue`)."""
        return self._queue.penalty if self._queue is not None else 0.0

    def attach(self, jobs: Jobs) -> None:
        """Called once before anything else."""
        self._jobs = cast("NodeJobs", jobs)

    def site(self, site: Site) -> None:
        """Nodes and power from now on."""
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
        """A job enters the queue, or comes back to it."""
        assert self._queue is not None
        ask = self._jobs.ask(job)
        size = ask.greatest
        estimate_ns = self._jobs.estimate_ns(job, size, self._cap_uw)
        self._queue.enter(job, size, estimate_ns, ask.priority, min(ask.submitted_ns, now_ns))

    def end(self, job: int, now_ns: int) -> None:
        """A job has ended, or waits no more."""
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
        """The estimate of a running job is another."""
        assert self._queue is not None
        size = self._queue.nodes_of(job)
        self._queue.replan(job, self._jobs.estimate_ns(job, size, self._cap_uw), now_ns)

    def ends_ns(self, job: int) -> int:
        """When a running job is planned to end."""
        assert self._queue is not None
        return self._queue.ends_of(job)

    def decide(self, now_ns: int) -> Sequence[Decision | Parts]:  # type: ignore[override]
        """Starts, mates that lend, and jobs that get cores back."""
        queue = self._queue
        assert queue is not None
        started = queue.decide(now_ns)
        if not started and not queue.changed:
            return ()
        decisions: list[Decision | Parts] = []
        # From the other end than those that are taken by their number.
        spare: list[int] | None = None
        for job in started:
            pick = queue.shared.get(job)
            if pick is None:
                decisions.append((job, queue.nodes_of(job), self._cap_uw))
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
            decisions.append(Parts(job, nodes, cores, self._cap_uw))
        for job in queue.changed:
            decisions.append(Parts(job, self._own[job], queue.cores_of(job)[0], self._cap_uw))
        queue.changed.clear()
        return decisions

    def _in_a_row(self, mates: tuple[int, ...]) -> bool:
        nodes = [node for mate in mates for node in self._jobs.parts(mate)]
        return max(nodes) - min(nodes) == len(nodes) - 1

    def _sharing(self, job: int) -> Sharing:
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
