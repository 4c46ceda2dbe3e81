"""One zone at run time: what was set, what was read back, what it draws."""

from __future__ import annotations

from dataclasses import dataclass, field

from wattfold.nodeagent.adapters.powercap import PowercapZone
from wattfold.nodeagent.core.energy import EnergyMeter, PowerHistory


@dataclass(slots=True, kw_only=True)
class ZoneState:
    """One zone at run time. ``cap_uw`` was read back last; ``wanted_uw`` is what was set.

    ``over_uw`` is the mean power of a zone that draws more than its cap, 0 otherwise. ``refusal``
    says why the last write failed; ``owed`` are the settings that were refused besides.
    """

    zone: PowercapZone
    meter: EnergyMeter
    history: PowerHistory = field(default_factory=PowerHistory)
    wanted_uw: int | None = None
    owes_floor: bool = False
    """The floor could not be written when it was due: it is, until another cap is set."""
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
        """The cap without a lease; 0 if it cannot be capped."""
        limits = self.zone.limits
        return limits.floor_uw if limits is not None and self.cappable else 0

    @property
    def most_uw(self) -> int:
        """The highest cap; of a zone that cannot be capped, the most it can draw."""
        limits = self.zone.limits
        highest_uw = limits.cap_uw_max if limits else 0
        return max(highest_uw, self.zone.draw_uw_max) if self.zone.cannot_cap else highest_uw

    def read_back(self) -> None:
        """Reads the cap; if it cannot be read, the last value known stands."""
        try:
            self.cap_uw = self.zone.read_cap_uw()
        except (OSError, ValueError):
            return


def new_state(zone: PowercapZone) -> ZoneState:
    """A zone that was just found."""
    return ZoneState(zone=zone, meter=EnergyMeter(range_uj=zone.range_uj))
