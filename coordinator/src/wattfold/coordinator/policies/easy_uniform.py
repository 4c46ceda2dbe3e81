"""EASY with one cap for all nodes, the greatest at which all of them are fed: a fair baseline.

What a site with a power limit does that has no power management but caps: it divides the limit by
its nodes and caps them alike. FIFO at the greatest cap (`fifo_easy`) leaves nodes idle that the
budget does not feed; this one slows all of them instead (*naive overprovisioning* in PARM's
evaluation, with the cap that the budget gives).

The level is the greatest L, a multiple of 1/8 W, for which

    sum over the nodes of (L - floor), L within what each kind can take,  <=  spendable power

so nodes that can take less leave the others more. Idle nodes count at what they are charged, their
floors; their GPUs, which the level is not for, as if all of them worked at their greatest limits. A
job with a cap of its own, or whose node does not answer, keeps what it has: its cores and
watts are left out of the sum. Running jobs follow the level when nodes come or go and when the
budget changes; one that cannot at that moment is looked at again. Estimates are for full power, and
grow with the run times that profiles tell of.

The queue is that of `fifo_easy`, which is asked with jobs that carry this cap as their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from wattfold.coordinator.core.charge import (
    CAP_STEP_UW,
    assigned_on_uw,
    gpus_uw,
    share_uw,
    shares_uw,
)
from wattfold.coordinator.core.job import Assignment, Share
from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.core.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.policies.easy_search import size_of
from wattfold.coordinator.policies.estimates import run_time_s
from wattfold.coordinator.policies.fifo_easy import FifoEasy
from wattfold.coordinator.policies.placement import nothing_in_reach
from wattfold.coordinator.policies.rounds import site_of

REVISIT_NS = 5_000_000_000
"""After so long it looks again at jobs whose cap could not follow the level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EasyUniform(Policy):
    """The baseline with one cap. ``size``: "max" or "min" of the range a job gives."""

    size: str = "max"

    @property
    def name(self) -> str:
        """``easy-uniform``."""
        return "easy-uniform"

    def fallback(self) -> Policy | None:
        """None: it has no solver that could fail."""
        return None

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """EASY at the level of this snapshot."""
        if not snapshot.nodes:
            return nothing_in_reach(snapshot)
        queue = FifoEasy(size=self.size)
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
    """The one level of all nodes, microwatts; the least floor where not even that is fed."""
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
            # What its other zones take is no matter of the level.
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


def greatest_level_uw(parts: Iterable[tuple[NodeKind, int, int]], power_uw: int) -> int:
    """The greatest level at which so many cores of so many nodes of a kind fit into a power.

    ``parts`` are kind, cores of a node and number of nodes. A multiple of `CAP_STEP_UW`, or the end
    of a range: the least floor where nothing fits, the greatest cap where all fit at it.
    """
    known = list(parts)
    low, high = min(kind.floor_uw for kind, _, _ in known), max(k.most_uw for k, _, _ in known)

    def fits(level_uw: int) -> bool:
        return sum(n * share_uw(kind, c, level_uw) for kind, c, n in known) <= power_uw

    if fits(high):
        return high
    least = low
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return max(low // CAP_STEP_UW * CAP_STEP_UW, least)


def _keeps(view: JobView) -> bool:
    """Whether the level is not for this job: its own cap counts, or its nodes do not answer."""
    return bool(view.spec.cap_uw) or (view.current is not None and not view.movable)


def _follows_later(view: JobView, capped: _Capped) -> bool:
    """Whether it has another cap than the level only because it cannot be changed now.

    One that is being started is such a job; that it has started is no reason to plan again.
    """
    current = view.current
    return (
        current is not None
        and not view.movable
        and not view.spec.cap_uw
        and capped.leveled(current) is not current
    )


class _Capped:
    """Jobs as `fifo_easy` is to see them: with the level as their own cap."""

    def __init__(self, snapshot: Snapshot, level_uw: int, size: str) -> None:
        self._level_uw = level_uw
        self._site, self._size = site_of(snapshot), size
        self._kinds = {view.spec.node_id: view.spec.kind for view in snapshot.nodes}
        self._first = snapshot.nodes[0].spec.kind

    def view(self, view: JobView) -> JobView:
        """A job at the level, with the time it takes there."""
        current = view.current
        shares = current.shares if current is not None else ()
        kinds = {self._kinds[s.node_id] for s in shares if s.node_id in self._kinds}
        cap_uw = max(self._level_uw, 1)
        capped = replace(view, spec=replace(view.spec, cap_uw=cap_uw))
        if current is not None:
            size = current.size
        else:
            size = size_of(view, self._site, self._size, cap_uw)
        time_s = run_time_s(
            view, kinds or (self._first,), size or view.spec.least_size, self._level_uw
        )
        spec = replace(capped.spec, time_ns=max(round(time_s * 1e9), 1))
        if view.planned_ns:
            # Reservations go by the user's word, at this level too.
            asked_ns = spec.time_ns * view.spec.time_ns // view.planned_ns
            capped = replace(capped, planned_ns=spec.time_ns)
            spec = replace(spec, time_ns=asked_ns)
        if current is not None:
            leveled = self.leveled(current)
            current = current if leveled is current else replace(leveled, expected_total_s=time_s)
        return replace(capped, spec=spec, current=current)

    def leveled(self, one: Assignment) -> Assignment:
        """An assignment at the level, noted as far as any of its nodes follows it.

        A node whose floor is above the level must not raise what the others are charged with.
        """
        kinds = [self._kinds[s.node_id] for s in one.shares if s.node_id in self._kinds]
        if not kinds:
            return one
        most_uw, floor_uw = max(k.most_uw for k in kinds), min(k.floor_uw for k in kinds)
        cap_uw = max(min(self._level_uw, most_uw), floor_uw)
        return one if cap_uw == one.cap_uw else replace(one, cap_uw=cap_uw)
