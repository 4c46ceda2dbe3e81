"""DRAM levels that PARM offers on named nodes, by kind of node.

In a pool all nodes have the same default DRAM cap, and the levels are given. Here both follow from
the nodes. Every node of the kind must be able to hold a level, and the charge is the highest of
these nodes. A requested level is offered unchanged; each node clips it to its range. `DramChoice`
defines the levels to choose from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wattfold.contract.units import uw_from_w
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
