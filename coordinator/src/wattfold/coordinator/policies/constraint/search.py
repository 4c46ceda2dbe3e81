"""Search of one round of `constraint`: the queue as a problem, its best plan, and the starts.

The sizes of jobs and the conditions for considering a job are as in `easy_search`. Only starts that
happen now are committed. The planned starts of other jobs are forecasts and not promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill.candidates import Candidate
from wattfold.coordinator.policies.backfill.conservative_search import without_leaving
from wattfold.coordinator.policies.backfill.easy_search import EasySearch, SearchCache
from wattfold.coordinator.policies.backfill.promises import LAG_NS, expected_end_ns
from wattfold.coordinator.policies.constraint.problem import (
    Builder,
    CountedNodes,
    ProblemNodes,
    QueuedTask,
    full_level_uw,
)
from wattfold.coordinator.policies.constraint.settings import PlanSettings
from wattfold.coordinator.policies.port import NOTHING, Change, Decision, Reason, SolverResult
from wattfold.coordinator.policies.resources.room import Room, takes_whole_nodes
from wattfold.coordinator.solvers.lists.planner import SEARCHED, PlannerEffort, planned
from wattfold.coordinator.solvers.lists.problem import (
    NEVER,
    UNLIMITED_UW,
    Budget,
    ObjectiveWeights,
    QueueProblem,
    Running,
)

PLANNED = "has a later start in the current plan"
NOWHERE = "has no start in the current plan"


@dataclass(frozen=True, slots=True)
class ConstraintKnown(SearchCache):
    """Cached data of `SearchCache`, and the builders of problems."""

    builders: dict[tuple[bool, bool], Builder] = field(default_factory=dict)
    """Builders by two conditions: whether nodes are counted, and whether power is short."""


class ConstraintSearch(EasySearch):
    """The search of one round. ``problem_nodes`` holds the nodes without ending jobs.

    ``last`` lists jobs in the order that the search of the last round found.
    """

    def __init__(
        self,
        *,
        problem_nodes: ProblemNodes,
        known: ConstraintKnown,
        policy_settings: PlanSettings,
        weights: ObjectiveWeights,
        effort: PlannerEffort,
        last: Sequence[int],
        **parts: Any,
    ) -> None:
        self._problem_nodes, self._policy_settings = problem_nodes, policy_settings
        self._weights, self._effort = weights, effort
        site = parts["site"]
        spendable_uw = (site.spendable_uw, *(power_uw for _, power_uw in site.ahead))
        self._short = min(spendable_uw) < problem_nodes.full_uw
        super().__init__(known=known, **parts)
        self._builders = known.builders
        self._last = last
        self.order: list[int] = []
        """Value of ``last`` for the next round; empty without a search."""
        self._reserved: dict[Any, str] = {}

    @cached_property
    def _empty(self) -> Room:
        """The empty site, where ending jobs have ended, so jobs that need their nodes may wait."""
        return Room(self._problem_nodes.views, self._site.most_uw)

    def decide(self) -> Decision:
        """Return the starting jobs, in queue order."""
        queue = [one for one in self._waiting if self._may_start(one)]
        if not queue:
            return NOTHING
        limited = self._short or any(one.view.spec.levels for one in queue)
        builder = self._builder(counted=self._counted(queue), limited=limited)
        self._problem_nodes = builder.ground
        entries = builder.entries(queue)
        problem = QueueProblem(
            now_ns=self._now_ns,
            nodes=tuple(self._problem_nodes.nodes),
            shapes=builder.shapes,
            jobs=tuple(entry.job for entry in entries),
            running=tuple(self._held()),
            closings=builder.closings,
            budgets=self._budgets() if limited else (Budget(0, UNLIMITED_UW),),
            weights=self._weights,
        )
        numbers = {one.job: index for index, one in enumerate(queue)}
        last = [numbers[job] for job in self._last if job in numbers]
        plan = planned(problem, self._effort, last)
        if plan.maker in SEARCHED:
            self.order = [queue[index].job for index in plan.order]
        found = SolverResult(solver=plan.maker, outcome="feasible", objective=plan.objective)
        for index, one in enumerate(queue):
            if plan.starts_ns[index] == self._now_ns:
                self._begin(one, entries[index], plan.options[index], plan.nodes[index])
            else:
                self._tell(one, plan.starts_ns[index])
        return Decision(self._changes, found=found)

    def _level_uw(self, view: JobView) -> int:
        """Return the level of a job; if power is short, the lowest level at full speed."""
        most_uw = super()._level_uw(view)
        if view.spec.cap_uw or not self._short:
            return most_uw
        return full_level_uw(
            view, most_uw, self._problem_nodes.kinds, self._policy_settings.power_margin
        )

    def _budgets(self) -> tuple[Budget, ...]:
        """Return the power for jobs from now on, ending jobs included."""
        site = self._site
        steps = ((0, site.spendable_uw), *site.ahead)
        return tuple(Budget(from_ns, power_uw + site.leaving_uw) for from_ns, power_uw in steps)

    def _builder(self, *, counted: bool, limited: bool) -> Builder:
        """Return the builder of the problem, from earlier rounds on the same site if possible."""
        if (counted, limited) not in self._builders:
            ground = CountedNodes(self._problem_nodes.views) if counted else self._problem_nodes
            made = Builder(ground, self._windows, self._policy_settings, limited=limited)
            self._builders[counted, limited] = made
        return self._builders[counted, limited]

    def _counted(self, queue: Sequence[Candidate]) -> bool:
        """Return whether it suffices to count the nodes."""
        specs = [one.view.spec for one in queue] + [run.view.spec for run in self._running]
        return self._site.kind is not None and all(
            spec.unit is SizeUnit.NODES and spec.alone and not (spec.requests or spec.levels)
            for spec in specs
        )

    def _held(self) -> list[Running]:
        """Return the running jobs and the remaining resources of ending jobs."""
        ground, now_ns = self._problem_nodes, self._now_ns
        held = [
            Running(
                ground.parts(run.shares, run.alone),
                run.power_uw,
                expected_end_ns(run.due_ns, now_ns, LAG_NS),
            )
            for run in self._running
        ]
        leaving = [share for node in self._site.nodes for share in node.leaving]
        if leaving or self._site.leaving_uw:
            parts = ground.parts(leaving, alone=False)
            held.append(Running(parts, self._site.leaving_uw, now_ns + LAG_NS))
        return held

    def _begin(
        self, candidate: Candidate, entry: QueuedTask, option: int, nodes: Sequence[int]
    ) -> None:
        """Start a job at its level and on its nodes in the plan."""
        view, level_uw = candidate.view, entry.levels[option]
        among = self._named(candidate, nodes, entry.packed)
        room = self._room
        shares = room.find_fed(view.spec, candidate.size, level_uw, candidate.takes_ns, among)
        assert shares is not None, f"job {view.job_id} does not fit on {among}"
        cap_uw = room.held_uw(shares, level_uw)
        power_uw = room.power_of(shares, cap_uw, view.spec.levels)
        room.take(shares, power_uw, takes_whole_nodes(view.spec))
        lasts_ns = entry.job.options[option].duration_ns
        if level_uw == candidate.cap_uw:
            lasts_ns = self._duration_ns(view, shares, candidate.size, candidate.cap_uw)
        given = Assignment(
            job_id=view.job_id,
            size=candidate.size,
            cap_uw=cap_uw,
            shares=shares,
            expected_total_s=lasts_ns / 1e9,
            levels=view.spec.levels,
        )
        self._changes.append(Change.assigned(candidate.job, given))

    def _named(self, candidate: Candidate, nodes: Sequence[int], packed: int) -> tuple[NodeId, ...]:
        """Return the names of the nodes of a job; for a job of units, one name per unit."""
        if self._problem_nodes.counted:
            return ()
        names = [self._problem_nodes.names[node] for node in nodes]
        if candidate.view.spec.unit is not SizeUnit.UNITS:
            return tuple(names)
        return tuple(name for name in names for _ in range(packed))[: candidate.size]

    def _tell(self, candidate: Candidate, start_ns: int) -> None:
        text = self._kept_from(candidate)
        if start_ns == NEVER:
            self.reasons.append(Reason(candidate.job, text or NOWHERE))
        else:
            self.reasons.append(
                Reason(candidate.job, text or PLANNED, start_ns=start_ns, chosen=True)
            )

    def _kept_from(self, candidate: Candidate) -> str:
        """Return which reservation alone withholds nodes from a job now; else ""."""
        if not candidate.takes_ns:
            return ""
        if candidate.shape not in self._reserved:
            self._reserved[candidate.shape] = candidate.kept(self._room)
        return self._reserved[candidate.shape]


def standing_ground(nodes: Sequence[Any]) -> ProblemNodes:
    """Return the nodes with all resources that ending jobs will release."""
    return ProblemNodes([without_leaving(node) for node in nodes])
