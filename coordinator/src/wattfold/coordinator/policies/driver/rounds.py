"""Driver of a scheduler in the service: planning rounds over named nodes and jobs.

It converts changes since the last round into calls of the scheduler, and the scheduler's decisions
into a plan; `node_assignment` chooses nodes and cores. A round costs time only for named jobs and
running jobs. For all other jobs the core keeps the result of the last plan.

Cores of running jobs may change if their mode permits it. Nodes of jobs on whole nodes may change
if these jobs can be restarted.

A decision is not yet executed: until the core reports that a job has the planned resources, the
next round reads its resources from the core again.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.job_units import size_text
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec, ResizeMode
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.model.plan import (
    NOBODY,
    JobView,
    Plan,
    Preemption,
    Snapshot,
    Waiting,
)
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit
from wattfold.coordinator.policies.driver.held_counts import earliest_ns
from wattfold.coordinator.policies.driver.held_nodes import (
    HELD,
    ResourceChange,
    SearchParts,
    held_for,
    levels_uw,
)
from wattfold.coordinator.policies.driver.impatience import Impatient
from wattfold.coordinator.policies.driver.node_assignment import Wanted, placed, resized
from wattfold.coordinator.policies.driver.site_view import site_of
from wattfold.coordinator.policies.port import (
    DEADLINE_S,
    FOR_NOBODY,
    Change,
    Held,
    NamedJobs,
    Reason,
    Scheduled,
    Scheduler,
    Site,
    SizeRequest,
)
from wattfold.coordinator.policies.resources.estimates import (
    bounded,
    duration_ns,
    estimate,
    shortest_ns,
)
from wattfold.coordinator.policies.resources.requests import startable, with_missing
from wattfold.coordinator.policies.resources.room import Room, nothing_in_reach, takes_whole_nodes


class Rounds(NamedJobs):
    """A scheduler and the state reported to it. Jobs are numbered in order of appearance."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._impatient = Impatient(scheduler.patience) if scheduler.patience else None
        self._numbers: dict[JobId, int] = {}
        self._next = 0
        self._views: dict[int, JobView] = {}
        self._running: dict[int, None] = {}
        self._given: dict[int, JobView] = {}
        """Last state from the core of the jobs that the last plan changed."""
        self._world: Snapshot | None = None
        self._site = Site(count=0, spendable_uw=0, kind=None, most_uw=0)
        self._kinds: dict[NodeId, NodeKind] = {}
        self._names: frozenset[NodeId] = frozenset()
        self._cores: dict[NodeId, int] = {}
        self._named: dict[int, None] = {}
        """Jobs named since reasons were last read."""
        self._room: Room | None = None
        scheduler.attach(self)

    def __len__(self) -> int:
        return len(self._numbers)

    def unlike(self, views: Iterable[JobView]) -> list[JobId]:
        """Return the known jobs that are not among these."""
        there = {view.job_id for view in views}
        return [job_id for job_id in self._numbers if job_id not in there]

    def tell(self, world: Snapshot, changed: Iterable[JobView], gone: Iterable[JobId]) -> None:
        """Update nodes and power, and the changed jobs.

        ``changed`` must contain all running and starting jobs, new jobs in order of submission.
        Jobs in ``gone`` neither wait nor run, and may be unknown. The jobs of ``world`` are
        ignored.
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
        for job_id in gone:
            self._drop(job_id, world.now_ns)
        for view in changed:
            self._take(view, world.now_ns)
        for job, view in self._given.items():
            self._changed(job, view, world.now_ns, decided=True)
        self._given.clear()

    def plan(self, now_ns: int, deadline_s: float = DEADLINE_S, *, explains: bool = True) -> Plan:
        """Let the scheduler decide within about ``deadline_s``, and place its decisions.

        The plan names all running and starting jobs. With ``explains`` it also names the waiting
        jobs whose reason may have changed since a plan explained them; planned starts that must be
        kept are always explained.
        """
        world, scheduler = self._world, self._scheduler
        assert world is not None
        if not world.nodes:
            return nothing_in_reach(replace(world, jobs=tuple(self._views.values())))
        scheduler.deadline_s = deadline_s
        decision = scheduler.decide(now_ns)
        assignments, homeless = self._placed(cast("Sequence[Change]", decision.changes))
        revisit_ns = scheduler.revisit_ns
        if self._impatient is not None:
            assignments, withdrawn = self._held_back(assignments, now_ns)
            homeless |= withdrawn
            revisit_ns = earliest_ns(revisit_ns, self._impatient.next_ns(now_ns))
        named = self._explained(homeless) if explains or scheduler.promises else {}
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
        found = decision.found
        plan = Plan(
            assignments=tuple(assignments),
            waiting=waiting,
            revisit_ns=revisit_ns,
            objective=found.objective,
            bound=found.bound,
            solver=found.solver,
            outcome=found.outcome,
            preemptions=tuple(self._preempted(*pair) for pair in decision.preemptions),
        )
        chosen = {self._views[one.job].job_id for one in named.values() if one.chosen}
        views = tuple(self._views[job] for job in named)
        return with_missing(plan, replace(world, jobs=views), chosen)

    def _explained(self, homeless: dict[int, Reason]) -> dict[int, Reason]:
        """Return the reasons of waiting jobs; ``homeless`` are those of the driver."""
        named = {one.job: one for one in self._scheduler.reasons(self._named)} | homeless
        self._named.clear()
        named = {job: one for job, one in named.items() if self._views[job].current is None}
        for one in named.values():
            view = self._views[one.job]
            if view.promise != one.promise:
                self._views[one.job] = replace(view, promise=one.promise)
        return named

    # Queries of the scheduler.

    def ask(self, job: int) -> SizeRequest:
        """Return the current request of a job."""
        view = self._views[job]
        spec = view.spec
        beyond = bool(spec.requests or spec.reservation or view.yields_to or self._in_part(view))
        levelled = spec.levels or (view.current is not None and view.current.levels)
        return SizeRequest(
            least=spec.min_size,
            greatest=view.max_size,
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
        """Return whether a job on whole nodes has only part of a node; two jobs use such nodes."""
        spec, current = view.spec, view.current
        if current is None or spec.alone or spec.unit is not SizeUnit.NODES:
            return False
        return any(len(s.cpus) != self._cores.get(s.node_id, 0) for s in current.shares)

    def _resizable(self, view: JobView) -> bool:
        """Return whether the size of a job may change while it runs.

        Whole nodes change by a restart or by the map of the job, within nodes of its current kind.
        """
        spec, cores = view.spec, view.spec.unit is SizeUnit.CORES
        if spec.mode is ResizeMode.RESTART or view.reach:
            shares = view.current.shares if view.current else ()
            under = {self._kinds[s.node_id] for s in shares if s.node_id in self._kinds}
            return view.nodes_may_change and (cores or len(under) <= 1)
        return spec.kind.resized and spec.mode is not ResizeMode.FIXED and cores

    def held(self, job: int) -> Held | None:
        """Return the resources of a job, or None while it waits."""
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
        """Return the expected time of the whole job on the nodes, which are identical."""
        kind = self._site.nodes[0].spec.kind
        return duration_ns(self._views[job], (kind,), size, cap_uw)

    def profile(self, job: int, kind: NodeKind) -> PassProfile:
        """Return the known profile, scaled to the user's estimate."""
        return estimate(self._views[job], kind).profile

    def done(self, job: int, now_ns: int) -> float:  # noqa: ARG002 - as of the round
        """Return the completed share of the work of a job."""
        return self._views[job].done

    def view(self, job: int) -> JobView:
        """Return all information about a job."""
        return self._views[job]

    def room(self) -> Room:
        """Return the resources that immovable jobs leave free."""
        if self._room is None:
            world = self._world
            assert world is not None
            self._room = Room.of(world, world.now_ns)
            for job in self._running:
                if not self._views[job].movable:
                    _keep(self._views[job], self._room)
        return self._room

    def lacking(self, jobs: Sequence[int]) -> Mapping[int, Reason]:
        """Return the waiting jobs among ``jobs`` that lack memory or GPUs now, with the reasons."""
        assert self._world is not None
        views = tuple(self._as_now(self._views[job]) for job in (*self._running, *jobs))
        _, waiting = startable(replace(self._world, jobs=views))
        numbers = self._numbers
        return {numbers[w.job_id]: Reason(numbers[w.job_id], w.reason, w.never) for w in waiting}

    def _as_now(self, view: JobView) -> JobView:
        """Return the view of a job; it yields to another job only while that job waits."""
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
            self._awaits(job, view)
            self._scheduler.submit(job, now_ns)
        else:
            self._running[job] = None
            self._scheduler.change(job, now_ns)

    def _changed(self, job: int, view: JobView, now_ns: int, *, decided: bool) -> None:
        before, self._views[job] = self._views[job], view
        self._named[job] = None
        if view.current is None and view == before and not decided:
            return  # The change does not matter here, such as a new reason to wait.
        if view.current is None:
            self._running.pop(job, None)
            self._awaits(job, view)
        else:
            self._running[job] = None
        self._scheduler.change(job, now_ns)

    def _awaits(self, job: int, view: JobView) -> None:
        """A job waits, or has changed while waiting."""
        if self._impatient is not None:
            turn = view.submitted_ns, str(view.job_id)
            self._impatient.add(job, turn, shortest_ns(view))

    def _drop(self, job_id: JobId, now_ns: int) -> None:
        job = self._numbers.pop(job_id, None)
        if job is not None:
            self._scheduler.end(job, now_ns)
            for part in (self._running, self._given, self._named, self._views):
                part.pop(job, None)

    def _preempted(self, job: int, for_job: int) -> Preemption:
        if for_job == FOR_NOBODY:
            reason = "preempted to resume later or on other nodes, by the current plan"
            return Preemption(job_id=self._views[job].job_id, for_job=NOBODY, reason=reason)
        waits = self._views[for_job].job_id
        reason = f"preempted for job {waits}"
        return Preemption(job_id=self._views[job].job_id, for_job=waits, reason=reason)

    def _placed(self, changes: Sequence[Change]) -> tuple[list[Assignment], dict[int, Reason]]:
        """Return all running and starting jobs, and why selected jobs do not start."""
        changed = {change.job for change in changes}
        kept = [self._views[job] for job in sorted(self._running) if job not in changed]
        assignments = [view.current for view in kept if view.current is not None]
        if not changes:
            return assignments, {}
        if changes[0].assignment is not None:
            return assignments + self._assigned(changes), {}
        decided = {change.job: self._wanted(change) for change in changes}
        room, self._room = self.room(), None
        for view in kept:
            if view.movable:
                _keep(view, room)
        going_on = [one for job, one in decided.items() if job in self._running]
        assignments += [self._bounded(one) for one in resized(going_on, room)]
        starts = [one for job, one in decided.items() if job not in self._running]
        begun, homeless = placed(starts, room)
        started = [self._bounded(one) for one in begun]
        for given in started:
            self._begun(self._numbers[given.job_id], given)
        reasons = {}
        for one in homeless:
            assert one.requirements is not None, "other schedulers start what fits"
            job = self._numbers[one.view.job_id]
            self._given[job] = one.view
            reasons[job] = Reason(job, _homeless(one.view.spec))
        return assignments + started, reasons

    def _assigned(self, changes: Sequence[Change]) -> list[Assignment]:
        """Return the changed jobs if the scheduler chooses nodes and cores."""
        decided = []
        for change in changes:
            assert change.assignment is not None, "a scheduler assigns all jobs or none"
            given = self._bounded(change.assignment)
            decided.append(given)
            if change.job not in self._running:
                self._begun(change.job, given)
        return decided

    def _held_back(
        self, assignments: list[Assignment], now_ns: int
    ) -> tuple[list[Assignment], dict[int, Reason]]:
        """Return the plan next to the resources held for an impatient job, and withdrawn starts."""
        assert self._impatient is not None
        # The current resources of jobs, regardless of the plan.
        views = ChainMap(self._given, self._views)
        impatient = self._impatient.first(
            lambda job: job in views and views[job].current is None, now_ns
        )
        if not impatient:
            return assignments, {}
        jobs = {one.job_id: self._numbers[one.job_id] for one in assignments}
        changes = [
            ResourceChange(job=jobs[one.job_id], view=views[jobs[one.job_id]], given=one)
            for one in assignments
            if views[jobs[one.job_id]].current is not one
        ]
        outcome = held_for(
            views,
            impatient,
            changes,
            levels_uw(self._site, change_later=self._scheduler.weighs_all),
            SearchParts(
                jobs=self,
                site=self._site,
                running=[job for job in sorted(self._running) if views[job].current is not None],
                now_ns=now_ns,
            ),
        )
        if outcome is None:
            return assignments, {}
        changed = {one.job for one in changes}
        kept = [one for one in assignments if jobs[one.job_id] not in changed]
        reasons = {job: Reason(job, outcome.reason) for job in outcome.withdrawn}
        for job in outcome.withdrawn:
            self._views[job] = views[job]
            self._running.pop(job, None)
        if outcome.begun is not None:
            self._begun(*outcome.begun)
        if outcome.held is not None:
            job, shadow_ns = outcome.held
            # The scheduler must report its reason again when nothing is held any more.
            self._given[job] = self._views[job]
            reasons[job] = Reason(job, HELD, start_ns=shadow_ns)
        return kept + [self._bounded(one) for one in outcome.assignments], reasons

    def _bounded(self, given: Assignment) -> Assignment:
        """Return an assignment that is expected to end within the time limit of the job."""
        return bounded(given, self._views[self._numbers[given.job_id]].spec)

    def _begun(self, job: int, given: Assignment) -> None:
        """Assume that a job has its planned resources, until the core reports them."""
        view = self._given[job] = self._views[job]
        self._views[job] = replace(view, current=given, started_ns=-1)
        self._running[job] = None

    def _wanted(self, change: Change) -> Wanted:
        return Wanted(
            view=self._views[change.job],
            size=change.size,
            cap_uw=change.cap_uw,
            requirements=change.requirements,
            among=() if change.job in self._running else change.among,
        )


def _homeless(spec: JobSpec) -> str:
    """Return why a job that a scheduler selected by counts was not placed."""
    least = size_text(spec, spec.min_size)
    if spec.unit is SizeUnit.UNITS:
        return f"selected, but the free cores are too fragmented for {least}"
    return f"selected, but no node has {least} free"


def _keep(view: JobView, room: Room) -> None:
    """Take the resources of a running job."""
    assert view.current is not None
    power_uw = room.given_uw(view.current)
    room.take(view.current.shares, power_uw, takes_whole_nodes(view.spec))


def lock_from_ns(view: JobView) -> int:
    """Return the resize after which a job must not be changed for a while; -1 = none.

    A program that has requested another size since then does not have to wait.
    """
    if view.wanted_ns > view.resized_ns and view.spec.kind is JobKind.EVOLVING:
        return -1
    return view.resized_ns


def planned(
    policy: Scheduled, snapshot: Snapshot, now_ns: int, deadline_s: float = DEADLINE_S
) -> Plan:
    """Return the plan of all jobs by a new scheduler."""
    rounds = Rounds(policy.scheduler())
    rounds.tell(snapshot, snapshot.jobs, ())
    return rounds.plan(now_ns, deadline_s)
