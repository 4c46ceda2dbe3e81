"""Rate limit: a number of events per second, and a number at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from wattfold.contract.units import NS_PER_S


@dataclass(slots=True, kw_only=True)
class TokenBucket:
    """A bucket of ``burst`` tokens that refills with ``rate_per_s``."""

    rate_per_s: int
    burst: int
    _left: float = field(init=False)
    _at_ns: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._left = float(self.burst)

    def take(self, now_ns: int, cost: int = 1) -> bool:
        """Whether an event may pass. If any token is left, the cost may exceed it: a debt."""
        if now_ns > self._at_ns:
            gained = (now_ns - self._at_ns) * self.rate_per_s / NS_PER_S if self._at_ns else 0.0
            self._left = min(float(self.burst), self._left + gained)
            self._at_ns = now_ns
        if self._left < 1:
            return False
        self._left -= cost
        return True

    def charge(self, cost: int) -> None:
        """Charge more for an event that has already passed."""
        self._left -= cost
