"""One round of `constraint`: the queue as a problem, the best plan of it, and what starts now.

Who may wait for a turn at all, and at which size, is as in `easy_search`. Only what starts now is
committed; everybody else is told when the plan has them start, which is a forecast and no promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.job import Assignment, SizeUnit
from wattfold.coordinator.policies.conservative_search import without_leaving
from wattfold.coordinator.policies.constraint_problem import (
    Builder,
    CountedGround,
    Ground,
    Rules,
    is_limited,
)
from wattfold.coordinator.policies.easy_search import Candidate, Search
from wattfold.coordinator.policies.pbs_search import Known
from wattfold.coordinator.policies.placement import Room, takes_whole_nodes
from wattfold.coordinator.policies.promises import LAG_NS, expected_end_ns
from wattfold.coordinator.policies.scheduler import Decision, Found, Reason
from wattfold.coordinator.solvers.lists.planner import SEARCHED, Effort, planned
from wattfold.coordinator.solvers.lists.problem import (
    NEVER,
    UNLIMITED_UW,
    Budget,
    Plan,
    Problem,
    Running,
    Weights,
)

PLANNED = "starts when there is room for it, by the present plan"
NOWHERE = "has no place in the present plan"


class ConstraintSearch(Search):
    """One round. ``ground`` are the nodes without what jobs on their way out hold.

    ``last`` are jobs in the order that the search of the last round found.
    """

    def __init__(
        self,
        *,
        ground: Ground,
        known: Known,
        rules: Rules,
        weights: Weights,
        effort: Effort,
        last: Sequence[int],
        **parts: Any,
    ) -> None:
        super().__init__(sizes=known.sizes, **parts)
        self._startable = known.startable
        self._last = last
        self.order: list[int] = []
        """What is the last order for the next round; empty where nothing was searched."""
        self._ground, self._rules, self._weights, self._effort = ground, rules, weights, effort
        # Jobs on their way out will be gone: who needs their nodes has a turn.
        self._empty = Room(ground.views, self._site.most_uw)
        self._reserved: dict[Any, str] = {}
        self.given: dict[int, Assignment] = {}
        """What jobs that start get."""
        self.found = Found()

    def decide(self) -> Sequence[Decision]:
        """The jobs that start, in the order of the queue."""
        queue = [one for one in self._waiting if self._may_start(one)]
        if not queue:
            return self._decisions
        self._ground = self._counted(queue) or self._ground
        limited = is_limited(self._ground, self._site.spendable_uw, [one.view for one in queue])
        budget_uw = self._site.spendable_uw + self._site.leaving_uw if limited else UNLIMITED_UW
        builder = Builder(self._ground, self._windows, self._rules, limited=limited)
        jobs = tuple(builder.job(one) for one in queue)
        problem = Problem(
            now_ns=self._now_ns,
            nodes=tuple(self._ground.nodes),
            shapes=builder.shapes,
            jobs=jobs,
            running=tuple(self._held()),
            closings=builder.closings,
            budgets=(Budget(0, budget_uw),),
            weights=self._weights,
        )
        numbers = {one.job: index for index, one in enumerate(queue)}
        last = [numbers[job] for job in self._last if job in numbers]
        plan = planned(problem, self._effort, last)
        if plan.maker in SEARCHED:
            self.order = [queue[index].job for index in plan.order]
        self.found = Found(solver=plan.maker, outcome="feasible", objective=plan.objective)
        for index, one in enumerate(queue):
            if plan.starts_ns[index] == self._now_ns:
                self._begin(one, index, plan, problem, builder)
            else:
                self._tell(one, plan.starts_ns[index])
        return self._decisions

    def _counted(self, queue: Sequence[Candidate]) -> Ground | None:
        """The nodes as a number, where that says all there is to say of them."""
        specs = [one.view.spec for one in queue] + [run.view.spec for run in self._running]
        if self._site.kind is None or any(
            spec.unit is not SizeUnit.NODES or spec.requests or spec.levels or not spec.alone
            for spec in specs
        ):
            return None
        return CountedGround(self._ground.views)

    def _held(self) -> list[Running]:
        """What runs, and what is still there of jobs on their way out."""
        ground, now_ns = self._ground, self._now_ns
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
        self, one: Candidate, index: int, plan: Plan, problem: Problem, builder: Builder
    ) -> None:
        """Starts a job on the nodes it has in the plan."""
        view, option = one.view, plan.options[index]
        level_uw = builder.levels[index][option]
        among = self._named(one, plan.nodes[index], builder.packed[index])
        room = self._room
        shares = room.find_fed(view.spec, one.size, level_uw, one.takes_ns, among)
        assert shares is not None, f"job {view.job_id} has no place on {among}"
        cap_uw = room.held_uw(shares, level_uw)
        power_uw = room.power_of(shares, cap_uw, view.spec.levels)
        room.take(shares, power_uw, takes_whole_nodes(view.spec))
        lasts_ns = problem.jobs[index].options[option].duration_ns
        if level_uw == one.cap_uw:
            lasts_ns = self._duration_ns(view, shares, one.size, one.cap_uw)
        self.given[one.job] = Assignment(
            job_id=view.job_id,
            size=one.size,
            cap_uw=cap_uw,
            shares=shares,
            expected_total_s=lasts_ns / 1e9,
            levels=view.spec.levels,
        )
        self._decisions.append((one.job, one.size, cap_uw))

    def _named(self, one: Candidate, nodes: Sequence[int], packed: int) -> tuple[NodeId, ...]:
        """The nodes of a job by name, of a job of units once for each of them."""
        if self._ground.counted:
            return ()
        names = [self._ground.names[node] for node in nodes]
        if one.view.spec.unit is not SizeUnit.UNITS:
            return tuple(names)
        return tuple(name for name in names for _ in range(packed))[: one.size]

    def _tell(self, one: Candidate, start_ns: int) -> None:
        text = self._kept_from(one)
        if start_ns == NEVER:
            self.reasons.append(Reason(one.job, text or NOWHERE))
        else:
            self.reasons.append(Reason(one.job, text or PLANNED, start_ns=start_ns))

    def _kept_from(self, one: Candidate) -> str:
        """Which reservation alone keeps it from a place now."""
        if not one.takes_ns:
            return ""
        if one.shape not in self._reserved:
            self._reserved[one.shape] = one.kept(self._room)
        return self._reserved[one.shape]


def standing_ground(nodes: Sequence[Any]) -> Ground:
    """The nodes with all that jobs on their way out will give back."""
    return Ground([without_leaving(node) for node in nodes])
