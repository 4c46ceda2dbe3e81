"""Planning of all starts: list schedules of the whole queue, with a search for the best order.

After T. Bridi, M. Lombardi, A. Bartolini, L. Benini, M. Milano, who solve a constraint model of
jobs of units, nodes with several resources, and queues with expected waits. Their objective is the
sum of waits, each divided by the expected wait of the queue. This policy minimises it with lists
(`solvers.lists`). It compares complete plans: the weighted shortest area first, PBS's orders
simulated forward, and the results of a search among orders from the best of them. So no decision
follows a plan that is worse than the plan of a plain rule. Over a whole run the policy is not
always better, because run times differ from requested times.

Lateness beyond the limits of queues counts in addition to the waits. If power is short, jobs may be
planned at lower and slower caps if this lets them start and improves the plan.

The order of the last search is kept between rounds and is compared as well. A new scheduler starts
without it and may decide differently. Without a search no state is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from wattfold.coordinator.core.model.plan import Plan, Policy, Snapshot
from wattfold.coordinator.policies.backfill.easy_search import EasySettings
from wattfold.coordinator.policies.constraint.problem import ProblemNodes
from wattfold.coordinator.policies.constraint.search import (
    ConstraintKnown,
    ConstraintSearch,
    standing_ground,
)
from wattfold.coordinator.policies.constraint.settings import ListSettings, PlanSettings
from wattfold.coordinator.policies.driver.rounds import planned
from wattfold.coordinator.policies.fifo.pbs import Pbs, PbsSettings
from wattfold.coordinator.policies.port import (
    Decision,
    JobInformation,
    NamedJobs,
    Reason,
    Scheduled,
    Scheduler,
    Site,
)
from wattfold.coordinator.solvers.lists.planner import PlannerEffort
from wattfold.coordinator.solvers.lists.problem import ObjectiveWeights


class ConstraintScheduler(Scheduler):
    """A scheduler of this policy."""

    each_event = False
    revisit_ns = 0
    solver_ns: Sequence[int] = ()

    def __init__(self, policy: Constraint) -> None:
        self._policy, self.patience = policy, policy.settings.patience
        self._jobs: NamedJobs
        self._site: Site
        self._problem_nodes: ProblemNodes | None = None
        self._known = ConstraintKnown()
        self._waiting: dict[int, tuple[float, int, int]] = {}
        """Waiting jobs and their sort keys in the queue."""
        self._running: dict[int, None] = {}
        self._order: Sequence[int] = ()
        """Jobs in the order of the last plan if a search found it. It is kept between rounds."""
        self._reasons: dict[int, Reason] = {}
        self._told: dict[int, Reason] = {}

    @property
    def name(self) -> str:
        """Name of the variant."""
        return self._policy.name

    def attach(self, jobs: JobInformation) -> None:
        """Receive the jobs. Called once before all other methods."""
        self._jobs = cast("NamedJobs", jobs)

    def site(self, site: Site) -> None:
        """Set nodes and power from now on."""
        others = self._problem_nodes is None or site.nodes != self._site.nodes
        if others:
            self._problem_nodes = standing_ground(site.nodes)
        if others or site != self._site:
            self._known = ConstraintKnown()
        self._site = site

    def submit(self, job: int, now_ns: int) -> None:  # noqa: ARG002 - `JobInformation` has its time
        """A job enters the queue, or returns to it."""
        view = self._jobs.view(job)
        self._running.pop(job, None)
        self._waiting[job] = (-view.spec.priority, view.submitted_ns, job)

    def end(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """A job has ended, or no longer waits."""
        self._running.pop(job, None)
        self._waiting.pop(job, None)
        self._told.pop(job, None)

    def change(self, job: int, now_ns: int) -> None:
        """A job has changed: its estimate, its state or its nodes."""
        if self._jobs.view(job).current is None:
            self.submit(job, now_ns)
            return
        self._waiting.pop(job, None)
        self._running[job] = None

    def decide(self, now_ns: int) -> Decision:
        """Return the jobs that start."""
        assert self._problem_nodes is not None, "site() comes before the first decision"
        if self._known.full:
            self._known = ConstraintKnown()
        search = ConstraintSearch(
            problem_nodes=self._problem_nodes,
            known=self._known,
            policy_settings=self._policy.settings,
            weights=self._policy.weights,
            effort=self._policy.effort,
            last=self._order,
            jobs=self._jobs,
            site=self._site,
            running=sorted(self._running),
            waiting=sorted(self._waiting, key=self._waiting.__getitem__),
            settings=EasySettings(size=self._policy.size, cap_uw=None, backfill=True),
            now_ns=now_ns,
        )
        decision = search.decide()
        self._order = search.order
        self._reasons = {one.job: one for one in search.reasons}
        for change in decision.changes:
            del self._waiting[change.job]
            self._running[change.job] = None
        return decision

    def reasons(self, jobs: Iterable[int]) -> Iterable[Reason]:
        """Return the reasons of these jobs and of all jobs whose reason or start has changed."""
        told, self._told = self._told, self._reasons
        named = set(jobs)
        return [
            one
            for job, one in self._told.items()
            # The driver reports missing memory and GPUs.
            if job in named or told.get(job) != one or self._jobs.view(job).spec.requests
        ]


@dataclass(frozen=True, slots=True)
class Constraint(Scheduled):
    """The policy: settings of sizes, caps and times, the objective, and the effort of a search."""

    settings: PlanSettings = ListSettings()  # noqa: RUF009 - immutable
    name: str = "constraint"
    weights: ObjectiveWeights = ObjectiveWeights()  # noqa: RUF009
    effort: PlannerEffort = PlannerEffort()  # noqa: RUF009

    @property
    def size(self) -> str:
        """The end of the size range that a job gets."""
        return self.settings.size

    @property
    def chooses_caps(self) -> bool:
        """Return True: it plans with some lower caps if power is short."""
        return True

    def fallback(self) -> Policy | None:
        """Return lists without the search, which takes most of the time; then PBS's plain rules."""
        settings = self.settings
        plain = replace(self.effort, evaluations=0, improver=None)
        return (
            replace(self, effort=plain)
            if self.effort != plain
            else Pbs(PbsSettings(size=self.size, patience=settings.patience), order="walltime")
        )

    def scheduler(self) -> Scheduler:
        """Return a scheduler with these settings."""
        return ConstraintScheduler(self)

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Keep running jobs and start the jobs that the best plan starts now."""
        del deadline_s
        return planned(self, snapshot, now_ns)
