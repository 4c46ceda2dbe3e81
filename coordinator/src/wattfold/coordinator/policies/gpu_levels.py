"""Limits of GPUs to choose among, for policies that weigh speed against watts.

They lie between half of the greatest limit and that limit. Below half energy for the same work
rises again while the speed falls to a half and less (traces of Zeus, You et al., NSDI 2023): lower
limits are for want of power only, and no matter of choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core.charge import CAP_STEP_UW
from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.pass_model import Floats

LEAST_SHARE = 0.5
"""Of the greatest limit: no level is below it, but for want of power."""


def least_level_uw(floor_uw: int, most_uw: int) -> int:
    """The least level of a GPU with these limits that is a matter of choice."""
    return max(round(LEAST_SHARE * most_uw), floor_uw)


def spaced_levels_uw(floor_uw: int, most_uw: int, count: int) -> tuple[int, ...]:
    """Levels below the greatest, evenly spaced, descending: with that one there are ``count``."""
    least_uw = least_level_uw(floor_uw, most_uw)
    steps = range(count - 2, -1, -1)
    spaced = (least_uw + (most_uw - least_uw) * step // (count - 1) for step in steps)
    return tuple(level_uw // CAP_STEP_UW * CAP_STEP_UW for level_uw in spaced)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLevels:
    """Levels of the GPUs of a job to choose among, 0 = their greatest limits.

    ``curves`` are those of its work on each kind of nodes it may have, None = there nothing slows
    it: those have no GPUs that can be capped.
    """

    caps_uw: tuple[int, ...]
    curves: tuple[GpuCurve | None, ...]

    def losses(self, kind: int) -> Floats:
        """What each level adds to the time of a job, as a share of that at full power."""
        curve = self.curves[kind]
        found = [
            curve.slowdown(w_from_uw(cap_uw)) - 1.0 if cap_uw and curve is not None else 0.0
            for cap_uw in self.caps_uw
        ]
        return np.asarray(found, dtype=np.float64)
