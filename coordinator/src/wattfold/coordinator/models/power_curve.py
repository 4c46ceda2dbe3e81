"""Package power as a function of frequency, ``p = a f^3 + b f + c``, and its inverse.

Equations 18 and 19 of Sarood et al., "Maximizing Throughput of Overprovisioned HPC Data Centers
Under a Strict Power Budget" (SC14). The curve belongs to an application on a kind of processor.
``c`` is the static power of the package; the cubic and the linear term are its dynamic power.
Frequencies are in GHz and powers in W, the units of the published coefficients. This module does
not enforce caps. Callers convert the integers of the power ledger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCurve:
    """A power curve from the lowest frequency to the highest useful frequency."""

    a: float
    """W/GHz³, above zero."""
    b: float
    """W/GHz, at least zero."""
    c: float
    """W, static power of the package, at least zero."""
    f_low_ghz: float
    f_high_ghz: float

    def __post_init__(self) -> None:
        if not (self.a > 0 and self.b >= 0 and self.c >= 0):
            raise ValueError(
                f"a power curve needs a > 0, b >= 0, c >= 0; got a={self.a}, b={self.b}, c={self.c}"
            )
        if not 0 < self.f_low_ghz < self.f_high_ghz < math.inf:
            raise ValueError(
                f"a power curve needs 0 < f_low < f_high; got {self.f_low_ghz} and "
                f"{self.f_high_ghz} GHz"
            )

    @property
    def p_low_w(self) -> float:
        """Power at the lowest frequency, W."""
        return self.power_w(self.f_low_ghz)

    @property
    def p_high_w(self) -> float:
        """Power at the highest useful frequency, W."""
        return self.power_w(self.f_high_ghz)

    def between(self, p_low_w: float, p_high_w: float) -> PowerCurve:
        """Return a curve with the same frequencies, but with these powers at the ends, in W.

        The static share of the power at the lowest frequency stays the same. If no curve has this
        share, the linear term is left out. If even a cubic term alone rises too little, the power
        at the lowest frequency is higher than requested. Needs 0 < p_low < p_high.
        """
        low, high = self.f_low_ghz, self.f_high_ghz
        c = self.c * p_low_w / self.p_low_w
        a = ((p_high_w - c) / high - (p_low_w - c) / low) / (high**2 - low**2)
        b = (p_low_w - c) / low - a * low**2
        if a <= 0 or b < 0:
            a, b = (p_high_w - p_low_w) / (high**3 - low**3), 0.0
            c = p_low_w - a * low**3
        if c < 0:
            a, c = p_high_w / high**3, 0.0
        return PowerCurve(a=a, b=b, c=c, f_low_ghz=low, f_high_ghz=high)

    def power_w(self, f_ghz: float) -> float:
        """Return Eq. 18 in W, for any frequency from zero up (not clamped)."""
        return self.a * f_ghz**3 + self.b * f_ghz + self.c

    def frequency_ghz(self, p_w: float) -> float:
        """Return the frequency at a power (Eq. 19), in GHz.

        It is clamped to [f_low, f_high]: a cap outside [p_low, p_high] gives the nearer end.
        """
        return min(
            self.f_high_ghz, max(self.f_low_ghz, cubic_frequency_ghz(self.a, self.b, self.c, p_w))
        )


def cubic_frequency_ghz(a: float, b: float, c: float, p_w: float) -> float:
    """Return the real root f of ``a f^3 + b f + (c - p) = 0``, in GHz; zero if p is at most c."""
    return float(cubic_frequencies_ghz(a, b, c, np.asarray([p_w], dtype=np.float64))[0])


def cubic_frequencies_ghz(a: float, b: float, c: float, p_w: Floats) -> Floats:
    """Return `cubic_frequency_ghz` for an array of powers.

    The root has Cardano's hyperbolic form. The textbook sum of two cube roots subtracts nearly
    equal numbers when b dominates; ``sinh(asinh(.)/3)`` has no such loss.
    """
    slope = b / a
    if slope > 1e24:
        # The cubic term is lost in rounding, and the quotients below would overflow.
        return np.maximum((p_w - c) / b, 0.0)
    drive = np.maximum((p_w - c) / a, 0.0)
    # Below this the linear term is lost in rounding, and the quotient below would overflow.
    if slope < 1e-12:
        return np.cbrt(drive)
    scale = math.sqrt(slope / 3.0)
    roots: Floats = 2.0 * scale * np.sinh(np.arcsinh(drive / (2.0 * scale**3)) / 3.0)
    return roots
