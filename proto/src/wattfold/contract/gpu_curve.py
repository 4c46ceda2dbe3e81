"""How fast work on a GPU goes, and what it draws, under a lower power limit.

The relative clock f, 0 < f <= 1, that a limit c allows is the greatest with

    P(f) = Ps + (Pf - Ps) f max(v0, f)^2 <= c

as dynamic power goes with the clock and the square of the voltage, which does not fall below that
of clock v0. Of the time at full clock a share beta does not follow the clock (input, host, memory):

    t(c) / t(full) = beta + (1 - beta) / f

Fitted to the public power traces of Zeus (You et al., NSDI 2023) the error of the speed is at most
0.013 in most of its jobs. Near its least limit a part may draw more than that limit; who charges
a budget goes by limits and floors, not by this.
"""

from __future__ import annotations

from dataclasses import dataclass

LEAST_CLOCK = 0.05
"""Below this clock no trace goes, and no part is known to run."""
STATIC_SHARE, FULL_SHARE = 0.18, 0.97
"""Usual Ps and Pf, in shares of the greatest limit: what fits other parts well enough."""
KNEE = 0.85
BETA = 0.2
"""Of work that follows the clock more than most; what is taken of work of which nothing is known,
so that no more is expected of a lower limit than it may cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCurve:
    """One kind of work on one model of GPU.

    Ps ``static_w`` and Pf ``full_w`` in W, of one GPU; v0 ``knee`` and ``beta`` in 0..1.
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
        """Of unknown work on a part without a trace, with a greatest limit in W."""
        return cls(static_w=STATIC_SHARE * most_w, full_w=FULL_SHARE * most_w, knee=KNEE, beta=BETA)

    def clock(self, limit_w: float) -> float:
        """The relative clock that a limit in W allows, LEAST_CLOCK..1."""
        share = (limit_w - self.static_w) / (self.full_w - self.static_w)
        if share >= 1:
            return 1.0
        if share <= 0:
            return LEAST_CLOCK
        cubic: float = share ** (1 / 3)
        clock = cubic if cubic >= self.knee else share / self.knee**2
        return max(LEAST_CLOCK, min(clock, 1.0))

    def draw_w(self, limit_w: float) -> float:
        """Mean power at work under a limit, in W."""
        clock = self.clock(limit_w)
        dynamic_w = (self.full_w - self.static_w) * clock * max(self.knee, clock) ** 2
        return self.static_w + dynamic_w

    def slowdown(self, limit_w: float) -> float:
        """Time under a limit in W, in times of that at full clock; 1 at least."""
        return self.beta + (1 - self.beta) / self.clock(limit_w)
