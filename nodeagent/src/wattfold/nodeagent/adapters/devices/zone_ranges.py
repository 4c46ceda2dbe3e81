"""Ranges of zones: from the configuration, and from the interfaces of a zone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wattfold.contract.units import NS_PER_S, NS_PER_US
from wattfold.nodeagent.adapters.devices.powercap_interface import Interface
from wattfold.nodeagent.core.caps import ZoneKind

PLAUSIBLE_UW_MAX = 2_000_000_000
"""Limits above 2 kW per package mean "unlimited" and are not a range."""
_WINDOW_NS_UNKNOWN = NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSetting:
    """Ranges from the configuration, for values that the kernel lacks; None = not given."""

    package_uw_min: int | None = None
    package_uw_max: int | None = None
    package_floor_uw: int | None = None
    dram_uw_min: int | None = None
    dram_uw_max: int | None = None
    dram_floor_uw: int | None = None
    gpu_uw_max: int | None = None
    gpu_floor_uw: int | None = None

    def of(self, kind: ZoneKind) -> tuple[int | None, int | None, int | None]:
        """Return minimum cap, maximum cap and floor for zones of a kind."""
        if kind is ZoneKind.GPU:
            return None, self.gpu_uw_max, self.gpu_floor_uw
        if kind is ZoneKind.DRAM:
            return self.dram_uw_min, self.dram_uw_max, self.dram_floor_uw
        return self.package_uw_min, self.package_uw_max, self.package_floor_uw


def hardware_max_uw(interfaces: Sequence[Interface], present_uw: int) -> int:
    """Return the maximum that an interface reports, or else the present limit; 0 = unknown."""
    candidates = []
    for interface in interfaces:
        try:
            candidates.append(interface.max_uw())
        except (OSError, ValueError):
            continue
    for candidate in (*candidates, present_uw):
        if 0 < candidate <= PLAUSIBLE_UW_MAX:
            return candidate
    return 0


def shortest_window_ns(interfaces: Sequence[Interface]) -> int:
    """Return the averaging window that takes effect first: all interfaces get the same cap."""
    windows = []
    for interface in interfaces:
        try:
            windows.append(interface.window_us() * NS_PER_US)
        except (OSError, ValueError):
            continue
    return min(windows, default=_WINDOW_NS_UNKNOWN)
