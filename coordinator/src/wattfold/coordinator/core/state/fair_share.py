"""Recent use of shares: power above idle times time, of each account or user.

Use decays with a half-life. The factor of a share of the site is 2^-(u / s), with its part u of all
recent use and its part s of all shares, as the classic fair-share factor of Slurm. So it is 1 for
no use, 1/2 for the use that its share entitles it to, and 1/4 for twice that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

STEPS = 8
"""Factors are powers of 2^-(1/8), so that most changes of use change no priority."""
EXPONENT_MAX = 8.0
"""The minimum factor is 2^-8."""


@dataclass(slots=True)
class RecentUse:
    """Use of a share in microjoules at a time, and the power that adds to it now."""

    uj: float = 0.0
    as_of_ns: int = 0
    rate_uw: int = 0

    def settle(self, now_ns: int, half_life_ns: int) -> None:
        """Let the time until now pass, with exact decay of old and of new use."""
        span_ns = max(now_ns - self.as_of_ns, 0)
        kept = 2.0 ** (-span_ns / half_life_ns)
        added_uj = self.rate_uw * (1.0 - kept) * (half_life_ns / 1e9) / math.log(2.0)
        self.uj, self.as_of_ns = self.uj * kept + added_uj, now_ns


@dataclass(slots=True)
class FairShare:
    """Recent use by holder of a share, and the factors that it causes for priorities."""

    half_life_ns: int = 0
    """0 = priorities do not depend on use."""
    uses: dict[str, RecentUse] = field(default_factory=dict)
    factors: dict[str, float] = field(default_factory=dict)
    """Factors below 1."""
    weighed_ns: int = -1
    """When the factors were computed; -1 = not yet."""

    def use_of(self, holder: str) -> RecentUse:
        """Return the use of a holder, which may be new."""
        return self.uses.setdefault(holder, RecentUse())

    def change_rate(self, holder: str, change_uw: int, now_ns: int) -> None:
        """Add to the power of a holder from now on."""
        use = self.use_of(holder)
        use.settle(now_ns, self.half_life_ns)
        use.rate_uw += change_uw


def factors_of(uses: Mapping[str, float], shares: Mapping[str, float]) -> dict[str, float]:
    """Return the factors below 1 of the holders of shares, from their uses."""
    used, shared = sum(uses.values()), sum(shares.values())
    found = {}
    for holder, share in shares.items():
        if used > 0 and uses.get(holder, 0.0) > 0:
            exponent = uses[holder] / used * shared / share
            exponent = min(round(exponent * STEPS) / STEPS, EXPONENT_MAX)
            if exponent:
                found[holder] = 2.0**-exponent
    return found
