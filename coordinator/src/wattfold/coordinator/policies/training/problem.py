"""Training jobs and their free resources as a problem of `solvers.training`.

It contains all waiting jobs and all movable running jobs. A running job has its current place as a
separate option without the cost of a preemption. If it must not be preempted, this is its only
option. Resources of ending jobs count as free, because they are about to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.core.power.charge import assigned_on_uw
from wattfold.coordinator.models.training_cost import Tariff
from wattfold.coordinator.policies.backfill.conservative_search import without_leaving
from wattfold.coordinator.policies.port import Site
from wattfold.coordinator.policies.resources.room import Room, takes_whole_nodes
from wattfold.coordinator.policies.training.gpu_nodes import Configuration, GpuNodes
from wattfold.coordinator.solvers.training.building import (
    Configurations,
    RequestContext,
    Weighing,
    built,
)
from wattfold.coordinator.solvers.training.problem import ANY, TrainingNodes, TrainingProblem

RESOURCES = 3
"""Number of resources: GPUs, cores, memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Costs in money. ``late_eur_per_h``: one hour of tardiness of a job of weight 1."""

    tariff: Tariff
    late_eur_per_h: float = 10.0
    weighing: Weighing = Weighing()  # noqa: RUF009 - immutable
    restart_s: float = 60.0
    """Cost of a preemption for a job without learnt restart time, in seconds."""
    slack: float = 3.0
    """Assumed due date of a job without a due date, as a multiple of its fastest run time."""


@dataclass(slots=True, kw_only=True)
class Trainee:
    """A job of the problem."""

    job: int
    view: JobView
    menu: tuple[Configuration, ...]
    fixed: bool
    """Whether it stays where it is."""
    restart_s: float
    """Time to resume from its snapshot; 0 without a snapshot."""

    @property
    def here(self) -> tuple[int, int]:
        """Its current size and GPU level; 0 and 0 while it waits."""
        current = self.view.current
        return (current.size, current.levels.gpu_uw) if current else (0, 0)

    def left_s(self, option: Configuration) -> float:
        """Return its remaining work time in a configuration, in seconds."""
        return max(1.0 - self.view.done, 0.0) * option.whole_s

    def holds_ns(self, option: Configuration) -> int:
        """Return the assumed time on a node after a start now: its time limit, if any."""
        takes_s = self.left_s(option) + self.restart_s
        return self.view.spec.limit_ns or round(takes_s * NS_PER_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Posed:
    """A problem, and the meaning of its numbers."""

    problem: TrainingProblem
    trainees: list[Trainee]
    order: list[tuple[int, int]]
    """Menu entry and node of each option of the problem."""


def restart_s(view: JobView, costs: Costs) -> float:
    """Return the time in which a job resumes from a snapshot, as learnt or in general."""
    if view.current is None and view.done <= 0:
        return 0.0
    return costs.restart_s if view.restart_ns is None else view.restart_ns / NS_PER_S


def room_after_ends(site: Site) -> Room:
    """Return all nodes after the ending jobs have ended."""
    views = [without_leaving(view) for view in site.nodes]
    return Room(views, site.spendable_uw + site.leaving_uw)


def pose(
    gpu_nodes: GpuNodes,
    site: Site,
    trainees: list[Trainee],
    others: Sequence[JobView],
    costs: Costs,
    now_ns: int,
    calendar_s: float,
) -> Posed:
    """Return the problem of these jobs next to the other running jobs.

    ``calendar_s``: the current time, UTC.
    """
    room = room_after_ends(site)
    for view in others:
        assert view.current is not None
        power_uw = assigned_on_uw(view.current, room.specs, room.dram_cap_uw)
        room.take(view.current.shares, power_uw, takes_whole_nodes(view.spec))
    rows = _OptionRows(gpu_nodes, costs, now_ns, calendar_s)
    for number, one in enumerate(trainees):
        rows.add(number, one)
    listed = rows.listed()
    free = [
        (room.stock.free(name).gpus, len(room.free[name]), room.stock.free(name).memory_bytes)
        for name in gpu_nodes.names
    ]
    nodes = TrainingNodes(
        kind=np.array(gpu_nodes.kind_of, dtype=np.int64),
        free=np.array(free, dtype=np.int64).reshape(-1, RESOURCES),
    )
    asking = rows.request_context(trainees)
    problem, order = built(asking, listed, nodes, room.power_uw, costs.weighing)
    return Posed(
        problem=problem, trainees=trainees, order=[rows.keys[option] for option in order.tolist()]
    )


class _Columns(NamedTuple):
    """Options of a menu as columns, for all jobs with this menu."""

    kinds: list[int]
    amounts: list[tuple[int, int, int]]
    charges: list[int]
    whole_s: list[float]
    powers: list[float]
    last: list[bool]

    @classmethod
    def of(cls, menu: tuple[Configuration, ...], spec: JobSpec) -> _Columns:
        """Return the columns for jobs with this request."""
        gpus, memory = spec.gpus, spec.memory_bytes
        return cls(
            kinds=[option.kind for option in menu],
            amounts=[(one.units * gpus, one.cores, one.units * memory) for one in menu],
            charges=[option.charge_uw for option in menu],
            whole_s=[option.whole_s for option in menu],
            powers=[option.power_w for option in menu],
            last=[option.last for option in menu],
        )


class _OptionRows:
    """Options, one after another, as lists of numbers: there may be ten thousand."""

    def __init__(self, gpu_nodes: GpuNodes, costs: Costs, now_ns: int, calendar_s: float) -> None:
        self._gpu_nodes, self._costs = gpu_nodes, costs
        self._now_ns, self._calendar_s = now_ns, calendar_s
        self.keys: list[tuple[int, int]] = []
        self._job: list[int] = []
        self._kind: list[int] = []
        self._node: list[int] = []
        self._amounts: list[tuple[int, int, int]] = []
        self._charge: list[int] = []
        self._time: list[float] = []
        self._power: list[float] = []
        self._stays: list[bool] = []
        self._last: list[bool] = []
        self._columns: dict[tuple[int, int, int], _Columns] = {}

    def add(self, number: int, trainee: Trainee) -> None:
        """Add all options of a job."""
        view, ground = trainee.view, self._gpu_nodes
        spec = view.spec
        if view.current is None and not (
            trainee.fixed or spec.among or ground.windows.concern(spec)
        ):
            self._anywhere(number, trainee)
            return
        runs = view.current is not None
        place = ground.numbers[view.current.shares[0].node_id] if view.current else ANY
        windows = ground.windows if ground.windows.concern(spec) else None
        for entry, option in enumerate(trainee.menu):
            takes_s = trainee.left_s(option)
            if runs and ground.kind_of[place] == option.kind and option.units == trainee.here[0]:
                # A change of its GPU level costs nothing.
                self._row(number, trainee, entry, place, takes_s, stays=True)
            if trainee.fixed or (windows and not self._open(trainee, option)):
                continue
            nodes = ground.named(spec, option.kind) if spec.among else [ANY]
            for node in nodes:
                self._row(number, trainee, entry, node, takes_s + trainee.restart_s)

    def _anywhere(self, number: int, trainee: Trainee) -> None:
        """Add the options of a waiting job that may use any node: most jobs of a long queue."""
        spec, menu = trainee.view.spec, trainee.menu
        asked = id(menu), spec.gpus, spec.memory_bytes
        columns = self._columns.get(asked)
        if columns is None:
            columns = self._columns[asked] = _Columns.of(menu, spec)
        left, count = max(1.0 - trainee.view.done, 0.0), len(menu)
        self.keys += [(entry, ANY) for entry in range(count)]
        self._job += [number] * count
        self._kind += columns.kinds
        self._node += [ANY] * count
        self._amounts += columns.amounts
        self._charge += columns.charges
        self._time += [left * whole_s + trainee.restart_s for whole_s in columns.whole_s]
        self._power += columns.powers
        self._stays += [False] * count
        self._last += columns.last

    def _open(self, trainee: Trainee, option: Configuration) -> bool:
        """Return whether no reservation withholds nodes of a kind from a job until it ends."""
        ground, spec = self._gpu_nodes, trainee.view.spec
        ends_ns = self._now_ns + trainee.holds_ns(option)
        node_id = ground.names[ground.kinds[option.kind].nodes[0]]
        return ground.windows.open(spec, node_id, self._now_ns, ends_ns)

    def _row(
        self,
        number: int,
        trainee: Trainee,
        entry: int,
        node: int,
        takes_s: float,
        *,
        stays: bool = False,
    ) -> None:
        option, spec = trainee.menu[entry], trainee.view.spec
        self.keys.append((entry, node))
        self._job.append(number)
        self._kind.append(option.kind)
        self._node.append(node)
        units = option.units
        self._amounts.append((units * spec.gpus, option.cores, units * spec.memory_bytes))
        self._charge.append(option.charge_uw)
        self._time.append(takes_s)
        self._power.append(option.power_w)
        self._stays.append(stays)
        self._last.append(option.last)

    def listed(self) -> Configurations:
        """Return all options so far, with their costs."""
        tariff, begin_s = self._costs.tariff, self._calendar_s
        job, time_s = np.array(self._job, dtype=np.int64), np.array(self._time)
        kind, power = np.array(self._kind, dtype=np.int64), np.array(self._power)
        draws = [one.draw for one in self._gpu_nodes.kinds]
        alone = np.array([each.power_w(0, 0.0) for each in draws])[kind]
        return Configurations(
            job=job,
            kind=kind,
            node=np.array(self._node, dtype=np.int64),
            amounts=np.array(self._amounts, dtype=np.int64).reshape(-1, RESOURCES),
            power_uw=np.array(self._charge, dtype=np.int64),
            time_s=time_s,
            cost_eur=tariff.cost_eur(power, begin_s, time_s),
            node_eur=tariff.cost_eur(np.minimum(alone, power), begin_s, time_s),
            stays=np.array(self._stays, dtype=np.bool_),
            last=np.array(self._last, dtype=np.bool_),
        )

    def request_context(self, trainees: Sequence[Trainee]) -> RequestContext:
        """Return the requests of the jobs."""
        late = self._costs.late_eur_per_h
        weight = np.array(
            [one.view.spec.weight * one.view.spec.priority * late / 3600.0 for one in trainees]
        )
        movable = [one.restart_s for one in trainees if one.view.current and not one.fixed]
        return RequestContext(
            due_s=np.array([self._due_s(one.view, one.menu) for one in trainees]),
            weight_eur_s=weight,
            must=np.array([one.fixed for one in trainees], dtype=np.bool_),
            restart_s=max(movable, default=0.0),
        )

    def _due_s(self, view: JobView, menu: tuple[Configuration, ...]) -> float:
        if view.spec.due_ns >= 0:
            return (view.spec.due_ns - self._now_ns) / NS_PER_S
        whole_s = min(option.whole_s for option in menu)
        return self._costs.slack * whole_s - (self._now_ns - view.submitted_ns) / NS_PER_S
