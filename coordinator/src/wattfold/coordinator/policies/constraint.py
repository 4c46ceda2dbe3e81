"""Planning every start: list schedules of the whole queue, searched for the best order.

After T. Bridi, M. Lombardi, A. Bartolini, L. Benini, M. Milano, whose model a constraint solver
solves: jobs of units, nodes with several resources, queues that promise a wait. What they minimise,
the waits in units of what each queue expects, is minimised here with lists (`solvers.lists`):
the plan of the weighted shortest area first, those of PBS's rules rolled forward, and what a
search among orders finds from the best of them, all judged as whole plans. So no decision follows a
plan that is worse than that of a plain rule. Over a whole run that does not make it better in every
case, as run times are not what was asked for.

Lateness beyond what queues allow counts beside the waits. Where power is short jobs may be planned
at lower caps, at which they take longer, if that lets them start and makes the plan better.

Kept between two rounds is the order that the last search has found, which is compared as well: one
made anew begins without it, and may decide otherwise. Without search nothing is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from wattfold.coordinator.core.job import Assignment
from wattfold.coordinator.core.plan import Plan, Policy, Snapshot
from wattfold.coordinator.policies.constraint_problem import Ground, Rules
from wattfold.coordinator.policies.constraint_search import (
    ConstraintKnown,
    ConstraintSearch,
    standing_ground,
)
from wattfold.coordinator.policies.easy_search import Wish
from wattfold.coordinator.policies.pbs import Pbs
from wattfold.coordinator.policies.rounds import planned
from wattfold.coordinator.policies.scheduler import (
    AssigningScheduler,
    Decision,
    Found,
    Jobs,
    NamedJobs,
    NamedScheduler,
    Reason,
    Scheduled,
    Site,
)
from wattfold.coordinator.solvers.lists.planner import Effort
from wattfold.coordinator.solvers.lists.problem import Weights


class ConstraintScheduler(AssigningScheduler):
    """The policy at work."""

    each_event = False
    revisit_ns = 0
    solver_ns: Sequence[int] = ()

    def __init__(
        self, *, name: str, size: str, rules: Rules, weights: Weights, effort: Effort
    ) -> None:
        self._name = name
        self._size, self._rules, self._weights, self._effort = size, rules, weights, effort
        self._jobs: NamedJobs
        self._site: Site
        self._ground: Ground | None = None
        self._known = ConstraintKnown()
        self._waiting: dict[int, tuple[float, int, int]] = {}
        """Jobs that wait, and their places in the queue."""
        self._running: dict[int, None] = {}
        self._given: dict[int, Assignment] = {}
        self._found = Found()
        self._order: Sequence[int] = ()
        """Jobs in the order of the last plan, if a search has found it. Memory: see the module."""
        self._reasons: dict[int, Reason] = {}
        self._told: dict[int, Reason] = {}

    @property
    def name(self) -> str:
        """Of the variant."""
        return self._name

    @property
    def found(self) -> Found:
        """How the last decision was found."""
        return self._found

    def attach(self, jobs: Jobs) -> None:
        """Called once before anything else."""
        self._jobs = cast("NamedJobs", jobs)

    def site(self, site: Site) -> None:
        """Nodes and power from now on."""
        others = self._ground is None or site.nodes != self._site.nodes
        if others:
            self._ground = standing_ground(site.nodes)
        if others or site != self._site:
            self._known = ConstraintKnown()
        self._site = site

    def submit(self, job: int, now_ns: int) -> None:  # noqa: ARG002 - `Jobs` has its time
        """A job enters the queue, or comes back to it."""
        view = self._jobs.view(job)
        self._running.pop(job, None)
        self._waiting[job] = (-view.spec.priority, view.submitted_ns, job)

    def end(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """A job has ended, or waits no more."""
        self._running.pop(job, None)
        self._waiting.pop(job, None)
        self._told.pop(job, None)

    def change(self, job: int, now_ns: int) -> None:
        """A job is other than it was: its estimate, or that it runs and where."""
        if self._jobs.view(job).current is None:
            self.submit(job, now_ns)
            return
        self._waiting.pop(job, None)
        self._running[job] = None

    def decide(self, now_ns: int) -> Sequence[Decision]:
        """The jobs that start."""
        assert self._ground is not None, "site() comes before the first decision"
        if self._known.full:
            self._known = ConstraintKnown()
        search = ConstraintSearch(
            ground=self._ground,
            known=self._known,
            rules=self._rules,
            weights=self._weights,
            effort=self._effort,
            last=self._order,
            jobs=self._jobs,
            site=self._site,
            running=sorted(self._running),
            waiting=sorted(self._waiting, key=self._waiting.__getitem__),
            wish=Wish(size=self._size, cap_uw=None, backfill=True),
            now_ns=now_ns,
        )
        decisions = search.decide()
        self._given, self._found, self._order = search.given, search.found, search.order
        self._reasons = {one.job: one for one in search.reasons}
        for job, *_ in decisions:
            del self._waiting[job]
            self._running[job] = None
        return decisions

    def assignment(self, job: int) -> Assignment:
        """What a job of the last decision gets."""
        return self._given[job]

    def reasons(self, jobs: Iterable[int]) -> Iterable[Reason]:
        """Why these jobs wait and all whose reason or start is another since the last call."""
        told, self._told = self._told, self._reasons
        named = set(jobs)
        return [
            one
            for job, one in self._told.items()
            # Of memory and GPUs it lacks the driver tells.
            if job in named or told.get(job) != one or self._jobs.view(job).spec.requests
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint(Scheduled):
    """Settings as `described.constraint` tells them."""

    name: str = "constraint"
    size: str = "max"
    rules: Rules = Rules()  # noqa: RUF009 - immutable
    weights: Weights = Weights()  # noqa: RUF009
    effort: Effort = Effort()  # noqa: RUF009

    def fallback(self) -> Policy | None:
        """Lists without search, which takes most of the time; then the plain rules, PBS's."""
        plain = replace(self.effort, evaluations=0, improver=None)
        return (
            replace(self, effort=plain)
            if self.effort != plain
            else Pbs(order="walltime", size=self.size)
        )

    def scheduler(self) -> NamedScheduler:
        """A scheduler with these settings."""
        return ConstraintScheduler(
            name=self.name,
            size=self.size,
            rules=self.rules,
            weights=self.weights,
            effort=self.effort,
        )

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Keeps what runs, starts what the best plan has start now."""
        del deadline_s
        return planned(self, snapshot, now_ns)
