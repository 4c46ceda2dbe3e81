"""Settings of PARM for the service and for simulated pools, and the DRAM levels that they give.

In a pool all nodes have the same default DRAM cap, and the levels are given. On named nodes both
follow from the nodes of a kind (`DramOffers`). Every node of the kind must be able to hold a level,
and the charge is the highest of these nodes. A requested level is offered unchanged; each node
clips it to its range. `DramChoice` defines the levels to choose from.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from wattfold.contract.units import NS_PER_S, uw_from_w, w_from_uw
from wattfold.coordinator.core.model.node import NodeKind, NodeSpec
from wattfold.coordinator.core.model.plan import NodeView
from wattfold.coordinator.core.power.charge import (
    CAP_STEP_UW,
    dram_beyond_uw,
    dram_range_uw,
    dram_standing_uw,
)
from wattfold.coordinator.models.dram_model import DramModel
from wattfold.coordinator.policies.parm.options import DramLevels


@dataclass(frozen=True, slots=True, kw_only=True)
class DramChoice:
    """Number of levels, evenly spaced from the idle power of DRAM to its maximum need; 0 = none."""

    levels: int = 0
    model: DramModel = DramModel()  # noqa: RUF009 - immutable

    @classmethod
    def of(cls, levels: int, rest_w: float, work_w: float) -> DramChoice:
        """Return the choice for the power of idle DRAM and the maximum additional power."""
        return cls(levels=levels, model=DramModel(static_w=rest_w, full_w=rest_w + work_w))

    def levels_uw(self, least_uw: int, most_uw: int) -> tuple[int, ...]:
        """Return the levels in a range, ascending; levels beyond its ends are clipped."""
        rest_w, full_w = self.model.static_w, self.model.full_w
        steps = range(1, self.levels + 1)
        spaced = [uw_from_w(rest_w + (full_w - rest_w) * step / self.levels) for step in steps]
        clipped = {max(min(level, most_uw), least_uw) for level in spaced}
        held = sorted({level // CAP_STEP_UW * CAP_STEP_UW for level in clipped})
        return tuple(level for level in held if level > uw_from_w(rest_w) and level >= least_uw)


NO_LEVELS = DramChoice()


class DramOffers:
    """DRAM levels on nodes of each kind, computed at first use."""

    def __init__(self, nodes: Iterable[NodeView], choice: DramChoice) -> None:
        self._nodes = tuple(nodes)
        self._choice = choice
        self._specs: dict[NodeKind, list[NodeSpec]] | None = None
        self._found: dict[tuple[NodeKind, int], DramLevels | None] = {}

    def of(self, kind: NodeKind, asked_uw: int) -> DramLevels | None:
        """Return the levels of a job on nodes of a kind; None keeps DRAM at its default caps."""
        if not asked_uw and not self._choice.levels:
            return None
        key = kind, asked_uw
        if key not in self._found:
            found = self._asked(kind, asked_uw) if asked_uw else self._chosen(kind)
            self._found[key] = found
        return self._found[key]

    def _asked(self, kind: NodeKind, asked_uw: int) -> DramLevels | None:
        dram_cap_uw, specs = self._known(kind)
        able = [spec for spec in specs if dram_range_uw(spec)[1]]
        if not able:
            return None
        beyond_uw = max(dram_beyond_uw(spec, asked_uw, dram_cap_uw) for spec in able)
        if len(able) < len(specs):
            beyond_uw = max(beyond_uw, 0)
        standing_uw = asked_uw - beyond_uw
        return DramLevels(caps_uw=(asked_uw,), standing_uw=standing_uw, model=self._choice.model)

    def _chosen(self, kind: NodeKind) -> DramLevels | None:
        dram_cap_uw, specs = self._known(kind)
        if not specs:
            return None
        ranges = [dram_range_uw(spec) for spec in specs]
        least_uw, most_uw = max(low for low, _ in ranges), min(high for _, high in ranges)
        levels_uw = self._choice.levels_uw(least_uw, most_uw) if least_uw < most_uw else ()
        if not levels_uw:
            return None
        standing_uw = min(dram_standing_uw(spec, dram_cap_uw) for spec in specs)
        return DramLevels(caps_uw=levels_uw, standing_uw=standing_uw, model=self._choice.model)

    def _known(self, kind: NodeKind) -> tuple[int, list[NodeSpec]]:
        if self._specs is None:
            self._specs = {}
            for node in self._nodes:
                self._specs.setdefault(node.spec.kind, []).append(node.spec)
        dram_cap_uw = self._nodes[0].dram_cap_uw if self._nodes else 0
        return dram_cap_uw, self._specs.get(kind, [])

    def like(self, other: DramOffers) -> bool:
        """Return whether both give the same answers to all requests so far."""
        return all(self.of(*key) == found for key, found in other._found.items())


class ParmVersion(enum.Enum):
    """The three versions of the paper."""

    WSE = "wse"
    NOSE = "nose"
    NOMM = "nomm"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizePrice:
    """Cost of moving a job's data (Eq. 20). The data fill the memory of its minimum size."""

    memory_mb: float
    """Memory of a node."""
    link_mb_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ParmSettings:
    """The settings of PARM.

    ``alpha`` of Eq. 8 trades throughput (small) for fairness (large). ``gap`` is the relative
    distance from the optimum at which the solver may stop. ``solver`` is ``lagrangian``, ``glpk``
    (the reference), ``highs`` or ``greedy``. ``nomm_size`` is the end of its range that noMM gives
    a job, because the paper states both ends. With ``revisits`` the scheduler decides again when
    the first lock ends; the published evaluation decides only when a job arrives or ends.
    ``caps_uw`` is P_j of all jobs; None spaces ``levels_max`` caps by each job's profile.

    Three settings go beyond the paper. ``resize_price`` includes resize costs in the options
    (`parm.choice`). ``dram`` adds DRAM caps to choose from. ``gpu_levels`` is the number of GPU
    limits to choose from (`gpu_levels`); 1 = the maximum only. ``patience``: nodes are held for a
    job that has waited this many times its estimate (`held_nodes`); 0 = never, as published.
    """

    variant: ParmVersion = ParmVersion.WSE
    alpha: float = 0.28
    sizes_max: int = 8
    levels_max: int = 6
    resize_interval_ns: int = 500 * NS_PER_S
    gap: float = 1e-3
    solver: str = "lagrangian"
    nomm_size: str = "min"
    revisits: bool = True
    caps_uw: tuple[int, ...] | None = None
    resize_price: ResizePrice | None = None
    dram: DramLevels | None = None
    dram_choice: DramChoice = NO_LEVELS
    """The same for named nodes; each kind has its own default caps (`DramOffers`)."""
    gpu_levels: int = 1
    patience: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for DRAM caps at or below the power of idle DRAM."""
        if self.dram and not w_from_uw(self.dram.caps_uw[0]) > self.dram.model.static_w:
            raise ValueError(
                f"DRAM caps must be above {self.dram.model.static_w} W, "
                f"got {watts_text(self.dram.caps_uw)}"
            )

    @property
    def name(self) -> str:
        """``parm-wse``, ``parm-nose`` or ``parm-nomm``."""
        return f"parm-{self.variant.value}"


def watts_text(powers_uw: tuple[int, ...]) -> str:
    """Return powers for users."""
    return ", ".join(f"{w_from_uw(power_uw):g} W" for power_uw in powers_uw)
