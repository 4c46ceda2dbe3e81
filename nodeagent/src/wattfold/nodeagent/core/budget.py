"""How much of something is let through: so much a second, and so much at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from wattfold.contract.units import NS_PER_S


@dataclass(slots=True, kw_only=True)
class Budget:
    """A bucket of ``burst`` tokens that fills with ``rate_per_s``."""

    rate_per_s: int
    burst: int
    _left: float = field(init=False)
    _at_ns: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._left = float(self.burst)

    def take(self, now_ns: int, cost: int = 1) -> bool:
        """Whether it is let through. What costs more than is left is, if anything is: a debt."""
        if now_ns > self._at_ns:
            gained = (now_ns - self._at_ns) * self.rate_per_s / NS_PER_S if self._at_ns else 0.0
            self._left = min(float(self.burst), self._left + gained)
            self._at_ns = now_ns
        if self._left < 1:
            return False
        self._left -= cost
        return True

    def charge(self, cost: int) -> None:
        """Takes more for what was let through already."""
        self._left -= cost
