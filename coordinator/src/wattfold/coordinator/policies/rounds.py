"""The service's driver of a scheduler: planning rounds over nodes and jobs with names.

It turns what has changed since the last round into calls of the scheduler, and the scheduler's
decisions into a plan: nodes and cores by `placing`. Only jobs that are named to it, and those
that run, cost anything in a round; the core keeps for all others what the last plan said.

Cores of running jobs may change where their mode allows; nodes of jobs on whole nodes where they
may be restarted.

A decision is not yet so: until the core says that a job has what the plan gave it, the next round
asks the core again what it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.job import Assignment, JobKind, JobSpec, ResizeMode, SizeUnit
from wattfold.coordinator.core.job_units import size_text
from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.core.plan import NOBODY, JobView, Plan, Preemption, Snapshot, Waiting
from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.coordinator.policies.estimates import duration_ns, estimate
from wattfold.coordinator.policies.placement import Room, nothing_in_reach, takes_whole_nodes
from wattfold.coordinator.policies.placing import Wanted, placed, resized
from wattfold.coordinator.policies.requests import startable, with_missing
from wattfold.coordinator.policies.scheduler import (
    FOR_NOBODY,
    Ask,
    AssigningScheduler,
    ChoosingScheduler,
    Decision,
    FindingScheduler,
    Found,
    Held,
    NamedJobs,
    NamedScheduler,
    Reason,
    Scheduled,
    Site,
)

DEADLINE_S = 20.0
"""Of a round, where the caller says nothing."""


class Rounds(NamedJobs):
    """One scheduler and what it has been told. Jobs are numbered as they are first named."""

    def __init__(self, scheduler: NamedScheduler) -> None:
        self._scheduler = scheduler
        # Once: looking a protocol up takes longer than some decisions.
        self._chooser = scheduler if isinstance(scheduler, ChoosingScheduler) else None
        self._finder = scheduler if isinstance(scheduler, FindingScheduler) else None
        self._assigner = scheduler if isinstance(scheduler, AssigningScheduler) else None
        self._numbers: dict[JobId, int] = {}
        self._next = 0
        self._views: dict[int, JobView] = {}
        self._running: dict[int, None] = {}
        self._given: dict[int, JobView] = {}
        """What the core said last of jobs that the last plan gave something else."""
        self._world: Snapshot | None = None
        self._site = Site(count=0, spendable_uw=0, kind=None, most_uw=0)
        self._kinds: dict[NodeId, NodeKind] = {}
        self._names: frozenset[NodeId] = frozenset()
        self._cores: dict[NodeId, int] = {}
        self._named: dict[int, None] = {}
        """Jobs that this round has named."""
        self._room: Room | None = None
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
        self._world, self._room, site = world, None, site_of(world)
        self._kinds = {node.spec.node_id: node.spec.kind for node in world.nodes}
        if site.names != self._site.names:
            self._names = frozenset(site.names)
        if site.nodes != self._site.nodes:
            self._cores = {node.spec.node_id: len(node.spec.cpus) for node in site.nodes}
        before = self._site
        seen_before = before.nodes, before.away
        if site != before or site.kind is None or (site.nodes, site.away) != seen_before:
            self._scheduler.site(site)
        self._site = site
        self._named.clear()
        for job_id in gone:
            self._drop(job_id, world.now_ns)
        for view in changed:
            self._take(view, world.now_ns)
        for job, view in self._given.items():
            self._changed(job, view, world.now_ns, decided=True)
        self._given.clear()

    def plan(self, now_ns: int, deadline_s: float = DEADLINE_S) -> Plan:
        """Has the scheduler decide within about so many seconds, and places its decisions.

        Names all that runs or starts, and of the others those whose reason may be another.
        """
        world, scheduler = self._world, self._scheduler
        assert world is not None
        if not world.nodes:
            return nothing_in_reach(replace(world, jobs=tuple(self._views.values())))
        if self._chooser is not None:
            self._chooser.deadline_s = deadline_s
        decisions = scheduler.decide(now_ns)
        assignments, homeless = self._placed(decisions)
        named = {one.job: one for one in scheduler.reasons(self._named)} | homeless
        for one in named.values():
            view = self._views[one.job]
            if view.promise != one.promise:
                self._views[one.job] = replace(view, promise=one.promise)
        waiting = tuple(
            Waiting(
                job_id=self._views[one.job].job_id,
                reason=one.text,
                never=one.never,
                start_ns=one.start_ns,
                promise=one.promise,
            )
            for one in named.values()
        )
        found = self._finder.found if self._finder is not None else Found()
        plan = Plan(
            assignments=tuple(assignments),
            waiting=waiting,
            revisit_ns=scheduler.revisit_ns,
            objective=found.objective,
            bound=found.bound,
            solver=found.solver,
            outcome=found.outcome,
            preemptions=tuple(self._preempted(*pair) for pair in scheduler.preemptions()),
        )
        return with_missing(plan, replace(world, jobs=tuple(self._views[job] for job in named)))

    # What the scheduler asks for.

    def ask(self, job: int) -> Ask:
        """What it asks for now."""
        view = self._views[job]
        spec = view.spec
        beyond = bool(spec.requests or spec.reservation or view.yields_to or self._in_part(view))
        levelled = spec.levels or (view.current is not None and view.current.levels)
        return Ask(
            least=spec.least_size,
            greatest=view.greatest_size,
            priority=spec.priority,
            submitted_ns=view.submitted_ns,
            cap_uw=spec.cap_uw,
            whole=spec.unit is SizeUnit.NODES and not (beyond or levelled),
            unit=spec.unit,
            exclusive=spec.exclusive,
            requests=beyond,
            resizable=self._resizable(view),
            promise=view.promise,
            resize_s=view.resize_ns / NS_PER_S,
            due_ns=spec.due_ns,
            dram_uw=spec.levels.dram_uw,
            waits=view.waits,
            unit_cores=max(spec.unit_cores, 1),
            spread=spec.spread,
            gpus=spec.gpus,
            gpu_uw=spec.levels.gpu_uw,
            gpu_curves=view.training.curves if view.training is not None else (),
        )

    def _in_part(self, view: JobView) -> bool:
        """Whether a job on whole nodes has less of one than all: such nodes count for two jobs."""
        spec, current = view.spec, view.current
        if current is None or spec.alone or spec.unit is not SizeUnit.NODES:
            return False
        return any(len(s.cpus) != self._cores.get(s.node_id, 0) for s in current.shares)

    def _resizable(self, view: JobView) -> bool:
        """Whether its size may change while it runs; of whole nodes by a restart or its map, and
        among nodes of the one kind that it is on."""
        spec, cores = view.spec, view.spec.unit is SizeUnit.CORES
        if spec.mode is ResizeMode.RESTART or view.reach:
            shares = view.current.shares if view.current else ()
            under = {self._kinds[s.node_id] for s in shares if s.node_id in self._kinds}
            return view.nodes_may_change and (cores or len(under) <= 1)
        return spec.kind.resized and spec.mode is not ResizeMode.FIXED and cores

    def held(self, job: int) -> Held | None:
        """What it has; None while it waits."""
        view = self._views[job]
        current = view.current
        if current is None:
            return None
        here = all(share.node_id in self._names for share in current.shares)
        return Held(
            current.size,
            current.cap_uw,
            view.started_ns,
            here=here,
            resized_ns=lock_from_ns(view),
            movable=view.movable,
            dram_uw=current.levels.dram_uw,
            gpu_uw=current.levels.gpu_uw,
        )

    def estimate_ns(self, job: int, size: int, cap_uw: int) -> int:
        """Its user's word, or what its profile says of the nodes, which are alike."""
        kind = self._site.nodes[0].spec.kind
        return duration_ns(self._views[job], (kind,), size, cap_uw)

    def profile(self, job: int, kind: NodeKind) -> PassProfile:
        """What is known of it, scaled to its user's estimate."""
        return estimate(self._views[job], kind).profile

    def done(self, job: int, now_ns: int) -> float:  # noqa: ARG002 - as of the round
        """Share of its work that is done."""
        return self._views[job].done

    def view(self, job: int) -> JobView:
        """All there is to know of a job."""
        return self._views[job]

    def room(self) -> Room:
        """What is free beside the jobs of which nothing may change now."""
        if self._room is None:
            world = self._world
            assert world is not None
            self._room = Room.of(world, world.now_ns)
            for job in self._running:
                if not self._views[job].movable:
                    _keep(self._views[job], self._room)
        return self._room

    def lacking(self, jobs: Sequence[int]) -> Mapping[int, Reason]:
        """Those of these waiting jobs that cannot have memory or GPUs now, and why."""
        assert self._world is not None
        views = tuple(self._as_now(self._views[job]) for job in (*self._running, *jobs))
        _, waiting = startable(replace(self._world, jobs=views))
        numbers = self._numbers
        return {numbers[w.job_id]: Reason(numbers[w.job_id], w.reason, w.never) for w in waiting}

    def _as_now(self, view: JobView) -> JobView:
        """The view of a job, which is told nothing when the one it yields to waits no more."""
        if not view.yields_to:
            return view
        other = self._numbers.get(view.yields_to, -1)
        waits = other >= 0 and self._views[other].current is None
        return view if waits else replace(view, yields_to=NOBODY)

    def _take(self, view: JobView, now_ns: int) -> None:
        job = self._numbers.get(view.job_id)
        if job is not None:
            decided = self._given.pop(job, None) is not None
            self._changed(job, view, now_ns, decided=decided)
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

    def _changed(self, job: int, view: JobView, now_ns: int, *, decided: bool) -> None:
        before, self._views[job] = self._views[job], view
        self._named[job] = None
        if view.current is None and view == before and not decided:
            return  # Something of it has changed that is no matter here, as why it waits.
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
        if for_job == FOR_NOBODY:
            reason = "preempted to resume later or on other nodes, by the current plan"
            return Preemption(job_id=self._views[job].job_id, for_job=NOBODY, reason=reason)
        waits = self._views[for_job].job_id
        reason = f"preempted for job {waits}"
        return Preemption(job_id=self._views[job].job_id, for_job=waits, reason=reason)

    def _placed(self, decisions: Sequence[Decision]) -> tuple[list[Assignment], dict[int, Reason]]:
        """All that runs or starts, and why jobs that were chosen do not."""
        if self._assigner is not None:
            return self._assigned(self._assigner, decisions), {}
        decided = {decision[0]: self._wanted(*decision) for decision in decisions}
        kept = [self._views[job] for job in sorted(self._running) if job not in decided]
        assignments = [view.current for view in kept if view.current is not None]
        if not decided:
            return assignments, {}
        room, self._room = self.room(), None
        for view in kept:
            if view.movable:
                _keep(view, room)
        assignments += resized([one for job, one in decided.items() if job in self._running], room)
        starts = [one for job, one in decided.items() if job not in self._running]
        started, homeless = placed(starts, room)
        for given in started:
            self._begun(self._numbers[given.job_id], given)
        reasons = {}
        for one in homeless:
            assert self._chooser is not None, "other schedulers start what fits"
            job = self._numbers[one.view.job_id]
            self._given[job] = one.view
            reasons[job] = Reason(job, _homeless(one.view.spec))
        return assignments + started, reasons

    def _assigned(
        self, scheduler: AssigningScheduler, decisions: Sequence[Decision]
    ) -> list[Assignment]:
        """All that runs or starts, where the scheduler names nodes and cores."""
        decided = {job: scheduler.assignment(job) for job, *_ in decisions}
        kept = [self._views[job].current for job in sorted(self._running) if job not in decided]
        for job, given in decided.items():
            if job not in self._running:
                self._begun(job, given)
        return [given for given in kept if given is not None] + list(decided.values())

    def _begun(self, job: int, given: Assignment) -> None:
        """A job is taken to have what the plan gives it, until the core says what it has."""
        view = self._given[job] = self._views[job]
        self._views[job] = replace(view, current=given, started_ns=-1)
        self._running[job] = None

    def _wanted(self, job: int, size: int, cap_uw: int) -> Wanted:
        placing = self._chooser.placing(job) if self._chooser is not None else None
        among = () if job in self._running else self._scheduler.nodes(job)
        view = self._views[job]
        return Wanted(view=view, size=size, cap_uw=cap_uw, placing=placing, among=among)


