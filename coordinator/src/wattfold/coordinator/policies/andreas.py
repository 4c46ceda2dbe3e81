"""GPU training jobs by due dates and energy costs, pre-empted and moved as that pays.

F. Filippini et al.: ANDREAS, Artificial intelligence traiNing scheDuler foR accElerAted resource
clusterS. FiCloud 2021. At every submission and end, and every H, all training jobs are planned
anew (`training_problem`): which of them run until then, on which node, on how many of its GPUs, and
at which of their limits. The objective is the paper's, with its tardiness, worst-case tardiness of
those that are postponed and energy costs; the search is its randomised greedy and then ruin and
recreate (`solvers.training`).

Beyond the paper: prices that change, levels of GPUs under the power budget, what a pre-emption
loses, and other jobs, which run under EASY on what training jobs leave. Only jobs that may be
pre-empted are; nobody is in the round that started it.

The same at work without pre-emption are the paper's baselines: in order of due dates (`edf`), of
weights (`priority`) or of submission each job gets its preferred configuration that has room, and
keeps it; or, as more than they ask for, what costs it least with the time it would wait for it
(`solvers.training.listed`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.job import Assignment
from wattfold.coordinator.core.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.policies.easy import EasyScheduler, Queue
from wattfold.coordinator.policies.easy_search import Wish
from wattfold.coordinator.policies.requests import yielding
from wattfold.coordinator.policies.rounds import planned
from wattfold.coordinator.policies.scheduler import (
    FOR_NOBODY,
    Decision,
    Found,
    NamedJobs,
    NamedScheduler,
    Reason,
    Scheduled,
    Site,
)
from wattfold.coordinator.policies.training_ground import Configuration, Draws, Ground, trains
from wattfold.coordinator.policies.training_problem import (
    Costs,
    Posed,
    Trainee,
    pose,
    restart_s,
)
from wattfold.coordinator.policies.training_round import (
    AWAITED,
    OTHERS,
    Beside,
    Movers,
    Moves,
    decisions_of,
)
from wattfold.coordinator.solvers.training import planner
from wattfold.coordinator.solvers.training.listed import planned_ahead
from wattfold.coordinator.solvers.training.planner import Effort
from wattfold.coordinator.solvers.training.problem import Ints
from wattfold.coordinator.solvers.training.problem import Plan as Chosen

PRESSURE, DUE, WEIGHT, SUBMISSION = "pressure", "due", "weight", "submission"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRules:
    """How training jobs are planned. ``order`` but `PRESSURE`: one pass, nobody is pre-empted."""

    costs: Costs
    draws: Draws = Draws()  # noqa: RUF009 - immutable
    effort: Effort = Effort()  # noqa: RUF009
    order: str = PRESSURE
    waits: bool = False
    """Whether a job in another order may wait for what is better and free later."""
    interval_ns: int = 300 * NS_PER_S

    @property
    def preempts(self) -> bool:
        """Whether running jobs are planned anew."""
        return self.order == PRESSURE


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPolicy(Scheduled):
    """A policy of these rules; ``then`` is asked when it was late or crashed."""

    title: str
    rules: TrainingRules
    then: Policy | None = None

    @property
    def name(self) -> str:
        """That of the variant."""
        return self.title

    def fallback(self) -> Policy | None:
        """That without search."""
        return self.then

    def scheduler(self) -> NamedScheduler:
        """A scheduler with these settings."""
        return TrainingScheduler(self.title, self.rules)

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Plans training jobs anew, then all others beside them."""
        del deadline_s
        return planned(self, snapshot, now_ns)


