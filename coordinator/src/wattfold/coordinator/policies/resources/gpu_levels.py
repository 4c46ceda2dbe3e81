"""Candidate power limits of GPUs, for policies that weigh speed against power.

They lie between half of the maximum limit and the maximum. Below half of it the energy for the same
work rises again, while the speed falls to half or less (traces of Zeus, You et al., NSDI 2023).
Policies use lower limits only if power is short.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core.power.charge import CAP_STEP_UW
from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.pass_model import Floats

LEAST_SHARE = 0.5
"""Lowest candidate level, as a share of the maximum limit."""


def least_level_uw(floor_uw: int, most_uw: int) -> int:
    """Return the lowest candidate level of a GPU with these limits."""
    return max(round(LEAST_SHARE * most_uw), floor_uw)


def spaced_levels_uw(floor_uw: int, most_uw: int, count: int) -> tuple[int, ...]:
    """Return ``count`` - 1 evenly spaced levels below the maximum, in descending order."""
    least_uw = least_level_uw(floor_uw, most_uw)
    steps = range(count - 2, -1, -1)
    spaced = (least_uw + (most_uw - least_uw) * step // (count - 1) for step in steps)
    return tuple(level_uw // CAP_STEP_UW * CAP_STEP_UW for level_uw in spaced)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLevels:
    """Candidate levels of the GPUs of a job, 0 = their maximum limits.

    ``curves`` holds the slowdown curve of its work on each permitted kind of node. None: the nodes
    of this kind have no GPUs with limits, so nothing slows the job there.
    """

    caps_uw: tuple[int, ...]
    curves: tuple[GpuCurve | None, ...]

    def losses(self, kind: int) -> Floats:
        """Return the extra time of a job at each level, as a share of its time at full power."""
        curve = self.curves[kind]
        found = [
            curve.slowdown(w_from_uw(cap_uw)) - 1.0 if cap_uw and curve is not None else 0.0
            for cap_uw in self.caps_uw
        ]
        return np.asarray(found, dtype=np.float64)