def _homeless(spec: JobSpec) -> str:
    """Why a job was not placed that a scheduler has chosen by counts."""
    least = size_text(spec, spec.least_size)
    if spec.unit is SizeUnit.UNITS:
        return f"selected, but the free cores are too fragmented for {least}"
    return f"selected, but no node has {least} free"


def _keep(view: JobView, room: Room) -> None:
    """A running job keeps what it has."""
    assert view.current is not None
    power_uw = room.given_uw(view.current)
    room.take(view.current.shares, power_uw, takes_whole_nodes(view.spec))


def lock_from_ns(view: JobView) -> int:
    """The resize after which a job is left alone for a while; -1 = there is none.

    A program that has asked for another size since is not kept waiting.
    """
    if view.wanted_ns > view.resized_ns and view.spec.kind is JobKind.EVOLVING:
        return -1
    return view.resized_ns


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
        leaving_uw=world.leaving_uw,
        away=world.away,
        away_uw=world.away_uw,
        away_held_uw=world.away_held_uw,
        ahead=tuple(
            (one.from_ns, world.spendable_uw + one.budget_uw - world.budget_uw)
            for one in world.ahead
        ),
        origin_s=world.origin_s,
    )


def planned(
    policy: Scheduled, snapshot: Snapshot, now_ns: int, deadline_s: float = DEADLINE_S
) -> Plan:
    """A plan of all jobs by a scheduler that is made for it."""
    rounds = Rounds(policy.scheduler())
    rounds.tell(snapshot, snapshot.jobs, ())
    return rounds.plan(now_ns, deadline_s)
