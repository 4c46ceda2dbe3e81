"""Work of a job, and its speed with given resources.

There are three models. *PASS* uses the profile's time at the held units and the lowest level in
force on its nodes. *Ideal* and *worst case* (D'Amico et al., ICPP 2019, Eq. 5 and 6) ignore power.
The ideal model counts all held cores; the worst case counts every node as the node with the fewest
cores. The speed is relative to that with all requested cores:

    ideal       sum of cores / cores requested
    worst case  nodes * min over nodes of cores / cores requested
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit


class SpeedModel(StrEnum):
    """Model of the speed of a job with given resources."""

    PASS = "pass"  # noqa: S105 - the model's name
    IDEAL = "ideal"
    WORST_CASE = "worst-case"


@dataclass(slots=True, kw_only=True)
class CoresAtCap:
    """Resources of a job on one node: cores, and their power level."""

    cores: int
    level_uw: int
    """Package cap of a whole node that gives a core as much power as it gets here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """All the work of a job. ``run_ns`` is its time with ``asked_cores`` cores at full power."""

    run_ns: int
    asked_cores: int
    model: SpeedModel = SpeedModel.IDEAL
    profile: PassProfile | None = None
    """Needed by PASS, which uses only the times of the profile."""
    unit_cores: int = 0
    """Cores of a unit of the profile; 0 = its units are cores or whole nodes."""

    def __post_init__(self) -> None:
        if self.run_ns < 1 or self.asked_cores < 1:
            raise ValueError(
                f"work needs time and cores above zero, got {self.run_ns}, {self.asked_cores}"
            )
        if self.model is SpeedModel.PASS and self.profile is None:
            raise ValueError("the PASS model needs a profile")

    def rate(self, places: Collection[CoresAtCap]) -> float:
        """Return the fraction of the work done per nanosecond on these places."""
        # Nodes where the job holds no core do no work.
        places = [place for place in places if place.cores]
        if not places:
            return 0.0
        if self.model is SpeedModel.PASS:
            return self._pass_rate(places)
        if self.model is SpeedModel.IDEAL:
            cores = sum(place.cores for place in places)
        else:
            cores = len(places) * min(place.cores for place in places)
        return cores / self.asked_cores / self.run_ns

    def _pass_rate(self, places: Collection[CoresAtCap]) -> float:
        assert self.profile is not None
        cores = sum(place.cores for place in places)
        by_cores = self.profile.unit is SizeUnit.CORES
        size = cores if by_cores else cores // self.unit_cores if self.unit_cores else len(places)
        level_uw = min(place.level_uw for place in places)
        return 1e-9 / self.profile.time_s(size, w_from_uw(level_uw))

    def package_uw(self, level_uw: int) -> int:
        """Return the power of a whole node's packages with this job at a level, within p_high.

        A job without a profile draws the whole level.
        """
        if self.profile is None:
            return level_uw
        return min(level_uw, round(self.profile.p_high_w * 1e6))
