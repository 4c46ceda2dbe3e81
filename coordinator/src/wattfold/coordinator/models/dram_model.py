"""Run time under a DRAM cap: an assumption of ours beyond PARM, which holds that cap at 18 W.

That the split between package and DRAM is worth choosing, because memory-bound codes lose by a low
DRAM cap and others hardly do, is the result of Sarood, Langer, Kale, Rountree and de Supinski
("Optimizing Power Allocation to CPU and Memory Subsystems in Overprovisioned HPC Systems", CLUSTER
2013), who profiled the combinations. For the five applications of `pass_model` no such figures are
published, so this stands in for them:

* DRAM draws ``static_w`` (the least cap of the published range of 8 to 35 W) and above that in
  proportion to its bandwidth.
* An application at full speed draws ``need_w = static + (full - static) (1 - beta)^steepness``:
  one that does not follow the clock at all needs ``full_w``, the published standing cap, under
  which the published times were taken; one that follows it more needs less.
* Below its need the part of its time that does not follow the clock, T_mem of Eq. 16, grows as the
  bandwidth shrinks: by ``(need - static) / (cap - static)``. The fit of two published applications
  leaves no T_mem; at least ``memory_share_min`` of the time at full speed is taken as such.

| application | 1 - beta | need_w | time at 10 W over 18 W, full package power |
|---|---|---|---|
| Jacobi2D | 0.92 | 16.5 | 2.58 |
| Wave2D | 0.84 | 15.1 | 1.46 |
| Lulesh | 0.70 | 12.9 | 1.20 |
| AMR | 0.67 | 12.5 | 1.06 |
| LeanMD | 0.60 | 11.6 | 1.04 |

All four figures are parameters, to be swept. Does not say what a node draws below its cap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattfold.coordinator.models.pass_model import SPEED_FLOOR, PassProfile
from wattfold.coordinator.models.scaling import scaled_times_s

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DramModel:
    """What DRAM caps do to run times; powers are of a node, W."""

    static_w: float = 8.0
    full_w: float = 18.0
    steepness: float = 2.0
    memory_share_min: float = 0.05

    def __post_init__(self) -> None:
        if not 0 <= self.static_w < self.full_w:
            raise ValueError(
                f"DRAM needs 0 <= static < full, got {self.static_w} and {self.full_w} W"
            )
        if not (self.steepness >= 0 and 0 <= self.memory_share_min <= 1):
            raise ValueError(
                "DRAM needs steepness >= 0 and a memory share in [0, 1], got "
                f"{self.steepness} and {self.memory_share_min}"
            )

    def need_w(self, profile: PassProfile) -> float:
        """DRAM power of an application at full speed, W."""
        above_w = (self.full_w - self.static_w) * (1.0 - profile.beta) ** self.steepness
        return float(self.static_w + above_w)

    def memory_share(self, profile: PassProfile) -> float:
        """T_mem over the time at full speed (Eq. 16), as taken here."""
        span = (1.0 - profile.beta) * (profile.f_high_ghz - profile.f_low_ghz)
        return max(1.0 - profile.beta * profile.f_low_ghz / span, self.memory_share_min)

    def memory_slowdowns(self, profile: PassProfile, drams_w: ArrayLike) -> Floats:
        """Factors of T_mem at each DRAM cap: one or more, at most 1000."""
        above_w = np.asarray(drams_w, dtype=np.float64) - self.static_w
        share = np.clip(above_w / (self.need_w(profile) - self.static_w), SPEED_FLOOR, 1.0)
        factors: Floats = 1.0 / share
        return factors

    def slowdowns(self, profile: PassProfile, caps_w: ArrayLike, drams_w: ArrayLike) -> Floats:
        """Run time over that at full power, for every pair: shape (package caps, DRAM caps).

        Time lost to scarce bandwidth adds to that lost to the clock, also below p_low, where
        skipped cycles would hide some of it.
        """
        added = self.memory_share(profile) * (self.memory_slowdowns(profile, drams_w) - 1.0)
        slowdowns: Floats = np.add.outer(profile.slowdowns(caps_w), added)
        return slowdowns

    def times_s(
        self, profile: PassProfile, sizes: ArrayLike, caps_w: ArrayLike, drams_w: ArrayLike
    ) -> Floats:
        """Run times for every triple, s: shape (sizes, package caps, DRAM caps)."""
        full_s = scaled_times_s(profile.t1_s, profile.average_parallelism, profile.sigma, sizes)
        times: Floats = np.multiply.outer(full_s, self.slowdowns(profile, caps_w, drams_w))
        return times
