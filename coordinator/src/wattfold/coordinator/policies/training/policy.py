"""GPU training jobs planned by due date and energy cost, with preemption and migration.

F. Filippini et al.: ANDREAS, Artificial intelligence traiNing scheDuler foR accElerAted resource
clusterS. FiCloud 2021. At every submission and end, and every H, all training jobs are planned
again (`training.problem`). The plan selects the jobs that run, and for each the node, the number of
GPUs and their limit. The objective is the paper's: tardiness, worst-case tardiness of postponed
jobs, and energy costs. The search is its randomised greedy method, followed by ruin and recreate
(`solvers.training`).

Beyond the paper: variable prices, GPU limits under the power budget, the cost of a preemption, and
other jobs, which run under EASY on the remaining resources. Only preemptable jobs are preempted,
and no job in the round of its start.

Without preemption the same scheduler gives the paper's baselines. In order of due dates (`edf`), of
weights (`priority`) or of submission, each job gets its preferred configuration that fits, and
keeps it. As an extension, a job may instead get the configuration with the lowest cost, including
the wait for it (`solvers.training.listed`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.model.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.policies.backfill.easy import EasyScheduler, Queue
from wattfold.coordinator.policies.backfill.easy_search import EasySettings
from wattfold.coordinator.policies.driver.in_turn import InTurn
from wattfold.coordinator.policies.driver.rounds import planned
from wattfold.coordinator.policies.port import (
    FOR_NOBODY,
    Change,
    Decision,
    NamedJobs,
    Reason,
    Scheduled,
    Scheduler,
    Site,
    SolverResult,
)
from wattfold.coordinator.policies.resources.requests import yielding
from wattfold.coordinator.policies.training.gpu_nodes import (
    Configuration,
    Draws,
    GpuNodes,
    times_of,
    trains,
)
from wattfold.coordinator.policies.training.problem import (
    Costs,
    Posed,
    Trainee,
    pose,
    restart_s,
)
from wattfold.coordinator.policies.training.round import (
    AWAITED,
    OTHERS,
    Movers,
    OtherJobs,
    TrainingActions,
)
from wattfold.coordinator.solvers.training import planner
from wattfold.coordinator.solvers.training.listed import planned_ahead
from wattfold.coordinator.solvers.training.planner import TrainingEffort
from wattfold.coordinator.solvers.training.problem import Ints, TrainingPlan

PRESSURE, DUE, WEIGHT, SUBMISSION = "pressure", "due", "weight", "submission"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRules:
    """Rules for planning training jobs.

    An ``order`` other than `PRESSURE` plans in a single pass, without preemption.
    """

    costs: Costs
    draws: Draws = Draws()  # noqa: RUF009 - immutable
    effort: TrainingEffort = TrainingEffort()  # noqa: RUF009
    order: str = PRESSURE
    waits: bool = False
    """Whether a job in another order may wait for a better configuration that is free later."""
    interval_ns: int = 300 * NS_PER_S

    @property
    def preempts(self) -> bool:
        """Whether running jobs are planned again."""
        return self.order == PRESSURE


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPolicy(Scheduled):
    """A policy with these rules; ``then`` plans the round if this policy is late or fails."""

    title: str
    rules: TrainingRules
    then: Policy = InTurn()  # noqa: RUF009 - immutable

    @property
    def name(self) -> str:
        """Name of the variant."""
        return self.title

    def fallback(self) -> Policy | None:
        """Return the policy without search if this one searches, or else `InTurn`."""
        return self.then

    def scheduler(self) -> Scheduler:
        """Return a scheduler with these settings."""
        return TrainingScheduler(self.title, self.rules)

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Plan training jobs again, then all others on the remaining resources."""
        del deadline_s
        return planned(self, snapshot, now_ns)


