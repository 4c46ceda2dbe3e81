"""Nodes with GPUs, like ones together, and the configurations that training jobs may have there.

A *configuration* is t_jng with a level p: a kind of nodes, a number of units of the job and so of
GPUs, and a limit of each GPU. Levels are spread between half of the greatest limit and that limit:
below half energy per epoch rises again. The least limit there is counts as well, but is only taken
where the power left does for nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wattfold.contract.ids import NodeId
from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core.charge import (
    cores_uw,
    gpu_zones,
    shares_uw,
)
from wattfold.coordinator.core.job import JobSpec, Share, SizeUnit
from wattfold.coordinator.core.levels import Levels
from wattfold.coordinator.core.node import Zone
from wattfold.coordinator.core.plan import JobView, NodeView
from wattfold.coordinator.core.reservation import Reservation, Windows
from wattfold.coordinator.models.training import EpochTime
from wattfold.coordinator.models.training_cost import NodeDraw
from wattfold.coordinator.policies.gpu_levels import least_level_uw, spaced_levels_uw

MENUS_KEPT = 4096
"""Times that are learnt anew make menus that nobody asks for any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """What is taken for the draw of nodes where they do not say. Watts."""

    host_w: float = 0.0
    """Of a node but for its GPUs; 0 = what it is charged with beside them."""
    gpu_w: float = 250.0
    """Of a GPU at work of which neither a limit nor a curve is known."""
    idle_share: float = 0.13
    """Of its greatest limit, a GPU without work."""
    levels: int = 1
    """Limits of GPUs to choose among; 1 = their greatest."""


class Configuration(NamedTuple):
    """One way to run a job. ``level_uw`` 0 is the greatest limit of its GPUs."""

    kind: int
    units: int
    level_uw: int
    whole_s: float
    power_w: float
    """What its node draws with it alone."""
    charge_uw: int
    """What it adds to the charge of the node."""
    cores: int
    last: bool


class Kind:
    """Nodes that are the same to every job but for what is free there."""

    def __init__(self, number: int, view: NodeView, draws: Draws) -> None:
        self.number, self.view, self.draws = number, view, draws
        self.nodes: list[int] = []
        """By their places in the site."""
        spec = view.spec
        zones = gpu_zones(spec, spec.gpus)
        self.zone: Zone | None = zones[0] if len(zones) == len(spec.gpus) else None
        floors_uw = sum(zone.floor_uw for zone in zones)
        host_w = draws.host_w or w_from_uw(max(view.fixed_uw - floors_uw, 0))
        self._most_w = w_from_uw(self.zone.cap_uw_max) if self.zone else draws.gpu_w
        self.draw = NodeDraw(
            host_w=host_w, idle_w=draws.idle_share * self._most_w, gpus=len(spec.gpus)
        )

    def configurations(self, view: JobView, cap_uw: int) -> Iterator[Configuration]:
        """All that a job may have on one of these nodes when it is empty."""
        spec, training = view.spec, view.training
        node = self.view.spec
        if training is None or not {*spec.features} <= {*self.view.features}:
            return
        cap_uw = min(spec.cap_uw or cap_uw, node.kind.most_uw)
        for units in range(spec.least_size, view.greatest_size + 1):
            cores = len(node.cpus) if spec.exclusive else units * spec.unit_cores
            amounts = spec.unit_amounts
            if cores > len(node.cpus) or units * amounts.gpus > len(node.gpus):
                return
            if units * amounts.memory_bytes > node.memory_bytes and amounts.memory_bytes:
                return
            time = training.on(node.gpu_model, units * spec.gpus)
            if time is None:
                continue
            for level_uw, last in self._levels(spec, time):
                whole_s = training.epochs * time.under_s(w_from_uw(level_uw) if level_uw else 0.0)
                yield Configuration(
                    kind=self.number,
                    units=units,
                    level_uw=level_uw,
                    whole_s=whole_s,
                    power_w=self._power_w(units * spec.gpus, time, level_uw)
                    + w_from_uw(self._cores_uw(spec, units, cap_uw)),
                    charge_uw=self._charge_uw(spec, units, cap_uw, level_uw),
                    cores=cores,
                    last=last,
                )

    def _levels(self, spec: JobSpec, time: EpochTime) -> Iterator[tuple[int, bool]]:
        if spec.levels.gpu_uw:
            yield spec.levels.gpu_uw if time.curve else 0, False
            return
        yield 0, False
        zone, count = self.zone, self.draws.levels
        if zone is None or time.curve is None or count < 2:
            return
        for level_uw in spaced_levels_uw(zone.floor_uw, zone.cap_uw_max, count):
            yield level_uw, False
        if zone.floor_uw < least_level_uw(zone.floor_uw, zone.cap_uw_max):
            yield zone.floor_uw, True

    def _power_w(self, gpus: int, time: EpochTime, level_uw: int) -> float:
        limit_w = w_from_uw(level_uw) if level_uw else self._most_w
        each_w = time.curve.draw_w(limit_w) if time.curve else limit_w
        return self.draw.power_w(gpus, each_w)

    def _cores_uw(self, spec: JobSpec, units: int, cap_uw: int) -> int:
        """What it adds to the charge beside its GPUs."""
        cores = min(units * spec.unit_cores, len(self.view.spec.cpus))
        return cores_uw(self.view.spec, cores, cap_uw, spec.levels, self.view.dram_cap_uw)

    def _charge_uw(self, spec: JobSpec, units: int, cap_uw: int, level_uw: int) -> int:
        node = self.view.spec
        share = Share(
            node_id=node.node_id,
            cpus=node.cpus.take(units * spec.unit_cores),
            gpus=node.gpus[: units * spec.gpus],
        )
        levels = Levels(gpu_uw=level_uw).under(spec.levels)
        return shares_uw((share,), {node.node_id: node}, cap_uw, levels, self.view.dram_cap_uw)


