"""Speed and power of work on a GPU under a power limit.

The relative clock f, 0 < f <= 1, under a limit c is the highest with

    P(f) = Ps + (Pf - Ps) f max(v0, f)^2 <= c

Dynamic power is proportional to the clock and to the square of the voltage. Below clock v0 the
voltage is constant. A fraction beta of the time at full clock does not depend on the clock (input,
host, memory):

    t(c) / t(full) = beta + (1 - beta) / f

Fitted to the public power traces of Zeus (You et al., NSDI 2023), the error of the speed is at most
0.013 in most of its jobs. Near its minimum limit a GPU may draw more than that limit, so budgets
are charged by limits and floors, not by this model.
"""

from __future__ import annotations

from dataclasses import dataclass

LEAST_CLOCK = 0.05
"""No trace has a lower clock, and no GPU is known to run below it."""
STATIC_SHARE, FULL_SHARE = 0.18, 0.97
"""Usual Ps and Pf as fractions of the maximum limit, which fit other GPUs well enough."""
KNEE = 0.85
BETA = 0.2
"""Default for unknown work.

Most work depends less on the clock, so the predicted cost of a lower limit is rarely too small.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCurve:
    """Power and speed of one kind of work on one model of GPU.

    ``static_w`` (Ps) and ``full_w`` (Pf) are in W, of one GPU; ``knee`` (v0) and ``beta`` are in
    0..1.
    """

    static_w: float
    full_w: float
    knee: float
    beta: float

    def __post_init__(self) -> None:
        if not 0 <= self.static_w < self.full_w:
            raise ValueError(f"static power {self.static_w} W must be below {self.full_w} W")
        if not (0 <= self.knee <= 1 and 0 <= self.beta <= 1):
            raise ValueError(f"knee {self.knee} and beta {self.beta} must be within 0..1")

    @classmethod
    def assumed(cls, most_w: float) -> GpuCurve:
        """Return the curve of unknown work on an untraced GPU with this maximum limit in W."""
        return cls(static_w=STATIC_SHARE * most_w, full_w=FULL_SHARE * most_w, knee=KNEE, beta=BETA)

    def clock(self, limit_w: float) -> float:
        """Return the relative clock under a limit in W, LEAST_CLOCK..1."""
        share = (limit_w - self.static_w) / (self.full_w - self.static_w)
        if share >= 1:
            return 1.0
        if share <= 0:
            return LEAST_CLOCK
        cubic: float = share ** (1 / 3)
        clock = cubic if cubic >= self.knee else share / self.knee**2
        return max(LEAST_CLOCK, min(clock, 1.0))

    def draw_w(self, limit_w: float) -> float:
        """Return the mean power at work under a limit, in W."""
        clock = self.clock(limit_w)
        dynamic_w = (self.full_w - self.static_w) * clock * max(self.knee, clock) ** 2
        return self.static_w + dynamic_w

    def slowdown(self, limit_w: float) -> float:
        """Return the time under a limit in W relative to that at full clock, at least 1."""
        return self.beta + (1 - self.beta) / self.clock(limit_w)
