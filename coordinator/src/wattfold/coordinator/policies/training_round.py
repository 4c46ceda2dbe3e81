"""One round of `andreas` and of those beside it: who starts, who makes way, why others wait.

The plan of `solvers.training` says where everybody is to be. A job starts where its place is free
now; elsewhere running jobs are pre-empted first, and it starts in a later round, which plans anew.
Until then nobody else gets what is left of that node. All jobs that do not train, or of which no
times are known, follow under EASY on what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.job import Assignment, Share
from wattfold.coordinator.core.levels import Levels
from wattfold.coordinator.core.plan import JobView
from wattfold.coordinator.policies.easy_search import Candidate, Search
from wattfold.coordinator.policies.estimates import duration_ns
from wattfold.coordinator.policies.placement import Room, takes_whole_nodes
from wattfold.coordinator.policies.scheduler import Decision, Reason, Site
from wattfold.coordinator.policies.training_ground import Configuration, Ground
from wattfold.coordinator.policies.training_problem import Posed, Trainee
from wattfold.coordinator.solvers.training.problem import POSTPONED, Plan

LEAVING = "starts when other jobs have released its planned resources"
OTHERS = "postponed because other jobs are more urgent in the current plan"
AWAITED = "a later start costs less, or jobs ahead of it use the GPUs"


@dataclass(slots=True, kw_only=True)
class Moves:
    """What a plan comes to."""

    given: dict[int, Assignment] = field(default_factory=dict)
    """Starts, and running jobs of which the level of the GPUs is another."""
    preempted: list[int] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    closed: list[NodeId] = field(default_factory=list)
    """Nodes of which what is left is for those that wait until others have gone."""


class Movers:
    """Turns a plan into what can be done of it now."""

    def __init__(
        self,
        ground: Ground,
        site: Site,
        running: Sequence[JobView],
        posed: Posed,
        now_ns: int,
        postponed: str = OTHERS,
    ) -> None:
        """``postponed``: why jobs wait that the plan lets wait."""
        self._ground, self._posed, self._postponed = ground, posed, postponed
        self._room = Room(site.nodes, site.spendable_uw, ground.windows, now_ns)
        for view in running:
            assert view.current is not None
            power_uw = self._room.given_uw(view.current)
            self._room.take(view.current.shares, power_uw, takes_whole_nodes(view.spec))
        self.moves = Moves()

    def carry_out(self, plan: Plan) -> Moves:
        """What is done now of a plan."""
        starts: list[tuple[Trainee, Configuration, NodeId]] = []
        for one, chosen, where in zip(self._posed.trainees, plan.option, plan.node, strict=True):
            if chosen == POSTPONED:
                self._postpone(one)
                continue
            entry, _ = self._posed.order[chosen]
            option, node_id = one.menu[entry], self._ground.names[where]
            if one.view.current is None:
                starts.append((one, option, node_id))
            elif option.units == one.here[0] and self._stays(one, node_id):
                self._level(one, option)
            else:
                self.moves.preempted.append(one.job)
        for one, option, node_id in starts:
            self._start(one, option, node_id)
        return self.moves

    def _stays(self, one: Trainee, node_id: NodeId) -> bool:
        current = one.view.current
        return current is not None and current.shares[0].node_id == node_id

    def _postpone(self, one: Trainee) -> None:
        if one.view.current is not None:
            self.moves.preempted.append(one.job)
        else:
            self.moves.reasons.append(Reason(one.job, self._why(one)))

    def _why(self, one: Trainee) -> str:
        """Why a job is postponed: by a reservation, or for others."""
        spec, ground, now_ns = one.view.spec, self._ground, self._room.at_ns
        if not ground.windows.concern(spec):
            return self._postponed
        takes_ns = min(one.holds_ns(option) for option in one.menu)
        able = [ground.kinds[option.kind].nodes for option in one.menu]
        nodes = dict.fromkeys(ground.names[node] for own in able for node in own)
        if any(ground.windows.open(spec, name, now_ns, now_ns + takes_ns) for name in nodes):
            return self._postponed
        return ground.windows.why(spec, nodes, now_ns, now_ns + takes_ns) or self._postponed

    def _level(self, one: Trainee, option: Configuration) -> None:
        """Another level of the GPUs of a running job, if the power is there for it now."""
        current = one.view.current
        assert current is not None
        if current.levels.gpu_uw == option.level_uw:
            return
        levels = replace(current.levels, gpu_uw=option.level_uw)
        wanted = replace(current, levels=levels, expected_total_s=option.whole_s)
        more_uw = self._room.given_uw(wanted) - self._room.given_uw(current)
        if more_uw <= max(self._room.power_uw, 0):
            self._room.power_uw -= more_uw
            self.moves.given[one.job] = wanted

    def _start(self, one: Trainee, option: Configuration, node_id: NodeId) -> None:
        spec, room = one.view.spec, self._room
        shares = room.find(spec, option.units, [node_id], one.holds_ns(option))
        levels = Levels(gpu_uw=option.level_uw).under(spec.levels)
        cap_uw = spec.cap_uw or self._ground.cap_uw
        if shares is not None:
            cap_uw = room.held_uw(shares, cap_uw)
            power_uw = room.power_of(shares, cap_uw, levels)
            if power_uw <= room.power_uw:
                room.take(shares, power_uw, takes_whole_nodes(spec))
                self.moves.given[one.job] = Assignment(
                    job_id=one.view.job_id,
                    size=option.units,
                    cap_uw=cap_uw,
                    shares=shares,
                    expected_total_s=option.whole_s,
                    levels=levels,
                )
                return
        self.moves.reasons.append(Reason(one.job, LEAVING))
        self.moves.closed.append(node_id)


class Beside(Search):
    """EASY for all other jobs, on what training jobs leave."""

    def __init__(self, *, moves: Moves, views: dict[int, JobView], **parts: Any) -> None:
        super().__init__(**parts)
        self.given: dict[int, Assignment] = {}
        """What jobs that start get."""
        for job, given in moves.given.items():
            view = replace(views[job], current=given)
            if views[job].current is None:
                self._book(job, view, given.shares, given.size, given.cap_uw, self._now_ns)
            else:
                before = views[job].current
                assert before is not None
                self._room.power_uw -= self._room.given_uw(given) - self._room.given_uw(before)
        for node_id in dict.fromkeys(moves.closed):
            rest = Share(
                node_id=node_id,
                cpus=self._room.free[node_id],
                gpus=self._room.stock.free_gpus(node_id),
            )
            self._room.take((rest,), 0)

    def _start(self, one: Candidate) -> bool:
        if not super()._start(one):
            return False
        begun = self._running[-1]
        takes_ns = self._duration_ns(one.view, begun.shares, one.size, one.cap_uw)
        self.given[one.job] = Assignment(
            job_id=one.view.job_id,
            size=one.size,
            cap_uw=self._room.held_uw(begun.shares, one.cap_uw),
            shares=begun.shares,
            expected_total_s=takes_ns / 1e9,
            levels=one.view.spec.levels,
        )
        return True

    def _duration_ns(self, view: JobView, shares: Any, size: int, cap_uw: int) -> int:
        if view.training is not None and view.current is not None:
            return round(view.current.expected_total_s * 1e9)
        kinds = self._room.kinds_under(shares) or self._kinds[:1]
        return duration_ns(view, kinds, size, cap_uw)


def decisions_of(given: dict[int, Assignment]) -> list[Decision]:
    """Jobs that get something, in the form of all decisions."""
    return [(job, one.size, one.cap_uw) for job, one in given.items()]