class TrainingScheduler(EasyScheduler):
    """A scheduler of this policy. Cached data are recomputed when their inputs change."""

    each_event = False

    def __init__(self, title: str, rules: TrainingRules) -> None:
        super().__init__(kills_at_limit=False)
        self._title, self._rules = title, rules
        self._gpu_nodes: GpuNodes | None = None
        self._menus: dict[int, tuple[JobView, tuple[Configuration, ...]]] = {}
        self._moves = TrainingActions()
        self._told: list[Reason] = []
        self._next_ns = 0

    @property
    def name(self) -> str:
        """Name of the policy."""
        return self._title

    @property
    def revisit_ns(self) -> int:
        """H after the last decision, while there are training jobs."""
        return self._next_ns

    def site(self, site: Site) -> None:
        """Set nodes and power from now on."""
        same = site.nodes is self._site.nodes or site.nodes == self._site.nodes
        if not same or site.reservations != self._site.reservations:
            self._gpu_nodes = None
            self._menus.clear()
        super().site(site)

    def end(self, job: int, now_ns: int) -> None:
        """A job has ended, or no longer waits."""
        self._menus.pop(job, None)
        super().end(job, now_ns)

    def reasons(self, jobs: Iterable[int]) -> Iterable[Reason]:
        """Return the reasons of all waiting jobs."""
        del jobs
        beside = self._search.reasons if self._search is not None else ()
        return [*self._told, *self._moves.reasons, *beside]

    def _counted(self, now_ns: int) -> Queue | None:  # noqa: ARG002
        """Return None, because the policy searches node by node."""
        return None

    def _searched(self, now_ns: int) -> Decision:
        jobs, site, rules = cast("NamedJobs", self._jobs), self._site, self._rules
        if self._gpu_nodes is None:
            self._gpu_nodes = GpuNodes(site.nodes, site.reservations, rules.draws)
        views = {job: jobs.view(job) for job in self._asks}
        waits = {view.job_id for view in views.values() if view.current is None}
        self._told = []
        trainees: list[Trainee] = []
        for job, view in views.items():
            menu = self._menu(job, view) if trains(view) else ()
            if not menu or (job in self._running and not self._plannable(view, menu)):
                continue
            if view.yields_to in waits and view.current is None:
                self._told.append(Reason(job, yielding(view)))
                continue
            fixed = view.current is not None and not self._moves_on(view, now_ns)
            trainees.append(
                Trainee(
                    job=job,
                    view=view,
                    menu=menu,
                    fixed=fixed,
                    restart_s=restart_s(view, rules.costs),
                )
            )
        self._moves, found = self._planned(trainees, views, now_ns)
        told = {one.job for one in self._told} | {one.job for one in trainees}
        self._search = search = OtherJobs(
            moves=self._moves,
            views=views,
            jobs=jobs,
            site=site,
            running=sorted(self._running),
            waiting=sorted(
                (job for job in views if job not in self._running and job not in told),
                key=lambda job: self._turn(job, views[job]),
            ),
            settings=EasySettings(size=self.size, cap_uw=None, backfill=True),
            now_ns=now_ns,
        )
        beside = search.decide()
        given = self._moves.given | search.given
        self._running.update(given)
        again = bool(trainees) and rules.preempts
        self._next_ns = now_ns + rules.interval_ns if again else 0
        # Training jobs that are preempted will resume elsewhere or later.
        moved = [(job, FOR_NOBODY) for job in self._moves.preempted]
        changes = [Change.assigned(job, one) for job, one in given.items()]
        return Decision(changes, [*moved, *beside.preemptions], found)

    def _menu(self, job: int, view: JobView) -> tuple[Configuration, ...]:
        """Return the configurations of a job, which are cached."""
        assert self._gpu_nodes is not None
        known = self._menus.get(job)
        if known is not None:
            before = known[0]
            same = before.spec is view.spec or before.spec == view.spec
            if same and times_of(before) == times_of(view):
                return known[1]
        menu = self._gpu_nodes.menu(view)
        self._menus[job] = view, menu
        return menu

    def _plannable(self, view: JobView, menu: tuple[Configuration, ...]) -> bool:
        """Return whether the resources of a running job are among its configurations."""
        assert self._gpu_nodes is not None
        current = view.current
        if current is None or len(current.shares) != 1:
            return False
        node = self._gpu_nodes.numbers.get(current.shares[0].node_id)
        if node is None:
            return False
        kind = self._gpu_nodes.kind_of[node]
        return any(one.kind == kind and one.units == current.size for one in menu)

    def _moves_on(self, view: JobView, now_ns: int) -> bool:
        """Return whether a running job may be preempted now; not at the instant of its start."""
        may = self._rules.preempts and view.preemptable and view.movable
        return may and 0 <= view.started_ns < now_ns

    def _planned(
        self, trainees: list[Trainee], views: dict[int, JobView], now_ns: int
    ) -> tuple[TrainingActions, SolverResult]:
        if not trainees:
            return TrainingActions(), SolverResult()
        assert self._gpu_nodes is not None
        rules, known = self._rules, {one.job for one in trainees}
        running = [views[job] for job in sorted(self._running)]
        others = [views[job] for job in sorted(self._running) if job not in known]
        posed = pose(
            self._gpu_nodes,
            self._site,
            trainees,
            others,
            rules.costs,
            now_ns,
            self._site.origin_s + now_ns / NS_PER_S,
        )
        if rules.preempts:
            plan = planner.planned(posed.problem, rules.effort)
        else:
            plan = self._listed(posed)
        found = SolverResult(solver=plan.maker, outcome="feasible", objective=plan.objective)
        why = AWAITED if rules.waits else OTHERS
        movers = Movers(self._gpu_nodes, self._site, running, posed, now_ns, why)
        return movers.carry_out(plan), found

    def _listed(self, posed: Posed) -> TrainingPlan:
        order = self._in_turn(posed)
        if self._rules.waits:
            return planned_ahead(posed.problem, order)
        return planner.planned(posed.problem, TrainingEffort(passes=1, attempts=0), order=order)

    def _in_turn(self, posed: Posed) -> Ints:
        """Return the training jobs in the order of a baseline, fixed running jobs first."""
        keys = [(not one.fixed, *self._turn(one.job, one.view)) for one in posed.trainees]
        return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)

    def _turn(self, job: int, view: JobView) -> tuple[float, ...]:
        """Return the sort key of the queue, for all jobs that `andreas` does not plan."""
        spec, order = view.spec, self._rules.order
        due_ns = spec.due_ns if spec.due_ns >= 0 else math.inf
        by = {DUE: (due_ns, -spec.weight), WEIGHT: (-spec.weight, due_ns), SUBMISSION: (0.0, 0.0)}
        return -spec.priority, *by.get(order, (due_ns, -spec.weight)), view.submitted_ns, job
