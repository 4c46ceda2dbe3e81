"""State of a job in PARM: its request, its resources, and its options, computed once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wattfold.contract.ids import NodeId
from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.power.charge import held_uw
from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.coordinator.policies.parm.menu import DramOffers, NodeAlternative, NodeSummary, Offer
from wattfold.coordinator.policies.parm.options import (
    Alternative,
    DramLevels,
    Floats,
    JobOptions,
    NodeLevels,
    OptionShape,
    spaced_caps,
    spaced_sizes,
)
from wattfold.coordinator.policies.parm.settings import ParmRules, ParmVersion
from wattfold.coordinator.policies.port import SizeRequest
from wattfold.coordinator.policies.resources.gpu_levels import GpuLevels, spaced_levels_uw


@dataclass(slots=True, kw_only=True, eq=False)
class ParmJob:
    """A waiting or running job; ``size`` 0 = it has not started."""

    job: int
    ask: SizeRequest
    done: float
    """Completed share of the work, while it waits."""
    profiles: tuple[PassProfile, ...]
    """Profiles on nodes of each kind."""
    offers: tuple[Offer, ...] = ()
    """Inputs for its options."""
    options: JobOptions | None = None
    """Options of all sizes; None until computed."""
    dram: DramLevels | None = None
    """DRAM levels on the nodes of the first offer. A running job has no other offer."""
    size: int = 0
    cap_uw: int = 0
    dram_cap_uw: int = 0
    gpu_uw: int = 0
    started_ns: int = -1
    resized_ns: int = -1
    movable: bool = True
    told: bool = False
    """Whether the driver has reported its resources since the last decision."""
    here: JobOptions | None = None
    """Options of its current size only, while it runs."""
    stall_s: Floats | None = None
    """Stall of each option, from the current size; None until needed."""
    given: tuple[JobOptions, int] | None = None
    """Table of its last decision, and the chosen row."""

    @property
    def table(self) -> JobOptions:
        """Options of all sizes."""
        assert self.options is not None, "laid out before each decision"
        return self.options

    @property
    def place(self) -> tuple[int, int]:
        """Order of submission."""
        return self.ask.submitted_ns, self.job

    def resize(self, size: int) -> None:
        """Set its size from now on."""
        self.size, self.stall_s = size, None
        self.here = self.options.of_size(size) if self.options else None

    def charged_uw(self) -> int:
        """Return its charge while it runs, in microwatts."""
        dram = self.dram
        beyond_uw = self.dram_cap_uw - dram.standing_uw if dram and self.dram_cap_uw else 0
        charge = self.offers[0][0].charge(self.ask)
        level = NodeLevels(self.cap_uw, beyond_uw, self.gpu_uw)
        return int(charge.power_uw((self.size,), (level,))[0, 0])

    def offers_on(
        self, nodes: NodeSummary, on: Iterable[NodeId], rules: ParmRules
    ) -> tuple[Offer, ...]:
        """Return the permitted nodes and sizes; ``on`` are its current nodes of different kinds."""
        if self.size:
            return (nodes.present(self.ask, on, lambda most: self._sizes(most, rules)),)
        return tuple(nodes.offers(self.ask, lambda most: self._sizes(most, rules)))

    def kin(self, on: Iterable[NodeId]) -> tuple[object, ...]:
        """Return a key that is equal for jobs with the same options except for their times."""
        ask = self.ask
        asked = ask.unit, ask.exclusive, ask.cap_uw, ask.dram_uw, ask.least, ask.greatest
        return (
            *asked,
            ask.unit_cores,
            ask.spread,
            *(ask.gpus, ask.gpu_uw, ask.gpu_curves),
            self.size,
            tuple(on),
            *(own.shape for own in self.profiles),
        )

    def shape(
        self, offers: tuple[Offer, ...], nodes: NodeSummary, rules: ParmRules, drams: DramOffers
    ) -> OptionShape:
        """Return its options without their times."""
        least = max(min(self.ask.least, nodes.largest_size(self.ask)), 1)
        parts = [self._alternative(offer, nodes, rules, drams) for offer in offers]
        return OptionShape(parts, least, () if nodes.alike else nodes.kinds)

    def lay_out(self, offers: tuple[Offer, ...], shape: OptionShape, options: JobOptions) -> None:
        """Store its options, which have the given shape."""
        self.offers, self.dram, self.options = offers, shape.dram, options
        self.here = options.of_size(self.size) if self.size else None
        self.stall_s = None

    def _sizes(self, most: int, rules: ParmRules) -> tuple[int, ...]:
        """Return N_j, plus the current size."""
        ask = self.ask
        if rules.version is ParmVersion.NOMM:
            only = ask.least if rules.settings.nomm_size == "min" else ask.greatest
            sizes: tuple[int, ...] = (only,) if only <= most else ()
        else:
            sizes = spaced_sizes(ask.least, min(ask.greatest, most), rules.settings.sizes)
        if not self.size or self.size in sizes:
            return sizes
        return tuple(sorted((*sizes, self.size)))

    def _dram_on(self, place: NodeAlternative, drams: DramOffers) -> DramLevels | None:
        """Return DRAM levels to choose from; on heterogeneous nodes only the requested level."""
        asked_uw = self.ask.dram_uw
        if len(place.kinds) == 1:
            return drams.of(place.kinds[0], asked_uw)
        found = [drams.of(kind, asked_uw) for kind in place.kinds] if asked_uw else []
        able = [one for one in found if one is not None]
        # Charged as on the nodes with the highest charge.
        return min(able, key=lambda kind: kind.standing_uw, default=None)

    def _gpus_on(self, place: NodeAlternative, rules: ParmRules) -> GpuLevels | None:
        """Return GPU levels to choose from; on heterogeneous nodes only the requested level."""
        ask, kinds = self.ask, place.kinds
        if not (ask.gpus and any(kind.gpu_most_uw for kind in kinds)):
            return None
        caps_uw: tuple[int, ...] = (0,)
        if ask.gpu_uw:
            caps_uw = (ask.gpu_uw,)
        elif len(kinds) == 1 and rules.settings.gpu_levels > 1:
            floor_uw, most_uw = kinds[0].gpu_floor_uw, kinds[0].gpu_most_uw
            caps_uw = (*reversed(spaced_levels_uw(floor_uw, most_uw, rules.settings.gpu_levels)), 0)
        known = dict(ask.gpu_curves)
        curves = [
            known.get(kind.gpu_model) or GpuCurve.assumed(w_from_uw(kind.gpu_most_uw))
            if kind.gpu_most_uw
            else None
            for kind in kinds
        ]
        return GpuLevels(caps_uw=caps_uw, curves=tuple(curves)) if caps_uw != (0,) else None

    def _alternative(
        self, offer: Offer, nodes: NodeSummary, rules: ParmRules, drams: DramOffers
    ) -> Alternative:
        place, sizes = offer
        at = tuple(nodes.kinds.index(kind) for kind in place.kinds)
        profiles = tuple(self.profiles[index] for index in at)
        both = zip(profiles, place.kinds, strict=True)
        levels_uw = {level for pair in both for level in _levels(self.ask, *pair, rules)}
        return Alternative(
            profiles=profiles,
            sizes=sizes,
            caps_uw=tuple(sorted(levels_uw)),
            charge=place.charge(self.ask),
            at=at,
            dram=rules.dram or self._dram_on(place, drams),
            gpu=self._gpus_on(place, rules),
        )


def _levels(
    ask: SizeRequest, profile: PassProfile, kind: NodeKind, rules: ParmRules
) -> tuple[int, ...]:
    """Return P_j in microwatts, ascending: levels that a node of this kind can hold."""
    if ask.cap_uw:
        return (held_uw(kind, ask.cap_uw),)
    if rules.caps_uw is not None:
        return rules.caps_uw
    low_uw = kind.lowest_uw
    return spaced_caps(profile, rules.settings.levels, w_from_uw(low_uw), w_from_uw(kind.most_uw))
