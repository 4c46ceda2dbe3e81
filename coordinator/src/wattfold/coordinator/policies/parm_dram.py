"""DRAM levels that PARM offers on nodes with names, by kind of node.

In a pool all nodes have one standing DRAM cap and the levels are given. Here both follow from the
nodes: a level must be one that every node of the kind can hold, and is charged as on the node where
it costs most. A level that a job asks for is offered as it is, clipped by each node as far as it
must be. Which levels there are to choose from is said by `DramChoice`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wattfold.contract.units import uw_from_w
from wattfold.coordinator.core.charge import (
    CAP_STEP_UW,
    dram_beyond_uw,
    dram_range_uw,
    dram_standing_uw,
)
from wattfold.coordinator.core.node import NodeKind, NodeSpec
from wattfold.coordinator.core.plan import NodeView
from wattfold.coordinator.models.dram_model import DramModel
from wattfold.coordinator.policies.parm_options import DramLevels


@dataclass(frozen=True, slots=True, kw_only=True)
class DramChoice:
    """So many levels, evenly spaced from what DRAM draws at rest to what it can need; 0 = none."""

    levels: int = 0
    model: DramModel = DramModel()  # noqa: RUF009 - immutable

    @classmethod
    def of(cls, levels: int, rest_w: float, work_w: float) -> DramChoice:
        """The choice of these settings: DRAM draws so much at rest, and at most so much more."""
        return cls(levels=levels, model=DramModel(static_w=rest_w, full_w=rest_w + work_w))

    def levels_uw(self, least_uw: int, most_uw: int) -> tuple[int, ...]:
        """Those in a range, ascending; its ends stand for what is beyond them."""
        rest_w, full_w = self.model.static_w, self.model.full_w
        steps = range(1, self.levels + 1)
        spaced = [uw_from_w(rest_w + (full_w - rest_w) * step / self.levels) for step in steps]
        clipped = {max(min(level, most_uw), least_uw) for level in spaced}
        held = sorted({level // CAP_STEP_UW * CAP_STEP_UW for level in clipped})
        return tuple(level for level in held if level > uw_from_w(rest_w) and level >= least_uw)


NO_LEVELS = DramChoice()


class DramOffers:
    """What nodes of each kind can be offered. They are looked at when first asked for."""

    def __init__(self, nodes: Iterable[NodeView], choice: DramChoice) -> None:
        self._nodes = tuple(nodes)
        self._choice = choice
        self._specs: dict[NodeKind, list[NodeSpec]] | None = None
        self._found: dict[tuple[NodeKind, int], DramLevels | None] = {}

    def of(self, kind: NodeKind, asked_uw: int) -> DramLevels | None:
        """The levels of a job on nodes of a kind; None leaves DRAM to its standing caps."""
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
        """Whether whatever was offered is the same by both."""
        return all(self.of(*key) == found for key, found in other._found.items())
