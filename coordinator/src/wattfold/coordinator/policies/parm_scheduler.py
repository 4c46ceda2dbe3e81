"""PARM at work: one scheduler for the service and for simulated pools (ADR 31).

Each time something has happened, all jobs are weighed against each other: the sum of their weighted
power-aware speedups is maximised under the nodes there are and the power budget.

    s[j,n,p] = t[j, min N_j, min P_j] / t[j,n,p]                                    (7)
    w_j = priority * (remaining time at (min N_j, min P_j) + now - arrival) ^ alpha (8)

Three versions: **wSE** may choose the size of a job at its start and change it while it runs,
**noSE** only at its start, **noMM** takes the least size always. Caps are free in all of them. A
job that cannot change, or was resized less than an interval ago, is offered its present size only
(6); its start is no resize. Locks are lifted where the jobs that run do not fit otherwise (a budget
just lowered). If their power is too much even so, each gets its option of least power, and the
driver scales caps to what there is; if it is anything else that does not fit, they stay as they
are. In both cases nothing starts.

What goes beyond the paper: idle nodes are charged, so an option costs only what it adds to them; a
job may count cores of one node, and the cores of a node are then one more constraint for the jobs
that run there; a user's priority scales the weight. Where nodes are unlike, a job has options for
every kind of them, and the nodes of each kind are one more constraint (`parm_menu`).

What does not change between two decisions is kept: the options of every job, laid out once for all
that differ in their work alone, and those of the jobs that wait in columns (`parm_queue`). The
decision itself is `parm_choice`. It leaves open which nodes of its kind a new job gets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np

from wattfold.contract.ids import NodeId
from wattfold.coordinator.models.dram_model import DramModel
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit
from wattfold.coordinator.policies import parm_choice
from wattfold.coordinator.policies.parm_choice import (
    Ages,
    Choice,
    Limits,
    Offers,
    Shared,
    Solving,
)
from wattfold.coordinator.policies.parm_dram import DramOffers
from wattfold.coordinator.policies.parm_entry import Entry
from wattfold.coordinator.policies.parm_menu import Nodes, Offer
from wattfold.coordinator.policies.parm_options import Options, Shape
from wattfold.coordinator.policies.parm_queue import Queue, ages_of
from wattfold.coordinator.policies.parm_settings import ParmSettings, Variant
from wattfold.coordinator.policies.parm_stall import stalled, stalls_s
from wattfold.coordinator.policies.scheduler import (
    ChoosingScheduler,
    Decision,
    DramScheduler,
    Found,
    Jobs,
    NamedJobs,
    Placing,
    Reason,
    Site,
)
from wattfold.coordinator.solvers.deadline import Deadline

FULL = "running jobs use the whole budget"
DEADLINE_S = 20.0
"""Of a decision, where the driver says nothing."""
SHAPES_MAX = 4096
"""Kinds of jobs whose options are kept."""


class ParmScheduler(ChoosingScheduler, DramScheduler):
    """PARM with its settings. Decides once for all events of an instant.

    ``times_ns`` takes the time of every decision, if it is wanted.
    """

    each_event = False
    revisit_ns = 0

    def __init__(self, settings: ParmSettings, times_ns: list[int] | None = None) -> None:
        self._settings = settings
        self.deadline_s = DEADLINE_S
        self._times_ns = times_ns
        self._jobs: Jobs
        self._site = Site(count=0, spendable_uw=0, kind=None, most_uw=0)
        self._nodes: Nodes | None = None
        self._drams = DramOffers((), settings.dram_choice)
        self._entries: dict[int, Entry] = {}
        self._running: dict[int, Entry] = {}
        self._queued = Queue()
        self._stale: dict[int, Entry] = {}
        """To be laid out."""
        self._shapes: dict[tuple[object, ...], tuple[tuple[Offer, ...], Shape]] = {}
        """What jobs are laid out from, by their `Entry.kin`."""
        self._mixed_of: object = None
        """Empty nodes of each kind that options were laid out for."""
        self._asking: dict[int, None] = {}
        """Jobs that ask for more than cores,"""
        self._lacking: dict[int, Reason] = {}
        """and those of them that cannot have it now."""
        self._found = Found()
        self._full = False
        self._renamed: dict[int, None] | None = None
        """Waiting jobs whose reason may be another; None: all of them."""

    @property
    def name(self) -> str:
        """``parm-wse``, ``parm-nose`` or ``parm-nomm``."""
        return self._settings.name

    @property
    def solver_ns(self) -> Sequence[int]:
        """Time of each decision with jobs, laying out and solving, where it is wanted."""
        return self._times_ns or ()

    @property
    def found(self) -> Found:
        """How the last decision was found."""
        return self._found

    @property
    def dram_model(self) -> DramModel:
        """What a DRAM cap does to run times."""
        return self._settings.dram.model if self._settings.dram else DramModel()

    # What it is told.

    def attach(self, jobs: Jobs) -> None:
        """Called once before anything else."""
        self._jobs = jobs

    def site(self, site: Site) -> None:
        """Nodes and power from now on."""
        self._site = site
        drams, self._drams = self._drams, DramOffers(site.nodes, self._settings.dram_choice)
        before, self._nodes = self._nodes, Nodes(site) if site.count else None
        if self._nodes is not None and not (self._nodes.like(before) and self._drams.like(drams)):
            self._mixed_of = None
            self._shapes.clear()
            for one in self._entries.values():
                one.profiles = self._profiles(one.job)
                self._lay_anew(one)

    def submit(self, job: int, now_ns: int) -> None:
        """A job enters the queue, or comes back to it."""
        self.change(job, now_ns)

    def end(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """A job has ended, or waits no more."""
        self._queued.pop(job)
        for part in (self._entries, self._running, self._stale, self._asking):
            part.pop(job, None)

    def change(self, job: int, now_ns: int) -> None:
        """A job is new, or other than it was: its wish, its estimate, or what it has."""
        ask, held, profiles = self._jobs.ask(job), self._jobs.held(job), self._profiles(job)
        one = self._entries.get(job)
        if one is None:
            one = self._entries[job] = Entry(job=job, ask=ask, done=0.0, profiles=profiles)
            self._stale[job] = one
        elif ask != one.ask or profiles != one.profiles:
            one.ask, one.profiles = ask, profiles
            self._lay_anew(one)
        if ask.requests:
            self._asking[job] = None
        if held is None:
            one.done = self._jobs.done(job, now_ns)
            self._running.pop(job, None)
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

    def _queue(self, one: Entry) -> None:
        if one.size:
            one.size = one.cap_uw = one.dram_cap_uw = one.gpu_uw = 0
            one.started_ns, one.resized_ns, one.given = -1, -1, None
            one.movable = True
            self._lay_anew(one)
        self._queued.add(one)

    # What it answers.

    def decide(self, now_ns: int) -> Sequence[Decision]:
        """Starts, and running jobs whose size or cap changes."""
        deadline = self._solving.deadline()
        began_ns = deadline.clock()
        running, waiting = self._planned()
        self._found, full = Found(), False
        decisions: list[Decision] = []
        if running or waiting:
            offers, choice, limits = self._choose(running, now_ns, deadline)
            if self._times_ns is not None:
                self._times_ns.append(deadline.clock() - began_ns)
            solution, full = choice.solution, not choice.usable
            worth = (0.0, 0.0) if full else (solution.objective, solution.bound)
            self._found = Found(choice.solver, solution.outcome.value, *worth)
            picks = self._least(running, offers, limits) if full else choice.picks.tolist()
            resized = zip(running, offers, picks, strict=False)
            started = zip(waiting, picks[len(running) :], strict=False)
            starts = [(one, one.table.efficient, pick) for one, pick in started if pick >= 0]
            decisions = list(self._taken([*resized, *starts], now_ns))
        if full is not self._full:
            self._full, self._renamed = full, None
        unlocks = (self.locked_until_ns(one) for one in self._running.values() if one.movable)
        if self._settings.revisits:
            self.revisit_ns = min((at for at in unlocks if at > now_ns), default=0)
        return decisions

    def dram_cap_uw(self, job: int) -> int:
        """DRAM cap of a node of a running job, microwatts; 0 = the standing cap."""
        return self._entries[job].dram_cap_uw

    def placing(self, job: int) -> Placing:
        """How a job of the last decision is to be put on nodes."""
        one = self._entries[job]
        assert one.given is not None, "it is of the last decision"
        table, at = one.given
        place = one.offers[int(table.layout.place[at])][0]
        sizes = one.table.layout.sizes
        total_s, dram_uw = float(table.total_s[at]), int(table.layout.dram_cap_uw[at])
        gpu_uw = int(table.layout.gpu_uw[at])
        return Placing(place.kinds, place.nodes, sizes, total_s, dram_uw, gpu_uw)

    def reasons(self, jobs: Iterable[int]) -> Iterable[Reason]:
        """Why these jobs wait and all whose reason is another since the last call."""
        renamed, self._renamed = self._renamed, {}
        every = [one.job for one in self._queued] if renamed is None else [*renamed, *jobs]
        named = dict.fromkeys((*every, *self._asking))
        return [self._reason(self._entries[job]) for job in named if job in self._queued]

    def offered(self, now_ns: int) -> list[tuple[int, Options, float]]:
        """Every job that is planned for, its options and its weight: for people."""
        running, waiting = self._planned()
        jobs = [*running, *waiting]
        weights = parm_choice.weights(self._ages(jobs, now_ns), now_ns, self._settings.alpha)
        tables = [self._open(one, now_ns, locks=True) for one in jobs]
        return [(o.job, t, w) for o, t, w in zip(jobs, tables, weights.tolist(), strict=True)]

    def locked_until_ns(self, one: Entry) -> int:
        """Until when the last resize forbids another one; 0 = it does not."""
        return one.resized_ns + self._settings.resize_interval_ns if one.resized_ns >= 0 else 0

    def _reason(self, one: Entry) -> Reason:
        lacks = self._lacking.get(one.job)
        if lacks is not None:
            return lacks
        table = one.table
        if not len(table):
            unit = one.ask.unit.value
            text = f"requests {one.ask.least} {unit}, more than the reachable nodes have"
            return Reason(one.job, text, never=True)
        if self._full:
            return Reason(one.job, FULL)
        units, power_uw = table.layout.least
        return Reason(
            one.job,
            f"other jobs gain more speed from the {units} cores and "
            f"{power_uw / 1e6:.1f} W above idle that this job needs",
        )

    # Choosing.

    @property
    def _solving(self) -> Solving:
        rules = self._settings
        return Solving(solver=rules.solver, gap=rules.gap, deadline_s=self.deadline_s)

    def _planned(self) -> tuple[list[Entry], list[Entry]]:
        """The jobs that are weighed, laid out: those that run in order of their starts, and the
        others in order of submission."""
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
        running.sort(key=lambda one: (one.started_ns, *one.place))
        return running, [one for one in self._queued if one.job not in self._lacking]

    def _asked(self) -> Iterable[int]:
        """Waiting jobs of which the driver is asked what keeps them beside cores and power."""
        if self._site.reservations:
            return (one.job for one in self._queued)
        return (job for job in self._asking if job in self._queued)

    def _choose(
        self, running: list[Entry], now_ns: int, deadline: Deadline
    ) -> tuple[list[Options], Choice, Limits]:
        """What the running jobs are offered, and the choice: theirs first."""
        parts, ages = self._queued.columns()
        if self._lacking:
            keep = np.asarray([one.job not in self._lacking for one in self._queued])
            parts, ages = [Offers.joined(parts).only(keep)], [Ages.joined(ages).only(keep)]
        every = Ages.joined([self._ages(running, now_ns), *ages])
        weight = parm_choice.weights(every, now_ns, self._settings.alpha)
        must_run = np.arange(weight.size) < len(running)
        limits = self._limits(running)
        locked = any(self._resizable(one) and self._locked(one, now_ns) for one in running)
        for locks in (True, False):
            own = [self._offered(one, now_ns, locks=locks) for one in running]
            offers = Offers.joined([Offers.of(own), *parts])
            choice = parm_choice.choose(offers, weight, must_run, limits, self._solving, deadline)
            if choice.usable or not locked:
                break
        return own, choice, limits

    def _ages(self, jobs: list[Entry], now_ns: int) -> Ages:
        return ages_of(jobs, [self._jobs.done(o.job, now_ns) if o.size else o.done for o in jobs])

    def _limits(self, running: list[Entry]) -> Limits:
        site = self._site
        if not site.nodes:
            assert site.kind is not None, "counted nodes are identical"
            return Limits(units=site.count * site.kind.cores, power_uw=site.spendable_uw)
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
        return Limits(
            units=sum(len(cpus) for cpus in room.free.values()),
            power_uw=room.power_uw,
            # The cores of a node bound the jobs that run there, which cannot go elsewhere.
            shared=tuple(
                Shared(
                    jobs=tuple(own),
                    units_max=max(len(room.free.get(node_id, ())) - units[node_id], 0),
                )
                for node_id, own in on.items()
            ),
            units_by_kind=room.units_by_kind(),
        )

    def _offered(self, one: Entry, now_ns: int, *, locks: bool) -> Options:
        """The options of a running job in this decision that may be in a best one."""
        options = self._open(one, now_ns, locks=locks)
        price = self._settings.resize_price
        priced = price is not None or one.ask.resize_s > 0
        if not priced or options is one.here:
            return options.efficient
        # With a price on changes an option that others beat may be the best: it is the present one.
        stall_s = one.stall_s if options is one.table else None
        if stall_s is None and one.ask.resize_s:
            stall_s = np.where(options.layout.size == one.size, 0.0, one.ask.resize_s)
        elif stall_s is None:
            assert price is not None
            data_mb = price.memory_mb * one.ask.least
            stall_s = stalls_s(options.layout.size, one.size, data_mb, price.link_mb_per_s)
        if options is one.table:
            one.stall_s = stall_s
        return stalled(options, stall_s, self._jobs.done(one.job, now_ns))

    def _open(self, one: Entry, now_ns: int, *, locks: bool) -> Options:
        """The options of a job in this decision: Eq. 6 where it may not change its size."""
        if one.here is not None and (
            not self._resizable(one) or (locks and self._locked(one, now_ns))
        ):
            return one.here
        # A job that has more than its program asks for gives it back.
        return one.table if one.size <= one.ask.greatest else one.table.up_to(one.ask.greatest)

    def _resizable(self, one: Entry) -> bool:
        return self._settings.variant is Variant.WSE and one.ask.resizable and one.size > 0

    def _locked(self, one: Entry, now_ns: int) -> bool:
        return now_ns < self.locked_until_ns(one)

    def _least(self, running: list[Entry], offers: list[Options], limits: Limits) -> list[int]:
        """Where no choice is usable: the option of least power of every running job, if that is
        what is short; -1 = it stays as it is."""
        least = [own.cheapest for own in offers]
        cheapest = zip(offers, least, strict=True)
        power_uw = [int(o.layout.power_uw[at]) if at >= 0 else 0 for o, at in cheapest]
        short = sum(power_uw) > limits.power_uw
        return [
            at if short and own_uw <= one.charged_uw() else -1
            for one, own_uw, at in zip(running, power_uw, least, strict=True)
        ]

    def _taken(
        self, picks: Iterable[tuple[Entry, Options, int]], now_ns: int
    ) -> Iterable[Decision]:
        """Notes what jobs get, and tells of those that get something else than they have."""
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
            one.cap_uw, one.given = cap_uw, (offered, pick)
            one.dram_cap_uw, one.gpu_uw = levels
            yield one.job, size, cap_uw

    # Laying out.

    def _profiles(self, job: int) -> tuple[PassProfile, ...]:
        kinds = self._nodes.kinds if self._nodes else ()
        return tuple(self._jobs.profile(job, kind) for kind in kinds)

    def _lay_anew(self, one: Entry) -> None:
        self._stale[one.job] = one

    def _lay_out(self) -> None:
        """The options of all jobs whose options are not laid out as they are now."""
        nodes = self._nodes
        assert nodes is not None, "there are nodes"
        if not nodes.alike:
            known = cast("NamedJobs", self._jobs)
            used = {node_id for job in self._running for node_id in _nodes_of(known, job)}
            empty = nodes.occupy(used)
            if empty != self._mixed_of:
                self._mixed_of = empty
                # Which nodes can be joined for a large job has changed.
                self._shapes.clear()
                waits = (one for one in self._queued if one.ask.unit is SizeUnit.NODES)
                self._stale |= {one.job: one for one in waits}
        kins: dict[tuple[object, ...], list[Entry]] = {}
        for one in self._stale.values():
            kins.setdefault(one.kin(self._on(one)), []).append(one)
        for kin, jobs in kins.items():
            self._lay_out_kin(kin, jobs, nodes)
        for job in self._stale:
            self._queued.touch(job)
            if self._renamed is not None:
                self._renamed[job] = None
        self._stale.clear()

    def _lay_out_kin(self, kin: tuple[object, ...], jobs: list[Entry], nodes: Nodes) -> None:
        if kin not in self._shapes:
            if len(self._shapes) >= SHAPES_MAX:
                self._shapes.clear()
            offers = self._offers(jobs[0])
            shape = jobs[0].shape(offers, nodes, self._settings, self._drams)
            self._shapes[kin] = offers, shape
        offers, shape = self._shapes[kin]
        works = [tuple(own.t1_s for own in one.profiles) for one in jobs]
        unlike = list(dict.fromkeys(works))
        options = dict(zip(unlike, shape.timed(np.asarray(unlike)), strict=True))
        for one, work in zip(jobs, works, strict=True):
            one.lay_out(offers, shape, options[work])

    def _on(self, one: Entry) -> list[NodeId]:
        """The nodes that a running job is on, of unlike ones."""
        if not one.size or self._nodes is None or self._nodes.alike:
            return []
        return _nodes_of(cast("NamedJobs", self._jobs), one.job)

    def _offers(self, one: Entry) -> tuple[Offer, ...]:
        nodes = self._nodes
        assert nodes is not None, "there are nodes"
        return one.offers_on(nodes, self._on(one), self._settings)


def _nodes_of(jobs: NamedJobs, job: int) -> list[NodeId]:
    """The nodes of a running job; of units each as often as it holds some."""
    view = jobs.view(job)
    shares = view.current.shares if view.current else ()
    return [s.node_id for s in shares for _ in range(view.spec.units_on(len(s.cpus)))]
