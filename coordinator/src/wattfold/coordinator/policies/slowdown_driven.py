"""Slowdown-driven malleable backfill in the service: running jobs lend cores to who would wait.

M. D'Amico, A. Jokanovic, J. Corbalan, ICPP 2019. A round, over nodes and cores with names:

1. Free cores go to running jobs that have fewer than they asked for, on their own nodes, those that
   started first first: so a mate has its cores back when its guest ends, and a guest those of an
   owner that ends before it (`slowdown_driven_runs`).
2. The jobs that wait, in order of priority and submission: each is first tried as EASY does (where
   it fits in full without delaying the first that waits), then, before the next one, beside mates
   (`slowdown_driven_round`). It starts there with fewer cores if it is predicted to end earlier
   than if it waited, if it ends inside its mates' own runs, and if no mate's predicted slowdown
   reaches ``max_slowdown``.

Mates are jobs that lend and have all they asked for (`slowdown_driven_mates`); a job on whole nodes
runs on all nodes of its mates, with as many cores of each. `core_choice` tells which: jobs keep to
different sockets. The coordinator shrinks first and starts the new job when its cores are confirmed
to be free. A moldable job borrows and keeps what it got.

Predictions are users' words, stretched in proportion to the cores of the node where a job has
least. When a job would start if it waited is told by a map of reservations where all jobs take
whole like nodes, as in `slowdown_driven_queue`; elsewhere by what runs alone, as if no other
waited: the real start is later, so some jobs wait that could gain. Nothing is kept between two
rounds but the order of the queue.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from wattfold.coordinator.core.job import Assignment, SizeUnit
from wattfold.coordinator.core.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.policies.rounds import planned
from wattfold.coordinator.policies.scheduler import (
    AssigningScheduler,
    Decision,
    Jobs,
    NamedJobs,
    NamedScheduler,
    Reason,
    Scheduled,
    Site,
)
from wattfold.coordinator.policies.slowdown_driven_choice import Limits
from wattfold.coordinator.policies.slowdown_driven_head import Shape
from wattfold.coordinator.policies.slowdown_driven_round import Round
from wattfold.coordinator.policies.slowdown_driven_rules import Power, SharingRules

NAME = "slowdown-driven"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowdownDriven(Scheduled):
    """Settings as `described.slowdown_driven` tells them; infinite ``max_slowdown``: no cut-off.

    ``dynamic``: the cut-off is the mean predicted slowdown of the running jobs.
    """

    max_slowdown: float = 10.0
    dynamic: bool = False
    mates: int = 2
    looked_at: int = 0
    sharing_factor: float = 0.5
    benefit: bool = True
    protects: bool = True
    least_gain: float = 0.0
    contiguous: bool = False
    free_nodes: bool = False
    mapped: int = 32
    tested: int = 200
    power: Power = Power.WATTS
    energy_weight: float = 1.0
    guests: int = 1

    @property
    def name(self) -> str:
        """``slowdown-driven``."""
        return NAME

    @property
    def resizes(self) -> bool:
        """Mates lend, and get it back."""
        return True

    def fallback(self) -> Policy | None:
        """None: it has no solver that could fail."""
        return None

    def scheduler(self) -> NamedScheduler:
        """A scheduler with these settings."""
        limits = Limits(most_slowdown=self.max_slowdown, mates=self.mates, looked_at=self.looked_at)
        return SlowdownRounds(
            SharingRules(
                limits=limits,
                dynamic=self.dynamic,
                factor=self.sharing_factor,
                benefit=self.benefit,
                protects=self.protects,
                least_gain=self.least_gain,
                contiguous=self.contiguous,
                free_nodes=self.free_nodes,
                mapped=self.mapped,
                tested=self.tested,
                power=self.power,
                energy_weight=self.energy_weight,
                guests=self.guests,
            )
        )

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Keeps what runs, gives cores back, starts what fits or gains beside mates."""
        del deadline_s
        return planned(self, snapshot, now_ns)


