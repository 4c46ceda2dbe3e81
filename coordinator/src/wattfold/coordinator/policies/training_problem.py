"""Training jobs and what is free for them as a problem of `solvers.training`.

All that run and may be moved are in it beside those that wait. One that runs has its present place
as an option of its own, without what it would lose; where it may not be pre-empted that is the only
one. What jobs hold that are on their way out is taken for free, as it soon is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.charge import assigned_on_uw
from wattfold.coordinator.core.job import JobSpec
from wattfold.coordinator.core.plan import JobView
from wattfold.coordinator.models.training_cost import Tariff
from wattfold.coordinator.policies.conservative_search import without_leaving
from wattfold.coordinator.policies.placement import Room, takes_whole_nodes
from wattfold.coordinator.policies.scheduler import Site
from wattfold.coordinator.policies.training_ground import Configuration, Ground
from wattfold.coordinator.solvers.training.building import (
    Asking,
    Configurations,
    Weighing,
    built,
)
from wattfold.coordinator.solvers.training.problem import ANY, Nodes, Problem

RESOURCES = 3
"""GPUs, cores, memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What counts in money. ``late_eur_h``: an hour of tardiness of a job of weight 1."""

    tariff: Tariff
    late_eur_h: float = 10.0
    weighing: Weighing = Weighing()  # noqa: RUF009 - immutable
    restart_s: float = 60.0
    """What a pre-emption costs a job of which nothing was learnt."""
    slack: float = 3.0
    """Without a due date a job is due after so many times its fastest time."""


@dataclass(slots=True, kw_only=True)
class Trainee:
    """A job of the problem."""

    job: int
    view: JobView
    menu: tuple[Configuration, ...]
    fixed: bool
    """It stays where it is."""
    restart_s: float
    """What going on from its snapshot takes it; 0 where there is none."""

    @property
    def here(self) -> tuple[int, int]:
        """Its size and the level of its GPUs now; 0 and 0 while it waits."""
        current = self.view.current
        return (current.size, current.levels.gpu_uw) if current else (0, 0)

    def left_s(self, option: Configuration) -> float:
        """How long it would still work in a configuration."""
        return max(1.0 - self.view.done, 0.0) * option.whole_s

    def holds_ns(self, option: Configuration) -> int:
        """How long it is to be taken to hold a node where it starts now: its time limit, if any."""
        takes_s = self.left_s(option) + self.restart_s
        return self.view.spec.limit_ns or round(takes_s * NS_PER_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Posed:
    """A problem, and what its numbers mean."""

    problem: Problem
    trainees: list[Trainee]
    order: list[tuple[int, int]]
    """The menu entry and node of each option of the problem."""


def restart_s(view: JobView, costs: Costs) -> float:
    """What going on from a snapshot takes a job that runs or ran, as known of it or in general."""
    if view.current is None and view.done <= 0:
        return 0.0
    return view.restart_ns / NS_PER_S or costs.restart_s


def standing(site: Site) -> Room:
    """All nodes once those have gone that are on their way out."""
    views = [without_leaving(view) for view in site.nodes]
    return Room(views, site.spendable_uw + site.leaving_uw)


def pose(
    ground: Ground,
    site: Site,
    trainees: list[Trainee],
    others: Sequence[JobView],
    costs: Costs,
    now_ns: int,
    calendar_s: float,
) -> Posed:
    """The problem of these jobs beside all others that run. ``calendar_s``: the present, UTC."""
    room = standing(site)
    for view in others:
        assert view.current is not None
        power_uw = assigned_on_uw(view.current, room.specs, room.dram_cap_uw)
        room.take(view.current.shares, power_uw, takes_whole_nodes(view.spec))
    rows = _Rows(ground, costs, now_ns, calendar_s)
    for number, one in enumerate(trainees):
        rows.add(number, one)
    listed = rows.listed()
    free = [
        (room.stock.free(name).gpus, len(room.free[name]), room.stock.free(name).memory_bytes)
        for name in ground.names
    ]
    nodes = Nodes(
        kind=np.array(ground.kind_of, dtype=np.int64),
        free=np.array(free, dtype=np.int64).reshape(-1, RESOURCES),
    )
    asking = rows.asking(trainees)
    problem, order = built(asking, listed, nodes, room.power_uw, costs.weighing)
    return Posed(
        problem=problem, trainees=trainees, order=[rows.keys[option] for option in order.tolist()]
    )


class _Columns(NamedTuple):
    """The options of a menu as columns, for all jobs that have it."""

    kinds: list[int]
    amounts: list[tuple[int, int, int]]
    charges: list[int]
    whole_s: list[float]
    powers: list[float]
    last: list[bool]

    @classmethod
    def of(cls, menu: tuple[Configuration, ...], spec: JobSpec) -> _Columns:
        """Of jobs that ask for as much."""
        gpus, memory = spec.gpus, spec.memory_bytes
        return cls(
            kinds=[option.kind for option in menu],
            amounts=[(one.units * gpus, one.cores, one.units * memory) for one in menu],
            charges=[option.charge_uw for option in menu],
            whole_s=[option.whole_s for option in menu],
            powers=[option.power_w for option in menu],
            last=[option.last for option in menu],
        )


class _Rows:
    """Options one after the other, as numbers in lists: there may be ten thousand."""

    def __init__(self, ground: Ground, costs: Costs, now_ns: int, calendar_s: float) -> None:
        self._ground, self._costs = ground, costs
        self._now_ns, self._calendar_s = now_ns, calendar_s
        self.keys: list[tuple[int, int]] = []
        self._job: list[int] = []
        self._kind: list[int] = []
        self._node: list[int] = []
        self._amounts: list[tuple[int, int, int]] = []
        self._charge: list[int] = []
        self._time: list[float] = []
        self._power: list[float] = []
        self._lost: list[float] = []
        """Seconds of its present configuration that it has to do again."""
        self._last: list[bool] = []
        self._again: list[float] = []
        """By job: what a start from a snapshot takes it."""
        self._now_w: list[float] = []
        """By job: what it draws now."""
        self._columns: dict[tuple[int, int, int], _Columns] = {}

    def add(self, number: int, one: Trainee) -> None:
        """All options of a job."""
        view, ground = one.view, self._ground
        spec = view.spec
        again_s = one.restart_s
        if view.current is None and not (one.fixed or spec.among or ground.windows.concern(spec)):
            self._anywhere(number, one)
            self._again.append(again_s)
            self._now_w.append(0.0)
            return
        runs = view.current is not None
        place = ground.numbers[view.current.shares[0].node_id] if view.current else ANY
        now_w = 0.0
        windows = ground.windows if ground.windows.concern(spec) else None
        for entry, option in enumerate(one.menu):
            takes_s = one.left_s(option)
            if runs and ground.kind_of[place] == option.kind and option.units == one.here[0]:
                # Another level of its GPUs costs it nothing.
                now_w = now_w if now_w and option.level_uw != one.here[1] else option.power_w
                self._row(number, one, entry, place, takes_s, 0.0)
            if one.fixed or (windows and not self._open(one, option)):
                continue
            nodes = ground.named(spec, option.kind) if spec.among else [ANY]
            for node in nodes:
                self._row(number, one, entry, node, takes_s + again_s, again_s if runs else 0.0)
        self._again.append(again_s)
        self._now_w.append(now_w)

    def _anywhere(self, number: int, one: Trainee) -> None:
        """The options of a job that waits and may go to any node: most jobs of a long queue."""
        spec, menu = one.view.spec, one.menu
        asked = id(menu), spec.gpus, spec.memory_bytes
        columns = self._columns.get(asked)
        if columns is None:
            columns = self._columns[asked] = _Columns.of(menu, spec)
        left, count = max(1.0 - one.view.done, 0.0), len(menu)
        self.keys += [(entry, ANY) for entry in range(count)]
        self._job += [number] * count
        self._kind += columns.kinds
        self._node += [ANY] * count
        self._amounts += columns.amounts
        self._charge += columns.charges
        self._time += [left * whole_s + one.restart_s for whole_s in columns.whole_s]
        self._power += columns.powers
        self._lost += [0.0] * count
        self._last += columns.last

    def _open(self, one: Trainee, option: Configuration) -> bool:
        """Whether no reservation keeps a job from nodes of a kind until it has ended."""
        ground, spec = self._ground, one.view.spec
        ends_ns = self._now_ns + one.holds_ns(option)
        node_id = ground.names[ground.kinds[option.kind].nodes[0]]
        return ground.windows.open(spec, node_id, self._now_ns, ends_ns)

    def _row(
        self, number: int, one: Trainee, entry: int, node: int, takes_s: float, lost_s: float
    ) -> None:
        option, spec = one.menu[entry], one.view.spec
        self.keys.append((entry, node))
        self._job.append(number)
        self._kind.append(option.kind)
        self._node.append(node)
        units = option.units
        self._amounts.append((units * spec.gpus, option.cores, units * spec.memory_bytes))
        self._charge.append(option.charge_uw)
        self._time.append(takes_s)
        self._power.append(option.power_w)
        self._lost.append(lost_s)
        self._last.append(option.last)

    def listed(self) -> Configurations:
        """All options so far, with what they cost."""
        tariff, begin_s = self._costs.tariff, self._calendar_s
        job, time_s = np.array(self._job, dtype=np.int64), np.array(self._time)
        kind, power = np.array(self._kind, dtype=np.int64), np.array(self._power)
        draws = [one.draw for one in self._ground.kinds]
        alone = np.array([each.power_w(0, 0.0) for each in draws])[kind]
        rates = np.array(self._now_w) * tariff.rate_eur_s(1.0, begin_s)
        return Configurations(
            job=job,
            kind=kind,
            node=np.array(self._node, dtype=np.int64),
            amounts=np.array(self._amounts, dtype=np.int64).reshape(-1, RESOURCES),
            power_uw=np.array(self._charge, dtype=np.int64),
            time_s=time_s,
            cost_eur=tariff.cost_eur(power, begin_s, time_s),
            node_eur=tariff.cost_eur(np.minimum(alone, power), begin_s, time_s),
            loss_eur=np.array(self._lost) * rates[job],
            last=np.array(self._last, dtype=np.bool_),
        )

    def asking(self, trainees: Sequence[Trainee]) -> Asking:
        """What the jobs ask for."""
        late = self._costs.late_eur_h
        each_w_eur_s = self._costs.tariff.rate_eur_s(1.0, self._calendar_s)
        weight = np.array(
            [one.view.spec.weight * one.view.spec.priority * late / 3600.0 for one in trainees]
        )
        # Energy again, and later by so much.
        lost = [
            again_s * (watts * each_w_eur_s + each) if watts else 0.0
            for again_s, watts, each in zip(self._again, self._now_w, weight.tolist(), strict=True)
        ]
        return Asking(
            due_s=np.array([self._due_s(one.view, one.menu) for one in trainees]),
            weight_eur_s=weight,
            must=np.array([one.fixed for one in trainees], dtype=np.bool_),
            preempted_eur=np.array(lost),
        )

    def _due_s(self, view: JobView, menu: tuple[Configuration, ...]) -> float:
        if view.spec.due_ns >= 0:
            return (view.spec.due_ns - self._now_ns) / NS_PER_S
        whole_s = min(option.whole_s for option in menu)
        return self._costs.slack * whole_s - (self._now_ns - view.submitted_ns) / NS_PER_S
