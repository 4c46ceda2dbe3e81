"""One zone at run time: its requested cap, the cap read back, and its power."""

from __future__ import annotations

from dataclasses import dataclass, field

from wattfold.contract.plausible import power_uw_max
from wattfold.nodeagent.adapters.devices.powercap import PowercapZone
from wattfold.nodeagent.core.energy import EnergyMeter, PowerHistory


@dataclass(slots=True, kw_only=True)
class ZoneState:
    """One zone at run time. ``cap_uw`` was read back last; ``wanted_uw`` is the requested cap.

    ``over_uw`` is the mean power of a zone that exceeds its cap, 0 otherwise. ``refusal`` is the
    reason of the last failed write; ``owed`` are the other refused settings.
    """

    zone: PowercapZone
    meter: EnergyMeter
    history: PowerHistory = field(default_factory=PowerHistory)
    wanted_uw: int | None = None
    owes_floor: bool = False
    """The floor could not be written when due. It stays due until another cap is set."""
    cap_uw: int = 0
    valid: bool = True
    failing: bool = False
    readable: bool = True
    set_ns: int = 0
    over_uw: int = 0
    refusal: str = ""
    owed: dict[str, str] = field(default_factory=dict)

    @property
    def cappable(self) -> bool:
        """Whether its limits are set at all."""
        return self.zone.limits is not None and not self.zone.cannot_cap

    @property
    def floor_uw(self) -> int:
        """The cap without a lease; 0 if the zone cannot be capped."""
        limits = self.zone.limits
        return limits.floor_uw if limits is not None and self.cappable else 0

    @property
    def most_uw(self) -> int:
        """The highest cap; for a zone that cannot be capped, its maximum power."""
        limits = self.zone.limits
        highest_uw = limits.cap_uw_max if limits else 0
        return max(highest_uw, self.zone.draw_uw_max) if self.zone.cannot_cap else highest_uw

    def read_back(self) -> None:
        """Read the cap back. If it is unreadable, the last known value stays."""
        try:
            self.cap_uw = self.zone.read_cap_uw()
        except (OSError, ValueError):
            return


def new_state(zone: PowercapZone) -> ZoneState:
    """Return the state of a zone that was just found."""
    highest_uw = zone.limits.cap_uw_max if zone.limits else 0
    # Firmware may not enforce a configured maximum below the hardware's maximum.
    most_uw = max(highest_uw, zone.rated_uw, zone.draw_uw_max)
    meter = EnergyMeter(range_uj=zone.range_uj, power_uw_max=power_uw_max(most_uw))
    return ZoneState(zone=zone, meter=meter)
