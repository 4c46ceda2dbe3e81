"""Mates on named nodes: the possible lenders of a job, and the cores that each gives.

`slowdown_driven.choice` has the penalties and the search. This module converts running jobs into
lenders, and the result into nodes and cores. A job on whole nodes gets the same number of cores of
each node of its mates, which hold whole nodes of a single kind. A job on cores gets cores of one
node, and its mates are on that node only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.models.amdahl import work
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.placement.core_choice import Want, choose, distribute
from wattfold.coordinator.policies.resources.serial_part import useful_uw
from wattfold.coordinator.policies.slowdown_driven.choice import (
    INFINITE,
    Guest,
    Lender,
    MateChoice,
    MateEnd,
    MateLimits,
    NodeLender,
    NodePick,
    always,
    no_free,
    penalty,
    select,
    select_on_node,
    takes_on,
)
from wattfold.coordinator.policies.slowdown_driven.rules import (
    SharingSettings,
    lent_at_most,
    worth_of,
    worth_on_node,
)
from wattfold.coordinator.policies.slowdown_driven.runs import FreeResources, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class MateCriteria:
    """Criteria for mates: current cut-off, m and nm, and settings of the policy and of queues."""

    limits: MateLimits
    rules: SharingSettings
    queues: Mapping[str, Queue]

    def factor_of(self, spec: JobSpec) -> float:
        """Return the maximum share of its cores that a job lends."""
        queue = self.queues.get(spec.queue)
        told = queue.sharing_factor if queue is not None else None
        return self.rules.sharing_factor if told is None else told

    def most_slowdown(self, spec: JobSpec) -> float:
        """Return the predicted slowdown at which a job no longer lends."""
        queue = self.queues.get(spec.queue)
        told = queue.max_slowdown if queue is not None else None
        return self.limits.most_slowdown if told is None else (told or INFINITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MateSearch:
    """A search for mates of a job. ``latest_ns``: upper bound of its predicted end."""

    spec: JobSpec
    guest: Guest
    latest_ns: int | None = None
    free: Callable[[int], int] = no_free
    allowed: Callable[[tuple[int, ...]], bool] = always
    """Whether these jobs may be mates together."""
    open_to: Callable[[NodeId, int], bool]
    """Whether it may use a node for a given time."""


class Mates:
    """Running jobs that may lend now."""

    def __init__(self, resources: FreeResources, terms: MateCriteria) -> None:
        self._resources, self._terms = resources, terms
        self._whole: dict[NodeKind, dict[int, Lender]] = {}
        self._on_node: dict[NodeId, dict[int, NodeLender]] = {}
        self._curved = False
        for run in resources.runs.values():
            self._take(run)

    @property
    def none(self) -> bool:
        """Whether no job lends."""
        return not self._whole and not self._on_node

    @property
    def curved(self) -> bool:
        """Whether any lender is known to lose less than in proportion."""
        return self._curved

    def worth(self, search: MateSearch, pick: MateChoice) -> Callable[[int, float], float]:
        """Return the value of sharing (`slowdown_driven.rules`).

        It is a function of the time by which the job ends sooner, and of the weight of energy.
        """
        lenders = next(found for found in self._whole.values() if pick.mates[0] in found)
        kind = next(kind for kind, found in self._whole.items() if found is lenders)
        guest = search.guest._replace(cores=kind.cores)
        mates = [lenders[mate] for mate in pick.mates]
        return lambda sooner_ns, weight: worth_of(pick, guest, mates, sooner_ns, weight)

    def worth_on(
        self, search: MateSearch, node_id: NodeId, pick: NodePick
    ) -> Callable[[int, float], float]:
        """Return the same on one node."""
        guest, lenders = search.guest, self._on_node.get(node_id, {})
        mates = [(lenders[mate], given) for mate, given in pick.gives]
        return lambda sooner_ns, weight: worth_on_node(pick, guest, mates, sooner_ns, weight)

    def lends_no_more(self, job: int) -> None:
        """Remove a job that has become a mate."""
        run = self._resources.runs[job]
        for lenders in self._whole.values():
            lenders.pop(job, None)
        for share in run.given.shares:
            self._on_node.get(share.node_id, {}).pop(job, None)

    def pick(self, search: MateSearch) -> MateChoice | None:
        """Return the best mates of a job on whole nodes, or None."""
        found: list[MateChoice] = []
        for kind, lenders in self._whole.items():
            guest = search.guest._replace(cores=kind.cores)
            able = self._able(search, guest, lenders)
            if not _may_fill(guest.nodes, able, search, self._terms.limits.mates):
                continue
            # Mates that it would slow down too much are already excluded.
            limits = replace(self._terms.limits, most_slowdown=INFINITE)
            best = select(
                guest,
                able,
                self._resources.now_ns,
                limits,
                free=search.free,
                latest=search.latest_ns,
                allowed=search.allowed,
            )
            if best is not None and self._open(search, best):
                found.append(best)
        return min(found, key=lambda choice: choice.impact, default=None)

    def picks_on_nodes(self, search: MateSearch) -> list[tuple[NodeId, NodePick]]:
        """Return the best mates of a job on cores for every node, lowest impact first."""
        found: list[tuple[tuple[float, int], int, NodeId, NodePick]] = []
        room, guest = self._resources.room, search.guest
        limits = replace(self._terms.limits, most_slowdown=INFINITE)
        for position, (node_id, spec) in enumerate(room.specs.items()):
            if len(spec.cpus) < guest.cores:
                # The job could never get the cores that it requests.
                continue
            lenders = self._on_node.get(node_id, {})
            free = len(room.free[node_id])
            if not lenders and free < guest.least:
                continue
            if search.spec.requests and not room.stock.holds(node_id, search.spec):
                continue
            pick = select_on_node(
                guest,
                lenders.values(),
                free,
                self._resources.now_ns,
                limits,
                latest=search.latest_ns,
            )
            if pick is not None and search.open_to(node_id, pick.takes):
                found.append(((pick.impact, -pick.cores), position, node_id, pick))
        found.sort(key=lambda choice: choice[:2])
        return [(node_id, pick) for _, _, node_id, pick in found]

    # Lenders.

    def _take(self, run: Run) -> None:
        spec, shares = run.view.spec, run.given.shares
        specs = self._resources.room.specs
        if not (spec.lends and run.resizable) or (run.short and not self._lends_more(run)):
            return
        if any(share.node_id not in specs for share in shares):
            return
        factor = self._terms.factor_of(spec)
        self._curved = self._curved or bool(run.serial_ppm)
        if len(shares) == 1:
            self._take_on_node(run, factor)
        kinds = {id(specs[s.node_id].kind): specs[s.node_id].kind for s in shares}
        has = {len(share.cpus) for share in shares}
        if spec.unit is not SizeUnit.NODES and has != {len(specs[shares[0].node_id].cpus)}:
            return
        if len(has) != 1 or len(kinds) != 1:
            return
        kind = next(iter(kinds.values()))
        lent = kind.cores - next(iter(has))
        most = lent_at_most(factor, kind.cores, run.serial_ppm)
        lends = min(most, kind.cores - spec.least_on_node) - lent
        if lends > 0:
            self._whole.setdefault(kind, {})[run.job] = Lender(
                run.job,
                len(shares),
                run.waited_ns,
                run.asked_ns,
                run.ends_ns,
                lends,
                run.serial_ppm or 0,
                self._drawn_uw(run) // len(shares),
                lent,
            )

    def _take_on_node(self, run: Run, factor: float) -> None:
        share, spec = run.given.shares[0], run.view.spec
        cores = run.fulls[share.node_id]
        lent = cores - len(share.cpus)
        most = lent_at_most(factor, cores, run.serial_ppm)
        lends = min(most, cores - spec.least_on_node) - lent
        if lends > 0:
            self._on_node.setdefault(share.node_id, {})[run.job] = NodeLender(
                run.job,
                cores,
                run.waited_ns,
                run.asked_ns,
                run.ends_ns,
                lends,
                self._most_slowdown(run.job),
                run.serial_ppm or 0,
                self._drawn_uw(run),
                lent,
            )

    def _lends_more(self, run: Run) -> bool:
        """Return whether an owner that lends may lend to another job."""
        guests = self._resources.guests_of(run)
        return self._resources.owns(run) and 0 < len(guests) < self._terms.rules.guests

    def _drawn_uw(self, run: Run) -> int:
        given = run.given
        return self._resources.room.power_of(given.shares, useful_uw(run.view, given.cap_uw))

    def _most_slowdown(self, job: int) -> float:
        return self._terms.most_slowdown(self._resources.runs[job].view.spec)

    def _able(
        self, search: MateSearch, guest: Guest, lenders: Mapping[int, Lender]
    ) -> list[Lender]:
        """Return the possible mates of a job.

        Jobs are excluded if they are too large, end too soon, would be slowed down too much or lack
        resources for the request.
        """
        most = max((one.lends for one in lenders.values()), default=0)
        given = max(min(most, guest.cores), 1)
        takes_ns = takes_on(guest, given)
        if self._terms.limits.mate_end is MateEnd.AFTER:
            # Minimum progress of its mates meanwhile, as time on all their cores.
            takes_ns = work(takes_ns, guest.cores, guest.cores - given)
        soonest_ns = self._resources.now_ns + takes_ns
        able = [
            one
            for one in lenders.values()
            if one.nodes <= guest.nodes
            and one.ends >= soonest_ns
            and one.lends >= guest.least
            and penalty(one, guest) < self._most_slowdown(one.job)
        ]
        if not search.spec.requests:
            return able
        holds = self._resources.room.stock.holds
        return [
            one
            for one in able
            if all(
                holds(share.node_id, search.spec)
                for share in self._resources.runs[one.job].given.shares
            )
        ]

    def _open(self, search: MateSearch, pick: MateChoice) -> bool:
        nodes = [
            share.node_id for job in pick.mates for share in self._resources.runs[job].given.shares
        ]
        return all(search.open_to(node_id, pick.takes) for node_id in nodes)

    # Loans.

    def lend(self, spec: JobSpec, job_id: JobId, pick: MateChoice) -> tuple[Share, ...]:
        """Shrink the mates of a job on whole nodes; return its resources, which are then free."""
        ground = self._resources
        shares: list[Share] = []
        for mate in pick.mates:
            run = ground.runs[mate]
            cpus: dict[NodeId, CpuSet] = {}
            for share in run.given.shares:
                wants = [
                    _keeps(run, share, len(share.cpus) - pick.cores),
                    Want(job=job_id, size=pick.cores, tasks=spec.tasks_per_node),
                ]
                cores = ground.room.cores_of(share.node_id)
                given = distribute(wants, ground.room.free[share.node_id] | share.cpus, cores)
                cpus[share.node_id] = given[run.view.job_id]
                shares.append(self._share(share.node_id, given[job_id], spec))
            ground.resize(run, cpus)
        return (*shares, *self._free_nodes(spec, pick))

    def _free_nodes(self, spec: JobSpec, pick: MateChoice) -> tuple[Share, ...]:
        """Return free nodes that complete a combination, whole if the job can return cores."""
        if not pick.free:
            return ()
        room = self._resources.room
        found = room.find(spec, pick.free) or ()
        if spec.lends:
            return found
        return tuple(
            replace(
                share,
                cpus=choose(
                    pick.cores,
                    share.cpus,
                    CpuSet(),
                    room.cores_of(share.node_id),
                    spec.tasks_per_node,
                ),
            )
            for share in found
        )

    def lend_on_node(
        self, spec: JobSpec, job_id: JobId, node_id: NodeId, pick: NodePick
    ) -> tuple[Share, ...]:
        """Return the same for a job on cores of one node, including its free cores."""
        ground = self._resources
        usable, wants = ground.room.free[node_id], []
        for mate, given in pick.gives:
            run = ground.runs[mate]
            share = run.given.shares[0]
            wants.append(_keeps(run, share, len(share.cpus) - given))
            usable = usable | share.cpus
        wants.append(Want(job=job_id, size=pick.cores, tasks=spec.tasks_per_node))
        cores = distribute(wants, usable, ground.room.cores_of(node_id))
        for mate, _ in pick.gives:
            run = ground.runs[mate]
            ground.resize(run, {node_id: cores[run.view.job_id]})
        return (self._share(node_id, cores[job_id], spec),)

    def _share(self, node_id: NodeId, cpus: CpuSet, spec: JobSpec) -> Share:
        gpus = self._resources.room.stock.free_gpus(node_id)[: spec.gpus] if spec.gpus else ()
        return Share(node_id=node_id, cpus=cpus, memory_bytes=spec.memory_bytes, gpus=gpus)


def _keeps(run: Run, share: Share, cores: int) -> Want:
    """Return the remaining cores of a mate on a node."""
    spec = run.view.spec
    return Want(job=run.view.job_id, size=cores, held=share.cpus, tasks=spec.tasks_per_node)


def _may_fill(nodes: int, able: Iterable[Lender], search: MateSearch, mates: int) -> bool:
    """Return whether some of these, with free nodes, may hold exactly ``nodes`` nodes."""
    sizes = {one.nodes for one in able}
    if mates > 2 or search.free is not no_free:
        return bool(sizes)
    return nodes in sizes or (mates == 2 and any(nodes - one in sizes for one in sizes))
