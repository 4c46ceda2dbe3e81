"""One round of `constraint`: the queue as a problem, the best plan of it, and what starts now.

Who may wait for a turn at all, and at which size, is as in `easy_search`. Only what starts now is
committed; everybody else is told when the plan has them start, which is a forecast and no promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.job import Assignment, SizeUnit
from wattfold.coordinator.core.plan import JobView
from wattfold.coordinator.policies.conservative_search import without_leaving
from wattfold.coordinator.policies.constraint_problem import (
    Builder,
    CountedGround,
    Entry,
    Ground,
    Rules,
    full_level_uw,
)
from wattfold.coordinator.policies.easy_search import Candidate, Known, Search
from wattfold.coordinator.policies.placement import Room, takes_whole_nodes
from wattfold.coordinator.policies.promises import LAG_NS, expected_end_ns
from wattfold.coordinator.policies.scheduler import Decision, Found, Reason
from wattfold.coordinator.solvers.lists.planner import SEARCHED, Effort, planned
from wattfold.coordinator.solvers.lists.problem import (
    NEVER,
    UNLIMITED_UW,
    Budget,
    Problem,
    Running,
    Weights,
)

PLANNED = "has a later start in the current plan"
NOWHERE = "has no start in the current plan"


@dataclass(frozen=True, slots=True)
class ConstraintKnown(Known):
    """What is known beside: who builds problems."""

    builders: dict[tuple[bool, bool], Builder] = field(default_factory=dict)
    """By whether nodes are counted, and whether power is short."""


class ConstraintSearch(Search):
    """One round. ``ground`` are the nodes without what jobs on their way out hold.

    ``last`` are jobs in the order that the search of the last round found.
    """

    def __init__(
        self,
        *,
        ground: Ground,
        known: ConstraintKnown,
        rules: Rules,
        weights: Weights,
        effort: Effort,
        last: Sequence[int],
        **parts: Any,
    ) -> None:
        self._ground, self._rules, self._weights, self._effort = ground, rules, weights, effort
        site = parts["site"]
        spendable_uw = (site.spendable_uw, *(power_uw for _, power_uw in site.ahead))
        self._short = min(spendable_uw) < ground.full_uw
        super().__init__(known=known, **parts)
        self._builders = known.builders
        self._last = last
        self.order: list[int] = []
        """What is the last order for the next round; empty where nothing was searched."""
        self._reserved: dict[Any, str] = {}
        self.given: dict[int, Assignment] = {}
        """What jobs that start get."""
        self.found = Found()

    @cached_property
    def _empty(self) -> Room:
        """Jobs on their way out will be gone: who needs their nodes has a turn."""
        return Room(self._ground.views, self._site.most_uw)

    def decide(self) -> Sequence[Decision]:
        """The jobs that start, in the order of the queue."""
        queue = [one for one in self._waiting if self._may_start(one)]
        if not queue:
            return self._decisions
        limited = self._short or any(one.view.spec.levels for one in queue)
        builder = self._builder(counted=self._counted(queue), limited=limited)
        self._ground = builder.ground
        entries = builder.entries(queue)
        problem = Problem(
            now_ns=self._now_ns,
            nodes=tuple(self._ground.nodes),
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
        self.found = Found(solver=plan.maker, outcome="feasible", objective=plan.objective)
        for index, one in enumerate(queue):
            if plan.starts_ns[index] == self._now_ns:
                self._begin(one, entries[index], plan.options[index], plan.nodes[index])
            else:
                self._tell(one, plan.starts_ns[index])
        return self._decisions

    def _level_uw(self, view: JobView) -> int:
        """Where power is short, no more than it needs."""
        most_uw = super()._level_uw(view)
        if view.spec.cap_uw or not self._short:
            return most_uw
        return full_level_uw(view, most_uw, self._ground.kinds, self._rules.power_margin)

    def _budgets(self) -> tuple[Budget, ...]:
        """What jobs may draw from now on, those on their way out included."""
        site = self._site
        steps = ((0, site.spendable_uw), *site.ahead)
        return tuple(Budget(from_ns, power_uw + site.leaving_uw) for from_ns, power_uw in steps)

    def _builder(self, *, counted: bool, limited: bool) -> Builder:
        """Who builds the problem; the one of rounds before on the same site."""
        if (counted, limited) not in self._builders:
            ground = CountedGround(self._ground.views) if counted else self._ground
            made = Builder(ground, self._windows, self._rules, limited=limited)
            self._builders[counted, limited] = made
        return self._builders[counted, limited]

    def _counted(self, queue: Sequence[Candidate]) -> bool:
        """Whether the number of nodes says all there is to say of them."""
        specs = [one.view.spec for one in queue] + [run.view.spec for run in self._running]
        return self._site.kind is not None and all(
            spec.unit is SizeUnit.NODES and spec.alone and not (spec.requests or spec.levels)
            for spec in specs
        )

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

    def _begin(self, one: Candidate, entry: Entry, option: int, nodes: Sequence[int]) -> None:
        """Starts a job at the level and on the nodes it has in the plan."""
        view, level_uw = one.view, entry.levels[option]
        among = self._named(one, nodes, entry.packed)
        room = self._room
        shares = room.find_fed(view.spec, one.size, level_uw, one.takes_ns, among)
        assert shares is not None, f"job {view.job_id} does not fit on {among}"
        cap_uw = room.held_uw(shares, level_uw)
        power_uw = room.power_of(shares, cap_uw, view.spec.levels)
        room.take(shares, power_uw, takes_whole_nodes(view.spec))
        lasts_ns = entry.job.options[option].duration_ns
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
