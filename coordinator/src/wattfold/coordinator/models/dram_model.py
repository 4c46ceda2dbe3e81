"""Run time under a DRAM cap: our own model in addition to PARM, which fixes this cap at 18 W.

The split of power between package and DRAM matters, because a low DRAM cap slows memory-bound codes
and hardly slows others. This is a result of Sarood, Langer, Kale, Rountree and de Supinski
("Optimizing Power Allocation to CPU and Memory Subsystems in Overprovisioned HPC Systems", CLUSTER
2013), who profiled the combinations. Such figures are not published for the five applications of
`pass_model`, so this model replaces them:

* DRAM draws ``static_w`` (the minimum cap of the published range of 8 to 35 W), plus power in
  proportion to its bandwidth.
* An application at full speed draws ``need_w = static + (full - static) (1 - beta)^steepness``. If
  its speed does not depend on the clock at all, it needs ``full_w``. This is the published default
  cap, used for the published times. The more its speed depends on the clock, the less it needs.
* Below this need, the time that does not depend on the clock (T_mem of Eq. 16) grows as the
  bandwidth shrinks, by ``(need - static) / (cap - static)``. The fit of two published applications
  leaves no T_mem, so it is at least ``memory_share_min`` of the time at full speed.

| application | 1 - beta | need_w | time at 10 W over 18 W, full package power | |---|---|---|---| |
Jacobi2D | 0.92 | 16.5 | 2.58 | | Wave2D | 0.84 | 15.1 | 1.46 | | Lulesh | 0.70 | 12.9 | 1.20 | |
AMR | 0.67 | 12.5 | 1.06 | | LeanMD | 0.60 | 11.6 | 1.04 |

All four figures are parameters, to be varied. The model does not predict the power below the cap.
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
    """Effect of DRAM caps on run times; powers are per node, in W."""

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
        """Return the DRAM power of an application at full speed, in W."""
        above_w = (self.full_w - self.static_w) * (1.0 - profile.beta) ** self.steepness
        return float(self.static_w + above_w)

    def memory_share(self, profile: PassProfile) -> float:
        """Return T_mem over the time at full speed (Eq. 16), at least ``memory_share_min``."""
        span = (1.0 - profile.beta) * (profile.f_high_ghz - profile.f_low_ghz)
        return max(1.0 - profile.beta * profile.f_low_ghz / span, self.memory_share_min)

    def memory_slowdowns(self, profile: PassProfile, drams_w: ArrayLike) -> Floats:
        """Return the factor of T_mem at each DRAM cap, from 1 to 1000."""
        above_w = np.asarray(drams_w, dtype=np.float64) - self.static_w
        share = np.clip(above_w / (self.need_w(profile) - self.static_w), SPEED_FLOOR, 1.0)
        factors: Floats = 1.0 / share
        return factors

    def slowdowns(self, profile: PassProfile, caps_w: ArrayLike, drams_w: ArrayLike) -> Floats:
        """Return run times over the time at full power: shape (package caps, DRAM caps).

        The loss from scarce bandwidth is added to the loss from the lower clock. This also holds
        below p_low, where skipped cycles would hide a part of it.
        """
        added = self.memory_share(profile) * (self.memory_slowdowns(profile, drams_w) - 1.0)
        slowdowns: Floats = np.add.outer(profile.slowdowns(caps_w), added)
        return slowdowns

    def times_s(
        self, profile: PassProfile, sizes: ArrayLike, caps_w: ArrayLike, drams_w: ArrayLike
    ) -> Floats:
        """Return the run time for every triple, in s: shape (sizes, package caps, DRAM caps)."""
        full_s = scaled_times_s(profile.t1_s, profile.average_parallelism, profile.sigma, sizes)
        times: Floats = np.multiply.outer(full_s, self.slowdowns(profile, caps_w, drams_w))
        return times
