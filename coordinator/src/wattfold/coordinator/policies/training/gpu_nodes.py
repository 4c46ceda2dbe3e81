"""GPU nodes grouped by kind, and the possible configurations of training jobs on them.

A *configuration* is t_jng with a level p: a kind of nodes, a number of units of the job and so of
GPUs, and a limit of each GPU. Levels are spread between half of the maximum limit and the maximum,
because below half the energy per epoch rises again. The minimum limit also counts, but it is used
only if the remaining power suffices for nothing else.

If no epoch of an application was measured on the permitted nodes, the user's estimate counts, or
the default assumption (`estimates`), on GPUs of every model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wattfold.contract.ids import NodeId
from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.core.model.node import Zone
from wattfold.coordinator.core.model.plan import JobView, NodeView
from wattfold.coordinator.core.model.reservation import Reservation, Windows
from wattfold.coordinator.core.power.charge import (
    cores_uw,
    gpu_zones,
    shares_uw,
)
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.models.training import EpochTime
from wattfold.coordinator.models.training_cost import NodeDraw
from wattfold.coordinator.policies.resources.estimates import estimate, run_time_s
from wattfold.coordinator.policies.resources.gpu_levels import least_level_uw, spaced_levels_uw

MENUS_KEPT = 4096
"""Maximum number of cached menus. Newly learnt times make older menus useless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Assumed power of nodes that do not report it, in watts."""

    host_w: float = 0.0
    """Power of a node without its GPUs; 0 = its charge without them."""
    gpu_w: float = 250.0
    """Power of a working GPU without a known limit or curve."""
    idle_share: float = 0.13
    """Power of an idle GPU, as a share of its maximum limit."""
    levels: int = 1
    """Number of GPU limits to choose from; 1 = the maximum only."""


class Configuration(NamedTuple):
    """A way to run a job. ``level_uw`` 0 is the maximum limit of its GPUs."""

    kind: int
    units: int
    level_uw: int
    whole_s: float
    power_w: float
    """Power of its node with this job alone."""
    charge_uw: int
    """Additional charge of the node."""
    cores: int
    last: bool


class Kind:
    """Nodes that are identical for every job, apart from their free resources."""

    def __init__(self, number: int, view: NodeView, draws: Draws) -> None:
        self.number, self.view, self.draws = number, view, draws
        self.nodes: list[int] = []
        """Indices of the nodes in the site."""
        spec = view.spec
        zones = gpu_zones(spec, spec.gpus)
        self.zone: Zone | None = zones[0] if len(zones) == len(spec.gpus) else None
        floors_uw = sum(zone.floor_uw for zone in zones)
        host_w = draws.host_w or w_from_uw(max(view.fixed_uw - floors_uw, 0))
        self._most_w = w_from_uw(self.zone.cap_uw_max) if self.zone else draws.gpu_w
        self.draw = NodeDraw(
            host_w=host_w, idle_w=draws.idle_share * self._most_w, gpus=len(spec.gpus)
        )

    def configurations(
        self, view: JobView, cap_uw: int, *, measured: bool
    ) -> Iterator[Configuration]:
        """Yield all configurations of a job on an empty node of this kind.

        With ``measured`` they use the measured times of epochs, otherwise the estimated run time.
        """
        spec, node = view.spec, self.view.spec
        if not {*spec.features} <= {*self.view.features}:
            return
        cap_uw = min(spec.cap_uw or cap_uw, node.kind.most_uw)
        for units in range(spec.min_size, view.max_size + 1):
            cores = len(node.cpus) if spec.exclusive else units * spec.unit_cores
            amounts = spec.unit_amounts
            if cores > len(node.cpus) or units * amounts.gpus > len(node.gpus):
                return
            if units * amounts.memory_bytes > node.memory_bytes and amounts.memory_bytes:
                return
            time = self._measured(view, units) if measured else self._estimated(view, units)
            if time is None:
                continue
            for level_uw, last in self._levels(spec, time):
                whole_s = spec.epochs * time.under_s(w_from_uw(level_uw) if level_uw else 0.0)
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

    def _measured(self, view: JobView, units: int) -> EpochTime | None:
        training, model = view.training, self.view.spec.gpu_model
        return training.on(model, units * view.spec.gpus) if training is not None else None

    def _estimated(self, view: JobView, units: int) -> EpochTime:
        node, spec = self.view.spec, view.spec
        whole_s = run_time_s(view, [node.kind], units, node.kind.most_uw)
        return EpochTime(
            gpu_model=node.gpu_model, gpus=units * spec.gpus, seconds=whole_s / spec.epochs
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
        """Return its additional charge without GPUs."""
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


class GpuNodes:
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
        """Return all configurations of a job, regardless of free and reserved nodes.

        Jobs with equal properties share one object, because hundreds of jobs may train the same
        application.
        """
        spec = view.spec
        menu: tuple[Configuration, ...] = ()
        if view.training is not None:
            menu = self._kept(view, view.training, measured=True)
        if menu:
            return menu
        stated = spec.time_ns, spec.limit_ns, view.planned_ns
        return self._kept(view, (spec.epochs, spec.app, *stated, view.profile), measured=False)

    def _kept(self, view: JobView, times: object, *, measured: bool) -> tuple[Configuration, ...]:
        asked = _asked(view), times
        menu = self._menus.get(asked)
        if menu is None:
            if len(self._menus) >= MENUS_KEPT:
                self._menus.clear()
            # Only of the nodes that it names.
            spec, cap_uw = view.spec, self.cap_uw
            kinds = [kind for kind in self.kinds if not spec.among or self.named(spec, kind.number)]
            found = (kind.configurations(view, cap_uw, measured=measured) for kind in kinds)
            menu = self._menus[asked] = tuple(one for own in found for one in own)
        return menu

    def estimated(self, view: JobView, menu: Sequence[Configuration]) -> str:
        """Return the source of the times of a menu if they are estimates, for users; else empty."""
        if not menu:
            return ""
        node = self.kinds[menu[0].kind].view.spec
        training = view.training
        if training and training.on(node.gpu_model, menu[0].units * view.spec.gpus):
            return ""
        return estimate(view, node.kind).source

    def named(self, spec: JobSpec, kind: int) -> list[int]:
        """Return the nodes of a kind that a job names; empty if it names no nodes."""
        return [n for n in self.kinds[kind].nodes if self.names[n] in spec.among]


def trains(view: JobView) -> bool:
    """Return whether a job is planned by its epochs: on one node, in units with GPUs."""
    spec = view.spec
    return spec.epochs > 0 and spec.unit is SizeUnit.UNITS and spec.gpus > 0


def times_of(view: JobView) -> object:
    """Return all properties besides the specification that determine the times of a job."""
    return view.training, view.planned_ns, view.profile


def _asked(view: JobView) -> object:
    """Return all properties of a job that `Kind.configurations` uses, apart from times."""
    spec = view.spec
    units = spec.min_size, view.max_size, spec.unit_cores, spec.exclusive, spec.among
    return *units, spec.unit_amounts, spec.features, spec.cap_uw, spec.levels


def _key(view: NodeView, reservations: Sequence[Reservation]) -> object:
    spec = view.spec
    zones = tuple((zone.kind, zone.cap_uw_max, zone.floor_uw, zone.can_cap) for zone in spec.zones)
    windows = tuple(one.name for one in reservations if spec.node_id in one.nodes)
    asked = spec.gpu_model, len(spec.gpus), spec.memory_bytes, spec.kind, view.features
    return *asked, zones, view.fixed_uw, windows
