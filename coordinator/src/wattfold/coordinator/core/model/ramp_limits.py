"""The ramp limits of a site: how fast committed power may rise and fall."""

from __future__ import annotations

from dataclasses import dataclass

STEP_S = 10
"""Default of the step: the change that the rate permits in this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RampLimits:
    """The limits of a site in microwatts per second, 0 = unlimited.

    ``step_uw`` is the change that is permitted at once; 0 = that of `STEP_S` at the rate.
    """

    rise_uw_per_s: int = 0
    fall_uw_per_s: int = 0
    step_uw: int = 0

    def step_of(self, rate_uw_per_s: int) -> int:
        """Return the step of a rate, in microwatts."""
        return self.step_uw or STEP_S * rate_uw_per_s
