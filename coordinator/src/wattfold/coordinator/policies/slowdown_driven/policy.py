"""Slowdown-driven malleable backfill in the service: waiting jobs borrow cores of running jobs.

M. D'Amico, A. Jokanovic, J. Corbalan, ICPP 2019. A round, over named nodes and cores:

1. Free cores go to running jobs that have fewer cores than requested on their own nodes, the
   earliest started job first. So a mate gets its cores back when its guest ends, and a guest gets
   the cores of an owner that ends first (`slowdown_driven.runs`).
2. Waiting jobs are tried in order of priority and submission. Each is first tried as in EASY: it
   starts in full if this does not delay the head of the queue. Then, before the next job, it is
   tried next to mates (`slowdown_driven.round`). It starts there with fewer cores under three
   conditions: it is predicted to end earlier than by waiting, it ends inside its mates' own runs
   (``mate_end``), and no mate's predicted slowdown reaches ``max_slowdown``.

Mates are jobs that may lend and have all requested cores (`slowdown_driven.mates`). A job on whole
nodes runs on all nodes of its mates, with the same number of cores on each. `core_choice` chooses
the cores, so jobs keep to different sockets. The coordinator shrinks mates first and starts the new
job after its cores are confirmed to be free. A moldable job borrows and keeps its cores.

Predictions are users' estimates, stretched in proportion to the cores on the node with the fewest.
The start of a waiting job without mates follows from a map of reservations if all jobs take
identical whole nodes, as in `slowdown_driven.queue`. Otherwise it follows from the running jobs
alone, as if no other job waited. The real start is later, so some jobs wait although sharing would
help them. Only the order of the queue is kept between two rounds.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from wattfold.coordinator.core.model.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.driver.in_turn import InTurn
from wattfold.coordinator.policies.driver.rounds import planned
from wattfold.coordinator.policies.port import (
    Change,
    Decision,
    JobInformation,
    NamedJobs,
    Reason,
    Scheduled,
    Scheduler,
    Site,
)
from wattfold.coordinator.policies.slowdown_driven.lendings import (
    Lending,
    lendings,
    loan_statements,
    speed_statements,
)
from wattfold.coordinator.policies.slowdown_driven.round import Round
from wattfold.coordinator.policies.slowdown_driven.rules import SharingSettings
from wattfold.coordinator.policies.slowdown_driven.unshared_start import Shape

__all__ = ["NAME", "Lending", "SlowdownDriven", "SlowdownRounds"]

NAME = "slowdown-driven"


@dataclass(frozen=True, slots=True)
class SlowdownDriven(Scheduled):
    """The policy with its settings."""

    settings: SharingSettings = SharingSettings()  # noqa: RUF009 - immutable

    @property
    def name(self) -> str:
        """``slowdown-driven``."""
        return NAME

    @property
    def resizes(self) -> bool:
        """Return True: mates lend cores and get them back."""
        return True

    @property
    def size(self) -> str:
        """Return "max": jobs start in full, or on borrowed cores."""
        return "max"

    def fallback(self) -> Policy | None:
        """Start jobs in order; this code is independent of the policy."""
        return InTurn()

    def scheduler(self) -> Scheduler:
        """Return a scheduler with these settings."""
        return SlowdownRounds(self.settings)

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Keep running jobs, return lent cores, and start jobs in full or next to mates."""
        del deadline_s
        return planned(self, snapshot, now_ns)

    def lendings(self, seen: Snapshot) -> list[Lending]:
        """Return all current loans of running jobs, by lender and node."""
        settings = self.settings
        most = settings.limits.most_slowdown
        return lendings(seen, settings.guests, most, dynamic=settings.dynamic)

    def waiting_statements(self, seen: Snapshot, view: JobView) -> Sequence[str]:  # noqa: ARG002
        """Return nothing: the reason of a waiting job says everything."""
        return ()

    def running_statements(self, seen: Snapshot, view: JobView) -> Sequence[str]:
        """Return the loans of a running job, and its speed on fewer cores."""
        loans = loan_statements(self.lendings(seen), view, seen.now_ns)
        return (*loans, *speed_statements(view))


class SlowdownRounds(Scheduler):
    """A scheduler of this policy. It keeps the order of the queue and the last reported reasons."""

    each_event = True
    revisit_ns = 0
    solver_ns: Sequence[int] = ()
    name = NAME

    def __init__(self, rules: SharingSettings) -> None:
        self._rules = rules
        self._jobs: NamedJobs
        self._site: Site
        self._queue: list[tuple[float, int, int]] = []
        self._places: dict[int, tuple[float, int, int]] = {}
        self._shapes: dict[int, Shape] = {}
        self._running: dict[int, None] = {}
        self._odd: set[int] = set()
        """Jobs that prevent exact counting."""
        self._reasons: dict[int, Reason] = {}
        self._told: dict[int, Reason] = {}

    def attach(self, jobs: JobInformation) -> None:
        """Receive the jobs. Called once before all other methods."""
        self._jobs = cast("NamedJobs", jobs)

    def site(self, site: Site) -> None:
        """Set nodes and power from now on."""
        self._site = site

    def submit(self, job: int, now_ns: int) -> None:  # noqa: ARG002 - `JobInformation` has its time
        """A job enters the queue, or returns to it."""
        view = self._jobs.view(job)
        spec = view.spec
        place = self._places[job] = (-spec.priority, view.submitted_ns, job)
        insort(self._queue, place)
        self._note(job, view)

    def end(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """A job has ended, or no longer waits."""
        self._leave_queue(job)
        self._running.pop(job, None)
        self._odd.discard(job)
        self._told.pop(job, None)

    def change(self, job: int, now_ns: int) -> None:
        """A job has changed: its request, its estimate, its state or its nodes."""
        view = self._jobs.view(job)
        if view.current is None:
            self._running.pop(job, None)
            self._leave_queue(job)
            self.submit(job, now_ns)
            return
        self._leave_queue(job)
        self._running[job] = None
        self._note(job, view)

    def decide(self, now_ns: int) -> Decision:
        """Return starts, mates that lend, and jobs that get cores back."""
        turn = Round(self._rules, self._jobs, self._site, now_ns, counted=not self._odd)
        turn.decide(sorted(self._running), [job for *_, job in self._queue], self._shapes)
        given = turn.decided()
        self._reasons = {one.job: one for one in turn.reasons}
        for job in given:
            if job in self._places:
                self._leave_queue(job)
                self._running[job] = None
        return Decision([Change.assigned(job, one) for job, one in given.items()])

    def reasons(self, jobs: Iterable[int]) -> Iterable[Reason]:
        """Return the reasons of these jobs and of all jobs whose reason or start has changed."""
        told, self._told = self._told, self._reasons
        named = set(jobs)
        view = self._jobs.view
        return [
            one
            for job, one in self._reasons.items()
            # The driver reports missing memory and GPUs.
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
            sizes = (spec.min_size, view.max_size, spec.unit_cores, spec.spread)
            self._shapes[job] = (spec.unit, spec.exclusive, *sizes, spec.cap_uw, *asked)
        whole = spec.unit is SizeUnit.NODES and not (spec.requests or spec.reservation)
        if whole and not (spec.cap_uw or spec.levels or view.yields_to):
            self._odd.discard(job)
        else:
            self._odd.add(job)
