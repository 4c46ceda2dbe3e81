"""EASY with one cap for all nodes, the highest within the budget: a fair baseline.

This baseline is a site with a power limit but without power management beyond caps: it divides the
limit by the number of nodes and sets equal caps. FIFO at the maximum cap (`fifo_easy`) leaves nodes
idle if the budget is too low. This policy slows down all nodes instead (*naive overprovisioning* in
PARM's evaluation, with the cap given by the budget).

The level is the highest L, a multiple of 1/8 W, for which

    sum over the nodes of (L - floor), L within the range of each kind,  <=  spendable power

so nodes with a low maximum leave more to the others. Idle nodes count with their charge, which is
their floor. The level does not apply to GPUs; idle GPUs count at their maximum limits. A job with
its own cap, or on a node that does not answer, keeps its resources. Its cores and watts are
excluded from the sum. Running jobs follow the level when nodes join or leave and when the budget
changes; a job that cannot change at that moment is checked again later. Estimates are for full
power and grow by the run times of the profiles.

The queue is `fifo_easy`, which receives jobs with this level as their own cap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.model.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.core.power.charge import (
    assigned_on_uw,
    gpus_uw,
    shares_uw,
)
from wattfold.coordinator.policies.backfill.job_size import size_key, size_of
from wattfold.coordinator.policies.driver.in_turn import InTurn
from wattfold.coordinator.policies.driver.site_view import site_of
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.fifo.settings import FifoSettings, UniformSettings
from wattfold.coordinator.policies.resources.estimates import run_time_s, within_limit
from wattfold.coordinator.policies.resources.room import nothing_in_reach
from wattfold.coordinator.policies.resources.uniform_level import greatest_level_uw

REVISIT_NS = 5_000_000_000
"""Interval of the checks for jobs whose cap could not follow the level, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class EasyUniform(Policy):
    """The baseline with one cap."""

    settings: UniformSettings = UniformSettings()  # noqa: RUF009 - immutable

    @property
    def size(self) -> str:
        """The end of the size range that a job gets."""
        return self.settings.size

    @property
    def name(self) -> str:
        """``easy-uniform``."""
        return "easy-uniform"

    @property
    def chooses_caps(self) -> bool:
        """Return True: all nodes have one cap, which follows the budget."""
        return True

    @property
    def recaps(self) -> bool:
        """Return True: the caps of running jobs follow the budget."""
        return True

    def fallback(self) -> Policy | None:
        """Start jobs in order; this code is independent of the policy."""
        return InTurn()

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Return the EASY plan at the level of this snapshot."""
        if not snapshot.nodes:
            return nothing_in_reach(snapshot)
        queue = FifoEasy(FifoSettings(size=self.size))
        capped = _Capped(snapshot, uniform_uw(snapshot), self.size)
        jobs = tuple(view if _keeps(view) else capped.view(view) for view in snapshot.jobs)
        plan = queue.propose(replace(snapshot, jobs=jobs), now_ns, deadline_s)
        own = {view.job_id for view in snapshot.jobs if _keeps(view)}
        late = any(_follows_later(view, capped) for view in snapshot.jobs)
        return replace(
            plan,
            revisit_ns=now_ns + REVISIT_NS if late else 0,
            assignments=tuple(
                one if one.job_id in own else capped.leveled(one) for one in plan.assignments
            ),
        )


def uniform_uw(snapshot: Snapshot) -> int:
    """Return the level of all nodes in microwatts; the lowest floor if that does not fit either."""
    specs = {view.spec.node_id: view.spec for view in snapshot.nodes}
    cores = {node_id: len(spec.cpus) for node_id, spec in specs.items()}
    power_uw = snapshot.spendable_uw
    dram_cap_uw = snapshot.nodes[0].dram_cap_uw
    idle_gpus = {node_id: {*spec.gpus} for node_id, spec in specs.items() if spec.gpus}
    for job in snapshot.jobs:
        current = job.current
        if current is None:
            continue
        for share in current.shares if idle_gpus else ():
            idle_gpus.get(share.node_id, set()).difference_update(share.gpus)
        plain_uw = shares_uw(map(_cores_alone, current.shares), specs, current.cap_uw)
        charged_uw = assigned_on_uw(current, specs, dram_cap_uw)
        if not _keeps(job):
            # The level does not apply to the other zones of the job.
            power_uw -= max(charged_uw - plain_uw, 0)
            continue
        power_uw -= charged_uw
        for share in current.shares:
            if share.node_id in cores:
                cores[share.node_id] -= len(share.cpus)
    power_uw -= sum(gpus_uw(specs[node_id], gpus, 0) for node_id, gpus in idle_gpus.items())
    counted: dict[tuple[NodeKind, int], int] = {}
    for node_id, left in cores.items():
        key = specs[node_id].kind, left
        counted[key] = counted.get(key, 0) + 1
    parts = [(kind, left, count) for (kind, left), count in counted.items()]
    return greatest_level_uw(parts, power_uw)


def _cores_alone(share: Share) -> Share:
    return replace(share, gpus=()) if share.gpus else share


def _keeps(view: JobView) -> bool:
    """Return whether the level does not apply: the job has its own cap, or cannot change now."""
    return bool(view.spec.cap_uw) or (view.current is not None and not view.movable)


def _follows_later(view: JobView, capped: _Capped) -> bool:
    """Return whether a job differs from the level only because it cannot be changed now.

    This includes jobs that are starting: the end of their start alone triggers no new plan.
    """
    current = view.current
    return (
        current is not None
        and not view.movable
        and not view.spec.cap_uw
        and capped.leveled(current) is not current
    )


class _Capped:
    """Jobs as `fifo_easy` receives them, with the level as their own cap."""

    def __init__(self, snapshot: Snapshot, level_uw: int, size: str) -> None:
        self._level_uw = level_uw
        self._site, self._size = site_of(snapshot), size
        self._sizes: dict[tuple[object, ...], int] = {}
        self._kinds = {view.spec.node_id: view.spec.kind for view in snapshot.nodes}
        self._first = snapshot.nodes[0].spec.kind

    def view(self, view: JobView) -> JobView:
        """Return a job at the level, with its run time there."""
        current = view.current
        shares = current.shares if current is not None else ()
        kinds = {self._kinds[s.node_id] for s in shares if s.node_id in self._kinds}
        cap_uw = max(self._level_uw, 1)
        size = current.size if current is not None else self._size_of(view, cap_uw)
        time_s = run_time_s(
            view, kinds or (self._first,), size or view.spec.min_size, self._level_uw
        )
        time_ns, planned_ns = max(round(time_s * 1e9), 1), view.planned_ns
        if planned_ns:
            # Reservations use the user's estimate, at this level too.
            time_ns, planned_ns = time_ns * view.spec.time_ns // planned_ns, time_ns
        if current is not None:
            leveled = self.leveled(current)
            leveled_s = within_limit(view.spec, time_s) / 1e9
            current = (
                current if leveled is current else replace(leveled, expected_total_s=leveled_s)
            )
        spec = replace(view.spec, cap_uw=cap_uw, time_ns=time_ns)
        return replace(view, spec=spec, current=current, planned_ns=planned_ns)

    def _size_of(self, view: JobView, cap_uw: int) -> int:
        """Return the size of a waiting job, computed once for equal requests."""
        key = size_key(view, cap_uw)
        if key not in self._sizes:
            self._sizes[key] = size_of(view, self._site, self._size, cap_uw)
        return self._sizes[key]

    def leveled(self, assignment: Assignment) -> Assignment:
        """Return an assignment at the level, limited to the cap ranges of its nodes.

        A node whose floor is above the level must not raise the charge of the other nodes.
        """
        kinds = [self._kinds[s.node_id] for s in assignment.shares if s.node_id in self._kinds]
        if not kinds:
            return assignment
        most_uw, lowest_uw = max(k.most_uw for k in kinds), min(k.lowest_uw for k in kinds)
        cap_uw = max(min(self._level_uw, most_uw), lowest_uw)
        return assignment if cap_uw == assignment.cap_uw else replace(assignment, cap_uw=cap_uw)