class SlowdownRounds(AssigningScheduler):
    """The policy at work: keeps the queue in order, and what was told of those that wait."""

    each_event = True
    revisit_ns = 0
    solver_ns: Sequence[int] = ()
    name = NAME

    def __init__(self, rules: SharingRules) -> None:
        self._rules = rules
        self._jobs: NamedJobs
        self._site: Site
        self._queue: list[tuple[float, int, int]] = []
        self._places: dict[int, tuple[float, int, int]] = {}
        self._shapes: dict[int, Shape] = {}
        self._running: dict[int, None] = {}
        self._odd: set[int] = set()
        """Jobs with which counting is not exact."""
        self._given: dict[int, Assignment] = {}
        self._reasons: dict[int, Reason] = {}
        self._told: dict[int, Reason] = {}

    def attach(self, jobs: Jobs) -> None:
        """Called once before anything else."""
        self._jobs = cast("NamedJobs", jobs)

    def site(self, site: Site) -> None:
        """Nodes and power from now on."""
        self._site = site

    def submit(self, job: int, now_ns: int) -> None:  # noqa: ARG002 - `Jobs` has its time
        """A job enters the queue, or comes back to it."""
        view = self._jobs.view(job)
        spec = view.spec
        place = self._places[job] = (-spec.priority, view.submitted_ns, job)
        insort(self._queue, place)
        self._note(job, view)

    def end(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """A job has ended, or waits no more."""
        self._leave_queue(job)
        self._running.pop(job, None)
        self._odd.discard(job)
        self._told.pop(job, None)

    def change(self, job: int, now_ns: int) -> None:
        """A job is other than it was: its wish, its estimate, or that it runs and where."""
        view = self._jobs.view(job)
        if view.current is None:
            self._running.pop(job, None)
            self._leave_queue(job)
            self.submit(job, now_ns)
            return
        self._leave_queue(job)
        self._running[job] = None
        self._note(job, view)

    def decide(self, now_ns: int) -> Sequence[Decision]:
        """Starts, mates that lend, and jobs that get cores back."""
        turn = Round(self._rules, self._jobs, self._site, now_ns, counted=not self._odd)
        turn.decide(sorted(self._running), [job for *_, job in self._queue], self._shapes)
        self._given = turn.decided()
        self._reasons = {one.job: one for one in turn.reasons}
        for job in self._given:
            if job in self._places:
                self._leave_queue(job)
                self._running[job] = None
        return [(job, given.size, given.cap_uw) for job, given in self._given.items()]

    def assignment(self, job: int) -> Assignment:
        """What a job of the last decision gets."""
        return self._given[job]

    def reasons(self, jobs: Iterable[int]) -> Iterable[Reason]:
        """Why these jobs wait and all whose reason or start is another since the last call."""
        told, self._told = self._told, self._reasons
        named = set(jobs)
        view = self._jobs.view
        return [
            one
            for job, one in self._reasons.items()
            # Of memory and GPUs it lacks the driver tells.
            if job in named or told.get(job) != one or view(job).spec.requests
        ]

    def _leave_queue(self, job: int) -> None:
        place = self._places.pop(job, None)
        if place is not None:
            del self._queue[bisect_left(self._queue, place)]
            del self._shapes[job]

    def _note(self, job: int, view: JobView) -> None:
        spec = view.spec
        if job in self._places:
            asked = (spec.unit_amounts, spec.node_filters, spec.levels)
            sizes = (spec.least_size, view.greatest_size, spec.unit_cores, spec.spread)
            self._shapes[job] = (spec.unit, spec.exclusive, *sizes, spec.cap_uw, *asked)
        whole = spec.unit is SizeUnit.NODES and not (spec.requests or spec.reservation)
        if whole and not (spec.cap_uw or spec.levels or view.yields_to):
            self._odd.discard(job)
        else:
            self._odd.add(job)
