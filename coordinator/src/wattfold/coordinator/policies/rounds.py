"""The service's driver of a scheduler: planning rounds over nodes and jobs with names.

It turns what has changed since the last round into calls of the scheduler, and the scheduler's
decisions into a plan: nodes and cores by `placement`. Only jobs that are named to it, and those
that run, cost anything in a round; the core keeps for all others what the last plan said.

A decision is not yet so: until the core says that a job has what the plan gave it, the next round
asks the core again what it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.job import Assignment, SizeUnit
from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.core.plan import JobView, Plan, Preemption, Snapshot, Waiting
from wattfold.coordinator.policies.estimates import duration_ns
from wattfold.coordinator.policies.placement import Room, nothing_in_reach, takes_whole_nodes
from wattfold.coordinator.policies.requests import with_missing
from wattfold.coordinator.policies.scheduler import (
    Ask,
    Decision,
    Held,
    NamedJobs,
    NamedScheduler,
    Scheduled,
    Site,
)


class Rounds(NamedJobs):
    """One scheduler and what it has been told. Jobs are numbered as they are first named."""

    def __init__(self, scheduler: NamedScheduler) -> None:
        self._scheduler = scheduler
        self._numbers: dict[JobId, int] = {}
        self._next = 0
        self._views: dict[int, JobView] = {}
        self._running: dict[int, None] = {}
        self._given: dict[int, JobView] = {}
        """What the core said last of jobs that the last plan gave something else."""
        self._world: Snapshot | None = None
        self._site = Site(count=0, spendable_uw=0, kind=None, most_uw=0)
        self._names: frozenset[NodeId] = frozenset()
        self._named: dict[int, None] = {}
        """Jobs that this round has named."""
        scheduler.attach(self)

    def __len__(self) -> int:
        return len(self._numbers)

    def unlike(self, views: Iterable[JobView]) -> list[JobId]:
        """The jobs it knows that are not among these."""
        there = {view.job_id for view in views}
        return [job_id for job_id in self._numbers if job_id not in there]

    def tell(self, world: Snapshot, changed: Iterable[JobView], gone: Iterable[JobId]) -> None:
        """Nodes and power as they are, and the jobs that are other than they were.

        All jobs that run or start are among those ``changed``, new ones in order of submission;
        ``gone`` neither wait nor run, and need not be known. Jobs of ``world`` are not looked at.
        """
        self._world, site = world, site_of(world)
        if site.names != self._site.names:
            self._names = frozenset(site.names)
        if site != self._site or site.kind is None or site.nodes != self._site.nodes:
            self._scheduler.site(site)
        self._site = site
        self._named.clear()
        for job_id in gone:
            self._drop(job_id, world.now_ns)
        for view in changed:
            self._take(view, world.now_ns)
        for job, view in self._given.items():
            self._changed(job, view, world.now_ns)
        self._given.clear()

    def plan(self, now_ns: int) -> Plan:
        """Has the scheduler decide, and places its decisions.

        Names all that runs or starts, and of the others those whose reason may be another.
        """
        world = self._world
        assert world is not None
        if not world.nodes:
            return nothing_in_reach(replace(world, jobs=tuple(self._views.values())))
        decisions = self._scheduler.decide(now_ns)
        kept = [self._current(job) for job in sorted(self._running)]
        started = self._placed(decisions, world, now_ns) if decisions else []
        reasons = list(self._scheduler.reasons(self._named))
        waiting = tuple(
            Waiting(job_id=self._views[job].job_id, reason=text, never=never, start_ns=start_ns)
            for job, text, never, start_ns in reasons
        )
        plan = Plan(
            assignments=(*kept, *started),
            waiting=waiting,
            solver="none",
            outcome="optimal",
            preemptions=tuple(self._preempted(*pair) for pair in self._scheduler.preemptions()),
        )
        named = tuple(self._views[job] for job, _, _, _ in reasons)
        return with_missing(plan, replace(world, jobs=named))

    # What the scheduler asks for.

    def ask(self, job: int) -> Ask:
        """What it asks for now."""
        view = self._views[job]
        spec = view.spec
        return Ask(
            least=spec.least_size,
            greatest=view.greatest_size,
            priority=spec.priority,
            submitted_ns=view.submitted_ns,
            cap_uw=spec.cap_uw,
            whole=spec.unit is SizeUnit.NODES
            and not (spec.requests or spec.reservation or view.yields_to),
        )

    def held(self, job: int) -> Held | None:
        """What it has; None while it waits."""
        view = self._views[job]
        current = view.current
        if current is None:
            return None
        here = all(share.node_id in self._names for share in current.shares)
        return Held(current.size, current.cap_uw, view.started_ns, here=here)

    def estimate_ns(self, job: int, size: int, cap_uw: int) -> int:
        """Its user's word, or what its profile says of nodes of the site's kind."""
        kind = self._site.kind
        assert kind is not None
        return duration_ns(self._views[job], (kind,), size, cap_uw)

    def done(self, job: int, now_ns: int) -> float:  # noqa: ARG002 - as of the round
        """Share of its work that is done."""
        return self._views[job].done

    def view(self, job: int) -> JobView:
        """All there is to know of a job."""
        return self._views[job]

    def _take(self, view: JobView, now_ns: int) -> None:
        job = self._numbers.get(view.job_id)
        if job is not None:
            self._given.pop(job, None)
            self._changed(job, view, now_ns)
            return
        job = self._numbers[view.job_id] = self._next
        self._next += 1
        self._views[job] = view
        self._named[job] = None
        if view.current is None:
            self._scheduler.submit(job, now_ns)
        else:
            self._running[job] = None
            self._scheduler.change(job, now_ns)

    def _changed(self, job: int, view: JobView, now_ns: int) -> None:
        self._views[job] = view
        self._named[job] = None
        if view.current is None:
            self._running.pop(job, None)
        else:
            self._running[job] = None
        self._scheduler.change(job, now_ns)

    def _drop(self, job_id: JobId, now_ns: int) -> None:
        job = self._numbers.pop(job_id, None)
        if job is not None:
            self._scheduler.end(job, now_ns)
            self._running.pop(job, None)
            self._given.pop(job, None)
            del self._views[job]

    def _preempted(self, job: int, for_job: int) -> Preemption:
        waits = self._views[for_job].job_id
        reason = f"pre-empted for job {waits}"
        return Preemption(job_id=self._views[job].job_id, for_job=waits, reason=reason)

    def _current(self, job: int) -> Assignment:
        current = self._views[job].current
        assert current is not None
        return current

    def _placed(
        self, decisions: Sequence[Decision], world: Snapshot, now_ns: int
    ) -> list[Assignment]:
        room = Room.of(world, now_ns)
        for job in self._running:
            view, current = self._views[job], self._current(job)
            power_uw = room.power_of(current.shares, current.cap_uw)
            room.take(current.shares, power_uw, takes_whole_nodes(view.spec))
        return [self._start(room, *decision) for decision in decisions]

    def _start(self, room: Room, job: int, size: int, cap_uw: int) -> Assignment:
        view = self._views[job]
        shares = room.find_fed(view.spec, size, cap_uw, room.takes_ns(view, size, cap_uw))
        assert shares is not None, "a scheduler starts what fits"
        held_uw = room.held_uw(shares, cap_uw)
        room.take(shares, room.power_of(shares, held_uw), takes_whole_nodes(view.spec))
        takes_ns = duration_ns(view, room.kinds_under(shares), size, cap_uw)
        given = Assignment(
            job_id=view.job_id,
            size=size,
            cap_uw=held_uw,
            shares=shares,
            expected_total_s=takes_ns / 1e9,
        )
        self._given[job] = view
        self._views[job] = replace(view, current=given, started_ns=-1)
        self._running[job] = None
        return given


def site_of(world: Snapshot) -> Site:
    """The nodes of a snapshot for a scheduler."""
    nodes = world.nodes
    kinds: dict[int, NodeKind] = {id(node.spec.kind): node.spec.kind for node in nodes}
    alike = len(kinds) == 1 and not any(node.blocked for node in nodes)
    # Who may be where, or end whom, depends on jobs and nodes that are not counted.
    apart = world.reservations or any(queue.preempts for queue in world.queues)
    return Site(
        count=len(nodes),
        spendable_uw=world.spendable_uw,
        kind=nodes[0].spec.kind if alike and not apart else None,
        most_uw=world.spendable_uw + world.reserved_uw,
        names=tuple(node.spec.node_id for node in nodes),
        nodes=nodes,
        reservations=world.reservations,
        queues=world.queues,
        clearing=world.clearing,
    )


def planned(policy: Scheduled, snapshot: Snapshot, now_ns: int) -> Plan:
    """A plan of all jobs by a scheduler that is made for it."""
    rounds = Rounds(policy.scheduler())
    rounds.tell(snapshot, snapshot.jobs, ())
    return rounds.plan(now_ns)