class TrainingScheduler(EasyScheduler):
    """The policy at work. What it keeps is worked out anew where anything of it has changed."""

    each_event = False

    def __init__(self, title: str, rules: TrainingRules) -> None:
        super().__init__(kills_at_limit=False)
        self._title, self._rules = title, rules
        self._ground: Ground | None = None
        self._menus: dict[int, tuple[JobView, tuple[Configuration, ...]]] = {}
        self._given: dict[int, Assignment] = {}
        self._moves = Moves()
        self._told: list[Reason] = []
        self._found = Found()
        self._next_ns = 0

    @property
    def name(self) -> str:
        """That of the policy."""
        return self._title

    @property
    def revisit_ns(self) -> int:
        """H after the last decision, while there are training jobs."""
        return self._next_ns

    @property
    def found(self) -> Found:
        """How the last decision was found."""
        return self._found

    def site(self, site: Site) -> None:
        """Nodes and power from now on."""
        same = site.nodes is self._site.nodes or site.nodes == self._site.nodes
        if not same or site.reservations != self._site.reservations:
            self._ground = None
            self._menus.clear()
        super().site(site)

    def end(self, job: int, now_ns: int) -> None:
        """A job has ended, or waits no more."""
        self._menus.pop(job, None)
        super().end(job, now_ns)

    def assignment(self, job: int) -> Assignment:
        """What a job of the last decision gets."""
        return self._given[job]

    def preemptions(self) -> Sequence[tuple[int, int]]:
        """Training jobs that are to go on elsewhere or later, and whom EASY wants gone."""
        beside = self._search.preemptions if self._search is not None else ()
        return [*((job, FOR_NOBODY) for job in self._moves.preempted), *beside]

    def reasons(self, jobs: Iterable[int]) -> Iterable[Reason]:
        """Why all that wait do."""
        del jobs
        beside = self._search.reasons if self._search is not None else ()
        return [*self._told, *self._moves.reasons, *beside]

    def _counted(self, now_ns: int) -> Queue | None:  # noqa: ARG002
        """None: which nodes are free when is looked up node by node."""
        return None

    def _searched(self, now_ns: int) -> Sequence[Decision]:
        jobs, site, rules = cast("NamedJobs", self._jobs), self._site, self._rules
        if self._ground is None:
            self._ground = Ground(site.nodes, site.reservations, rules.draws)
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
        self._moves = self._planned(trainees, views, now_ns)
        told = {one.job for one in self._told} | {one.job for one in trainees}
        self._search = search = Beside(
            moves=self._moves,
            views=views,
            jobs=jobs,
            site=site,
            running=sorted(self._running),
            waiting=sorted(
                (job for job in views if job not in self._running and job not in told),
                key=lambda job: self._turn(job, views[job]),
            ),
            wish=Wish(size=self.size, cap_uw=None, backfill=True),
            now_ns=now_ns,
        )
        search.decide()
        self._given = self._moves.given | search.given
        self._running.update(self._given)
        again = bool(trainees) and rules.preempts
        self._next_ns = now_ns + rules.interval_ns if again else 0
        return decisions_of(self._given)

    def _menu(self, job: int, view: JobView) -> tuple[Configuration, ...]:
        """The configurations of a job, which are worked out once."""
        assert self._ground is not None
        known = self._menus.get(job)
        if known is not None:
            before = known[0]
            same = before.spec is view.spec or before.spec == view.spec
            if same and before.training == view.training:
                return known[1]
        menu = self._ground.menu(view)
        self._menus[job] = view, menu
        return menu

    def _plannable(self, view: JobView, menu: tuple[Configuration, ...]) -> bool:
        """Whether what a running job has is among what it could have."""
        assert self._ground is not None
        current = view.current
        if current is None or len(current.shares) != 1:
            return False
        node = self._ground.numbers.get(current.shares[0].node_id)
        if node is None:
            return False
        kind = self._ground.kind_of[node]
        return any(one.kind == kind and one.units == current.size for one in menu)

    def _moves_on(self, view: JobView, now_ns: int) -> bool:
        """Whether a running job may be pre-empted now; not in the instant of its start."""
        may = self._rules.preempts and view.preemptable and view.movable
        return may and 0 <= view.started_ns < now_ns

    def _planned(self, trainees: list[Trainee], views: dict[int, JobView], now_ns: int) -> Moves:
        if not trainees:
            self._found = Found()
            return Moves()
        assert self._ground is not None
        rules, known = self._rules, {one.job for one in trainees}
        running = [views[job] for job in sorted(self._running)]
        others = [views[job] for job in sorted(self._running) if job not in known]
        posed = pose(
            self._ground,
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
        self._found = Found(solver=plan.maker, outcome="feasible", objective=plan.objective)
        why = AWAITED if rules.waits else OTHERS
        return Movers(self._ground, self._site, running, posed, now_ns, why).carry_out(plan)

    def _listed(self, posed: Posed) -> Chosen:
        order = self._in_turn(posed)
        if self._rules.waits:
            return planned_ahead(posed.problem, order)
        return planner.planned(posed.problem, Effort(passes=1, attempts=0), order=order)

    def _in_turn(self, posed: Posed) -> Ints:
        """The training jobs as a baseline takes them, those that run first."""
        keys = [(not one.fixed, *self._turn(one.job, one.view)) for one in posed.trainees]
        return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)

    def _turn(self, job: int, view: JobView) -> tuple[float, ...]:
        """Order of the queue, of all jobs but those that `andreas` plans."""
        spec, order = view.spec, self._rules.order
        due_ns = spec.due_ns if spec.due_ns >= 0 else math.inf
        by = {DUE: (due_ns, -spec.weight), WEIGHT: (-spec.weight, due_ns), SUBMISSION: (0.0, 0.0)}
        return -spec.priority, *by.get(order, (due_ns, -spec.weight)), view.submitted_ns, job