class Ground:
    """The nodes with GPUs of a known model, by kind."""

    def __init__(
        self, nodes: Sequence[NodeView], reservations: Sequence[Reservation], draws: Draws
    ) -> None:
        self.windows = Windows(reservations)
        self.kinds: list[Kind] = []
        self.names: list[NodeId] = []
        self.kind_of: list[int] = []
        found: dict[object, Kind] = {}
        for view in nodes:
            spec = view.spec
            if not spec.gpus or not spec.gpu_model:
                continue
            key = _key(view, reservations)
            if key not in found:
                found[key] = Kind(len(self.kinds), view, draws)
                self.kinds.append(found[key])
            found[key].nodes.append(len(self.names))
            self.names.append(spec.node_id)
            self.kind_of.append(found[key].number)
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.cap_uw = max((node.spec.kind.most_uw for node in nodes), default=0)
        self._menus: dict[object, tuple[Configuration, ...]] = {}

    def menu(self, view: JobView) -> tuple[Configuration, ...]:
        """All configurations of a job, whatever is free and reserved now.

        One object for all jobs that are alike in this: hundreds train the same application.
        """
        asked = _asked(view)
        menu = self._menus.get(asked)
        if menu is None:
            if len(self._menus) >= MENUS_KEPT:
                self._menus.clear()
            # Of nodes that it names alone: where nothing is known of those it is none of ours.
            spec = view.spec
            kinds = [kind for kind in self.kinds if not spec.among or self.named(spec, kind.number)]
            cap_uw = self.cap_uw
            menu = tuple(one for kind in kinds for one in kind.configurations(view, cap_uw))
            self._menus[asked] = menu
        return menu

    def named(self, spec: JobSpec, kind: int) -> list[int]:
        """The nodes of a kind that a job names; none where it names no nodes at all."""
        return [n for n in self.kinds[kind].nodes if self.names[n] in spec.among]


def trains(view: JobView) -> bool:
    """Whether a job is planned by its epochs: one node, units with GPUs, and times are known."""
    spec = view.spec
    return view.training is not None and spec.unit is SizeUnit.UNITS and spec.gpus > 0


def _asked(view: JobView) -> object:
    """All of a job that `Kind.configurations` goes by."""
    spec = view.spec
    units = spec.least_size, view.greatest_size, spec.unit_cores, spec.exclusive, spec.among
    return *units, spec.unit_amounts, spec.features, spec.cap_uw, spec.levels, view.training


def _key(view: NodeView, reservations: Sequence[Reservation]) -> object:
    spec = view.spec
    zones = tuple((zone.kind, zone.cap_uw_max, zone.floor_uw, zone.can_cap) for zone in spec.zones)
    windows = tuple(one.name for one in reservations if spec.node_id in one.nodes)
    asked = spec.gpu_model, len(spec.gpus), spec.memory_bytes, spec.kind, view.features
    return *asked, zones, view.fixed_uw, windows
