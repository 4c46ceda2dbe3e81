"""Power of the whole node: of the platform's zone, or else the sum of its parts.

The psys zone contains packages and memory, so it is never added to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wattfold.nodeagent.core.caps import ZoneKind
from wattfold.nodeagent.service.power.zone_state import ZoneState


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTotal:
    """The zones that are counted, and whether they are the platform's."""

    zones: tuple[ZoneState, ...]
    by_psys: bool

    @property
    def energy_uj(self) -> int:
        """Energy since the start of the agent."""
        return sum(state.meter.total_uj for state in self.zones)

    def power_uw(self, over_ns: int) -> int:
        """Return the mean power over about the last ``over_ns``."""
        return sum(state.history.mean_uw(over_ns) for state in self.zones)


def node_total(states: Iterable[ZoneState]) -> NodeTotal | None:
    """Return the zones that count for the node; None if nothing is measured.

    A psys zone is ignored if it is unreadable, or if it counts less than its packages (some boards
    leave it unconnected).
    """
    readable = [s for s in states if s.valid and not s.zone.cannot_measure]
    psys = tuple(s for s in readable if s.zone.kind is ZoneKind.PSYS)
    parts = tuple(s for s in readable if s.zone.kind is not ZoneKind.PSYS)
    packages_uj = sum(s.meter.total_uj for s in parts if s.zone.kind is ZoneKind.PACKAGE)
    if psys and sum(s.meter.total_uj for s in psys) >= packages_uj:
        return NodeTotal(zones=psys, by_psys=True)
    return NodeTotal(zones=parts, by_psys=False) if parts else None
