"""PARM scheduler for the service and for simulated pools (ADR 31).

After every change, all jobs are weighed against each other: the sum of their weighted power-aware
speedups is maximised under the available nodes and the power budget.

    s[j,n,p] = t[j, min N_j, min P_j] / t[j,n,p]                                    (7)
    w_j = priority * (remaining time at (min N_j, min P_j) + now - arrival) ^ alpha (8)

Three versions: **wSE** may choose the size of a job at its start and change it while it runs,
**noSE** only at its start, **noMM** always uses the minimum size. All versions choose caps freely.
A job that cannot change, or was resized less than an interval ago, is offered only its current size
(6); its start does not count as a resize. Locks are lifted if the running jobs do not fit
otherwise, for example after a budget decrease. If they still need too much power, each gets its
option with the lowest power, and the driver scales caps to the available power. If another resource
is short, they stay as they are. In both cases no job starts.

Beyond the paper: idle nodes are charged, so an option costs only its additional power. A job may
count cores of one node; the cores of this node are then another constraint for the jobs that run
there. A user's priority scales the weight. If nodes are heterogeneous, a job has options for every
kind, and the nodes of each kind are another constraint (`parm.menu`).

Data that do not change between two decisions are cached: options are computed once for all jobs
that differ only in their work, and the options of waiting jobs are stored in columns
(`parm.queue`). The decision itself is `parm.choice`. It does not choose the nodes of a new job
within a kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.job_units import count_text
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit
from wattfold.coordinator.policies.driver.held_counts import HeldCounts, earliest_ns, is_counted
from wattfold.coordinator.policies.parm import choice as parm_choice
from wattfold.coordinator.policies.parm.choice import (
    Ages,
    Choice,
    OptionLimits,
    OptionTable,
    Shared,
    Solving,
    stalled,
    stalls_s,
)
from wattfold.coordinator.policies.parm.entry import ParmJob
from wattfold.coordinator.policies.parm.menu import DramOffers, NodeSummary, Offer
from wattfold.coordinator.policies.parm.options import JobOptions, OptionShape
from wattfold.coordinator.policies.parm.queue import ParmQueue, ages_of
from wattfold.coordinator.policies.parm.settings import ParmRules, ParmVersion
from wattfold.coordinator.policies.port import (
    Change,
    Decision,
    JobInformation,
    NamedJobs,
    NodeRequirements,
    Reason,
    Scheduler,
    Site,
    SolverResult,
)
from wattfold.coordinator.solvers.deadline import Deadline

TOLD_UW = 50_000
"""Power below this value is not mentioned."""
FULL = "running jobs use the whole budget"
SHAPES_MAX = 4096
"""Maximum number of cached shapes."""


class ParmScheduler(Scheduler):
    """PARM with its settings. It decides once for all events of an instant.

    The time of every decision is appended to ``times_ns``, if given.
    """

    each_event = False
    weighs_all = True
    revisit_ns = 0

    def __init__(self, rules: ParmRules, times_ns: list[int] | None = None) -> None:
        self._rules, self._settings, self.patience = rules, rules.settings, rules.settings.patience
        self._held_counts = HeldCounts(self.patience) if self.patience else None
        """Holds for impatient jobs if nodes are counted; otherwise the driver makes them."""
        self.dram_model = rules.dram.model if rules.dram else None
        self._times_ns = times_ns
        self._jobs: JobInformation
        self._site = Site(count=0, spendable_uw=0, kind=None, most_uw=0)
        self._nodes: NodeSummary | None = None
        self._drams = DramOffers((), rules.settings)
        self._entries: dict[int, ParmJob] = {}
        self._running: dict[int, ParmJob] = {}
        self._queued = ParmQueue()
        self._stale: dict[int, ParmJob] = {}
        """Jobs whose options must be computed again."""
        self._shapes: dict[tuple[object, ...], tuple[tuple[Offer, ...], OptionShape]] = {}
        """Cached offers and shapes, by `ParmJob.kin`."""
        self._mixed_of: object = None
        """Numbers of empty nodes of each kind at the last computation of options."""
        self._asking: dict[int, None] = {}
        """Jobs that request more than cores."""
        self._lacking: dict[int, Reason] = {}
        """Waiting jobs with requests that cannot be met now."""
        self._full = False
        self._renamed: dict[int, None] | None = None
        """Waiting jobs whose reason may have changed; None = all."""

    @property
    def name(self) -> str:
        """``parm-wse``, ``parm-nose`` or ``parm-nomm``."""
        return self._rules.name

    @property
    def solver_ns(self) -> Sequence[int]:
        """Time of each decision with jobs, including preparation and solving, if recorded."""
        return self._times_ns or ()

    # Notifications.

    def attach(self, jobs: JobInformation) -> None:
        """Receive the jobs. Called once before all other methods."""
        self._jobs = jobs

    def site(self, site: Site) -> None:
        """Set nodes and power from now on."""
        self._site = site
        drams, self._drams = self._drams, DramOffers(site.nodes, self._settings)
        before, self._nodes = self._nodes, NodeSummary(site) if site.count else None
        if self._nodes is not None and not (self._nodes.like(before) and self._drams.like(drams)):
            self._mixed_of = None
            self._shapes.clear()
            for one in self._entries.values():
                one.profiles = self._profiles(one.job)
                self._lay_anew(one)

    def submit(self, job: int, now_ns: int) -> None:
        """A job enters the queue, or returns to it."""
        self.change(job, now_ns)

    def end(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """A job has ended, or no longer waits."""
        self._queued.pop(job)
        if self._held_counts is not None:
            self._held_counts.waits_no_more(job)
        for part in (self._entries, self._running, self._stale, self._asking):
            part.pop(job, None)

    def change(self, job: int, now_ns: int) -> None:
        """A job is new, or has changed: its request, its estimate or its resources."""
        ask, held, profiles = self._jobs.ask(job), self._jobs.held(job), self._profiles(job)
        one = self._entries.get(job)
        if one is None:
            one = self._entries[job] = ParmJob(job=job, ask=ask, done=0.0, profiles=profiles)
            self._stale[job] = one
        elif ask != one.ask or profiles != one.profiles:
            one.ask, one.profiles = ask, profiles
            self._lay_anew(one)
        if ask.requests:
            self._asking[job] = None
        if held is None:
            one.done = self._jobs.done(job, now_ns)
            self._running.pop(job, None)
            if self._held_counts is not None and is_counted(self._site):
                self._held_counts.waits(job, self._jobs, self._site)
            if job in self._queued:
                self._queued.touch(job)
            else:
                self._queue(one)
            return
        self._queued.pop(job)
        self._running[job] = one
        one.started_ns, one.resized_ns, one.movable = held.started_ns, held.resized_ns, held.movable
        one.cap_uw, one.dram_cap_uw, one.gpu_uw = held.cap_uw, held.dram_uw, held.gpu_uw
        one.told = True
        if held.size != one.size:
            one.resize(held.size)
        if self._nodes is not None and one.movable and self._offers(one) != one.offers:
            self._lay_anew(one)

    def _queue(self, entry: ParmJob) -> None:
        if entry.size:
            entry.size = entry.cap_uw = entry.dram_cap_uw = entry.gpu_uw = 0
            entry.started_ns, entry.resized_ns, entry.given = -1, -1, None
            entry.movable = True
            self._lay_anew(entry)
        self._queued.add(entry)

    # Results.

    def decide(self, now_ns: int) -> Decision:
        """Return starts, and running jobs with a new size or cap."""
        counts = self._held_counts
        if counts is None or not is_counted(self._site):
            changes, found = self._weighed(now_ns)
            return Decision(changes, found=found)
        for job in counts.taken():
            self.change(job, now_ns)
        resized_ns = {job: one.resized_ns for job, one in self._running.items()}
        changes, found = self._weighed(now_ns)
        kept, withdrawn = counts.decided(changes, list(resized_ns), self._jobs, self._site, now_ns)
        for job in withdrawn:
            self.change(job, now_ns)
            self._entries[job].resized_ns = resized_ns.get(job, -1)
        self.revisit_ns = earliest_ns(self.revisit_ns, counts.next_ns(now_ns))
        return Decision(kept, found=found)

    def _weighed(self, now_ns: int) -> tuple[list[Change], SolverResult]:
        """Decide with the integer program."""
        deadline = self._solving.deadline()
        began_ns = deadline.clock()
        running, waiting = self._planned()
        found, full = SolverResult(), False
        changes: list[Change] = []
        if running or waiting:
            offers, choice, limits = self._choose(running, now_ns, deadline)
            if self._times_ns is not None:
                self._times_ns.append(deadline.clock() - began_ns)
            solution, full = choice.solution, not choice.usable
            worth = (0.0, 0.0) if full else (solution.objective, solution.bound)
            found = SolverResult(choice.solver, solution.outcome.value, *worth)
            picks = self._fallback(running, offers, limits) if full else choice.picks.tolist()
            resized = zip(running, offers, picks, strict=False)
            started = zip(waiting, picks[len(running) :], strict=False)
            starts = [(one, one.table.efficient, pick) for one, pick in started if pick >= 0]
            changes = list(self._taken([*resized, *starts], now_ns))
        if full is not self._full:
            self._full, self._renamed = full, None
        unlocks = (self.locked_until_ns(one) for one in self._running.values() if one.movable)
        if self._rules.revisits:
            self.revisit_ns = min((at for at in unlocks if at > now_ns), default=0)
        return changes, found

    def reasons(self, jobs: Iterable[int]) -> Iterable[Reason]:
        """Return the reasons of these jobs and of all jobs whose reason has changed."""
        renamed, self._renamed = self._renamed, {}
        every = [one.job for one in self._queued] if renamed is None else [*renamed, *jobs]
        named = dict.fromkeys((*every, *self._asking))
        return [self._reason(self._entries[job]) for job in named if job in self._queued]

    def offered(self, now_ns: int) -> list[tuple[int, JobOptions, float]]:
        """Return every planned job with its options and its weight, for users."""
        running, waiting = self._planned()
        jobs = [*running, *waiting]
        weights = parm_choice.weights(self._ages(jobs, now_ns), now_ns, self._settings.alpha)
        tables = [self._open(one, now_ns, locks=True) for one in jobs]
        return [(o.job, t, w) for o, t, w in zip(jobs, tables, weights.tolist(), strict=True)]

    def locked_until_ns(self, entry: ParmJob) -> int:
        """Return the time until which the last resize forbids another; 0 = it does not."""
        return entry.resized_ns + self._settings.resize_interval_ns if entry.resized_ns >= 0 else 0

    def _reason(self, entry: ParmJob) -> Reason:
        lacks = self._lacking.get(entry.job)
        if lacks is not None:
            return lacks
        table = entry.table
        if not len(table):
            unit = entry.ask.unit.value
            text = f"requests {entry.ask.least} {unit}, more than the reachable nodes have"
            return Reason(entry.job, text, never=True)
        if self._full:
            return Reason(entry.job, FULL)
        units, power_uw = table.layout.minimum
        needs = count_text(units, SizeUnit.CORES)
        if power_uw >= TOLD_UW:
            needs += f" or the {power_uw / 1e6:.1f} W"
        return Reason(entry.job, f"jobs that run or gain more speed use the {needs} that it needs")

    # Choice.

    @property
    def _solving(self) -> Solving:
        settings = self._settings
        return Solving(solver=settings.solver, gap=settings.gap, deadline_s=self.deadline_s)

    def _planned(self) -> tuple[list[ParmJob], list[ParmJob]]:
        """Return the jobs to weigh, with their options.

        The first list holds running jobs in order of their starts, the second waiting jobs in order
        of submission.
        """
        self._lay_out()
        asking = list(self._asked())
        before, self._lacking = self._lacking, {}
        if asking:
            self._lacking.update(cast("NamedJobs", self._jobs).lacking(asking))
        if self._renamed is not None:
            either = before.keys() | self._lacking.keys()
            other = sorted(job for job in either if before.get(job) != self._lacking.get(job))
            self._renamed.update(dict.fromkeys(other))
        running = [one for one in self._running.values() if one.movable]
        running.sort(key=lambda entry: (entry.started_ns, *entry.place))
        return running, [one for one in self._queued if one.job not in self._lacking]

    def _asked(self) -> Iterable[int]:
        """Return the waiting jobs that may lack more than cores and power."""
        if self._site.reservations:
            return (one.job for one in self._queued)
        return (job for job in self._asking if job in self._queued)

    def _choose(
        self, running: list[ParmJob], now_ns: int, deadline: Deadline
    ) -> tuple[list[JobOptions], Choice, OptionLimits]:
        """Return the running jobs' options, the choice (running jobs first) and the limits."""
        parts, ages = self._queued.columns()
        if self._lacking:
            keep = np.asarray([one.job not in self._lacking for one in self._queued])
            parts, ages = [OptionTable.joined(parts).only(keep)], [Ages.joined(ages).only(keep)]
        every = Ages.joined([self._ages(running, now_ns), *ages])
        weight = parm_choice.weights(every, now_ns, self._settings.alpha)
        must_run = np.arange(weight.size) < len(running)
        limits = self._limits(running)
        locked = any(self._resizable(one) and self._locked(one, now_ns) for one in running)
        for locks in (True, False):
            own = [self._offered(one, now_ns, locks=locks) for one in running]
            offers = OptionTable.joined([OptionTable.of(own), *parts])
            choice = parm_choice.choose(offers, weight, must_run, limits, self._solving, deadline)
            if choice.usable or not locked:
                break
        return own, choice, limits

    def _ages(self, jobs: list[ParmJob], now_ns: int) -> Ages:
        return ages_of(jobs, [self._jobs.done(o.job, now_ns) if o.size else o.done for o in jobs])

    def _limits(self, running: list[ParmJob]) -> OptionLimits:
        site = self._site
        if not site.nodes:
            assert site.kind is not None, "counted nodes are identical"
            return OptionLimits(units=site.count * site.kind.cores, power_uw=site.spendable_uw)
        known = cast("NamedJobs", self._jobs)
        room = known.room()
        on: dict[NodeId, list[int]] = {}
        units: Counter[NodeId] = Counter()
        for index, one in enumerate(running):
            if one.ask.unit is SizeUnit.CORES:
                on.setdefault(_nodes_of(known, one.job)[0], []).append(index)
            elif one.ask.unit is SizeUnit.UNITS:
                for node_id in _nodes_of(known, one.job):
                    units[node_id] += one.ask.unit_cores
        return OptionLimits(
            units=sum(len(cpus) for cpus in room.free.values()),
            power_uw=room.power_uw,
            # The cores of a node limit the jobs that run there, because they cannot move.
            shared=tuple(
                Shared(
                    jobs=tuple(own),
                    units_max=max(len(room.free.get(node_id, ())) - units[node_id], 0),
                )
                for node_id, own in on.items()
            ),
            units_by_kind=room.units_by_kind(),
        )

    def _offered(self, entry: ParmJob, now_ns: int, *, locks: bool) -> JobOptions:
        """Return the options of a running job that may be part of an optimal decision."""
        options = self._open(entry, now_ns, locks=locks)
        price = self._rules.resize_price
        priced = price is not None or entry.ask.resize_s > 0
        if not priced or options is entry.here:
            return options.efficient
        # With resize costs a dominated option may be optimal if it is the current one.
        stall_s = entry.stall_s if options is entry.table else None
        if stall_s is None and entry.ask.resize_s:
            stall_s = np.where(options.layout.size == entry.size, 0.0, entry.ask.resize_s)
        elif stall_s is None:
            assert price is not None
            data_mb = price.memory_mb * entry.ask.least
            stall_s = stalls_s(options.layout.size, entry.size, data_mb, price.link_mb_per_s)
        if options is entry.table:
            entry.stall_s = stall_s
        return stalled(options, stall_s, self._jobs.done(entry.job, now_ns))

    def _open(self, entry: ParmJob, now_ns: int, *, locks: bool) -> JobOptions:
        """Return the options of a job in this decision; Eq. 6 if its size must not change."""
        if entry.here is not None and (
            not self._resizable(entry) or (locks and self._locked(entry, now_ns))
        ):
            return entry.here
        # A job that has more than its program requests releases the difference.
        return (
            entry.table
            if entry.size <= entry.ask.greatest
            else entry.table.up_to(entry.ask.greatest)
        )

    def _resizable(self, entry: ParmJob) -> bool:
        return self._rules.version is ParmVersion.WSE and entry.ask.resizable and entry.size > 0

    def _locked(self, entry: ParmJob, now_ns: int) -> bool:
        return now_ns < self.locked_until_ns(entry)

    def _fallback(
        self, running: list[ParmJob], offers: list[JobOptions], limits: OptionLimits
    ) -> list[int]:
        """Return fallback options of the running jobs if no choice is usable.

        If power is short, this is the option with the lowest power; -1 = the job stays as it is.
        """
        least = [own.cheapest for own in offers]
        cheapest = zip(offers, least, strict=True)
        power_uw = [int(o.layout.power_uw[at]) if at >= 0 else 0 for o, at in cheapest]
        short = sum(power_uw) > limits.power_uw
        return [
            at if short and own_uw <= one.charged_uw() else -1
            for one, own_uw, at in zip(running, power_uw, least, strict=True)
        ]

    def _taken(
        self, picks: Iterable[tuple[ParmJob, JobOptions, int]], now_ns: int
    ) -> Iterable[Change]:
        """Store the new resources of jobs, and yield the changes."""
        for one, offered, pick in picks:
            if pick < 0:
                continue
            row = offered.layout
            size, cap_uw = int(row.size[pick]), int(row.cap_uw[pick])
            levels = int(row.dram_cap_uw[pick]), int(row.gpu_uw[pick])
            told, one.told = one.told, False
            before = one.size, one.cap_uw, (one.dram_cap_uw, one.gpu_uw)
            if not told and (size, cap_uw, levels) == before:
                continue
            if one.size == 0:
                self._queued.pop(one.job)
                self._running[one.job] = one
                one.started_ns = now_ns
            elif size != one.size:
                one.resized_ns = now_ns
            if size != one.size:
                one.resize(size)
            one.cap_uw = cap_uw
            one.dram_cap_uw, one.gpu_uw = levels
            # Requirements are for named nodes.
            asked = _requirements(one, offered, pick) if self._site.nodes else None
            yield Change(one.job, size, cap_uw, dram_uw=one.dram_cap_uw, requirements=asked)

    # Computation of options.

    def _profiles(self, job: int) -> tuple[PassProfile, ...]:
        kinds = self._nodes.kinds if self._nodes else ()
        return tuple(self._jobs.profile(job, kind) for kind in kinds)

    def _lay_anew(self, entry: ParmJob) -> None:
        self._stale[entry.job] = entry

    def _lay_out(self) -> None:
        """Compute the options of all jobs whose options are outdated."""
        nodes = self._nodes
        assert nodes is not None, "there are nodes"
        if not nodes.alike:
            known = cast("NamedJobs", self._jobs)
            used = {node_id for job in self._running for node_id in _nodes_of(known, job)}
            empty = nodes.occupy(used)
            if empty != self._mixed_of:
                self._mixed_of = empty
                # The combinations of nodes for a large job have changed.
                self._shapes.clear()
                waits = (one for one in self._queued if one.ask.unit is SizeUnit.NODES)
                self._stale |= {one.job: one for one in waits}
        kins: dict[tuple[object, ...], list[ParmJob]] = {}
        for one in self._stale.values():
            kins.setdefault(one.kin(self._on(one)), []).append(one)
        for kin, jobs in kins.items():
            self._lay_out_kin(kin, jobs, nodes)
        if self._renamed is not None:
            self._renamed.update(dict.fromkeys(self._stale))
        self._stale.clear()

    def _lay_out_kin(
        self, kin: tuple[object, ...], jobs: list[ParmJob], nodes: NodeSummary
    ) -> None:
        if kin not in self._shapes:
            if len(self._shapes) >= SHAPES_MAX:
                self._shapes.clear()
            offers = self._offers(jobs[0])
            shape = jobs[0].shape(offers, nodes, self._rules, self._drams)
            self._shapes[kin] = offers, shape
        offers, shape = self._shapes[kin]
        works = [tuple(own.t1_s for own in one.profiles) for one in jobs]
        unlike = list(dict.fromkeys(works))
        options = dict(zip(unlike, shape.timed(np.asarray(unlike)), strict=True))
        for one, work in zip(jobs, works, strict=True):
            if one.options is not None:
                self._queued.touch(one.job)  # The columns of a new job are not computed yet.
            one.lay_out(offers, shape, options[work])

    def _on(self, entry: ParmJob) -> list[NodeId]:
        """Return the nodes of a running job if nodes are heterogeneous."""
        if not entry.size or self._nodes is None or self._nodes.alike:
            return []
        return _nodes_of(cast("NamedJobs", self._jobs), entry.job)

    def _offers(self, entry: ParmJob) -> tuple[Offer, ...]:
        nodes = self._nodes
        assert nodes is not None, "there are nodes"
        return entry.offers_on(nodes, self._on(entry), self._rules)


def _requirements(entry: ParmJob, options: JobOptions, pick: int) -> NodeRequirements:
    """Return what an option requires of the nodes of a job."""
    row = options.layout
    place = entry.offers[int(row.place[pick])][0]
    return NodeRequirements(
        kinds=place.kinds,
        nodes=place.nodes,
        sizes=entry.table.layout.sizes,
        expected_s=float(options.total_s[pick]),
        dram_uw=int(row.dram_cap_uw[pick]),
        gpu_uw=int(row.gpu_uw[pick]),
    )


def _nodes_of(jobs: NamedJobs, job: int) -> list[NodeId]:
    """Return the nodes of a running job; a node with several units is repeated."""
    view = jobs.view(job)
    shares = view.current.shares if view.current else ()
    return [s.node_id for s in shares for _ in range(view.spec.units_on(len(s.cpus)))]
