"""Round of `andreas` and its baselines: starts, preemptions, and the reasons of other jobs.

The plan of `solvers.training` contains the place of every job. A job starts if its place is free
now. Otherwise running jobs are preempted first, and it starts in a later round, which plans again.
Until then no other job gets the remaining resources of that node. All other jobs follow under EASY
on the remaining resources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.policies.backfill.candidates import Candidate
from wattfold.coordinator.policies.backfill.easy_search import EasySearch
from wattfold.coordinator.policies.port import Reason, Site
from wattfold.coordinator.policies.resources.estimates import duration_ns
from wattfold.coordinator.policies.resources.room import Room, takes_whole_nodes
from wattfold.coordinator.policies.training.gpu_nodes import Configuration, GpuNodes, trains
from wattfold.coordinator.policies.training.problem import Posed, Trainee
from wattfold.coordinator.solvers.training.problem import POSTPONED, TrainingPlan

LEAVING = "starts when other jobs have released its planned resources"
OTHERS = "postponed because other jobs are more urgent in the current plan"
AWAITED = "a later start costs less, or jobs ahead of it use the GPUs"


@dataclass(slots=True, kw_only=True)
class TrainingActions:
    """Actions that result from a plan."""

    given: dict[int, Assignment] = field(default_factory=dict)
    """Starts, and running jobs with a new GPU level."""
    preempted: list[int] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    closed: list[NodeId] = field(default_factory=list)
    """Nodes whose free resources are reserved for jobs that wait until others have ended."""


class Movers:
    """Converts a plan into the actions that are possible now."""

    def __init__(
        self,
        gpu_nodes: GpuNodes,
        site: Site,
        running: Sequence[JobView],
        posed: Posed,
        now_ns: int,
        postponed: str = OTHERS,
    ) -> None:
        """Start with running jobs. ``postponed``: the reason of jobs that the plan postpones."""
        self._gpu_nodes, self._posed, self._postponed = gpu_nodes, posed, postponed
        self._room = Room(site.nodes, site.spendable_uw, gpu_nodes.windows, now_ns)
        for view in running:
            assert view.current is not None
            power_uw = self._room.given_uw(view.current)
            self._room.take(view.current.shares, power_uw, takes_whole_nodes(view.spec))
        self.moves = TrainingActions()

    def carry_out(self, plan: TrainingPlan) -> TrainingActions:
        """Return the actions of a plan that are possible now."""
        starts: list[tuple[Trainee, Configuration, NodeId]] = []
        for one, chosen, where in zip(self._posed.trainees, plan.option, plan.node, strict=True):
            if chosen == POSTPONED:
                self._postpone(one)
                continue
            entry, _ = self._posed.order[chosen]
            option, node_id = one.menu[entry], self._gpu_nodes.names[where]
            if one.view.current is None:
                starts.append((one, option, node_id))
            elif option.units == one.here[0] and self._stays(one, node_id):
                self._level(one, option)
            else:
                self.moves.preempted.append(one.job)
        for one, option, node_id in starts:
            self._start(one, option, node_id)
        return self.moves

    def _stays(self, trainee: Trainee, node_id: NodeId) -> bool:
        current = trainee.view.current
        return current is not None and current.shares[0].node_id == node_id

    def _postpone(self, trainee: Trainee) -> None:
        if trainee.view.current is not None:
            self.moves.preempted.append(trainee.job)
        else:
            self.moves.reasons.append(
                Reason(trainee.job, self._reason_text(trainee, self._why(trainee)), chosen=True)
            )

    def _reason_text(self, trainee: Trainee, why: str) -> str:
        """Return a reason, with the source of the run time if no epoch was measured."""
        source = self._gpu_nodes.estimated(trainee.view, trainee.menu)
        if not source:
            return why
        app = trainee.view.spec.app
        return f"{why}; no epoch time of {app} is known, so it is planned with a {source}"

    def _why(self, trainee: Trainee) -> str:
        """Return why a job is postponed: by a reservation, or for other jobs."""
        spec, ground, now_ns = trainee.view.spec, self._gpu_nodes, self._room.at_ns
        if not ground.windows.concern(spec):
            return self._postponed
        takes_ns = min(trainee.holds_ns(option) for option in trainee.menu)
        able = [ground.kinds[option.kind].nodes for option in trainee.menu]
        nodes = dict.fromkeys(ground.names[node] for own in able for node in own)
        if any(ground.windows.open(spec, name, now_ns, now_ns + takes_ns) for name in nodes):
            return self._postponed
        return ground.windows.why(spec, nodes, now_ns, now_ns + takes_ns) or self._postponed

    def _level(self, trainee: Trainee, option: Configuration) -> None:
        """Change the GPU level of a running job, if there is enough power now."""
        current = trainee.view.current
        assert current is not None
        if current.levels.gpu_uw == option.level_uw:
            return
        levels = replace(current.levels, gpu_uw=option.level_uw)
        wanted = replace(current, levels=levels, expected_total_s=option.whole_s)
        more_uw = self._room.given_uw(wanted) - self._room.given_uw(current)
        if more_uw <= max(self._room.power_uw, 0):
            self._room.power_uw -= more_uw
            self.moves.given[trainee.job] = wanted

    def _start(self, trainee: Trainee, option: Configuration, node_id: NodeId) -> None:
        spec, room = trainee.view.spec, self._room
        shares = room.find(spec, option.units, [node_id], trainee.holds_ns(option))
        levels = Levels(gpu_uw=option.level_uw).under(spec.levels)
        cap_uw = spec.cap_uw or self._gpu_nodes.cap_uw
        if shares is not None:
            cap_uw = room.held_uw(shares, cap_uw)
            power_uw = room.power_of(shares, cap_uw, levels)
            if power_uw <= room.power_uw:
                room.take(shares, power_uw, takes_whole_nodes(spec))
                self.moves.given[trainee.job] = Assignment(
                    job_id=trainee.view.job_id,
                    size=option.units,
                    cap_uw=cap_uw,
                    shares=shares,
                    expected_total_s=option.whole_s,
                    levels=levels,
                )
                return
        self.moves.reasons.append(
            Reason(trainee.job, self._reason_text(trainee, LEAVING), chosen=True)
        )
        self.moves.closed.append(node_id)


class OtherJobs(EasySearch):
    """EASY for all other jobs, on the resources that training jobs leave."""

    def __init__(self, *, moves: TrainingActions, views: dict[int, JobView], **parts: Any) -> None:
        super().__init__(**parts)
        self.given: dict[int, Assignment] = {}
        """Assignments of the jobs that start."""
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

    def _start(self, candidate: Candidate) -> bool:
        if not super()._start(candidate):
            return False
        begun = self._running[-1]
        takes_ns = self._duration_ns(candidate.view, begun.shares, candidate.size, candidate.cap_uw)
        self.given[candidate.job] = Assignment(
            job_id=candidate.view.job_id,
            size=candidate.size,
            cap_uw=self._room.held_uw(begun.shares, candidate.cap_uw),
            shares=begun.shares,
            expected_total_s=takes_ns / 1e9,
            levels=candidate.view.spec.levels,
        )
        return True

    def _duration_ns(self, view: JobView, shares: Any, size: int, cap_uw: int) -> int:
        if trains(view) and view.current is not None:
            return round(view.current.expected_total_s * 1e9)
        kinds = self._room.kinds_under(shares) or self._kinds[:1]
        return duration_ns(view, kinds, size, cap_uw)
