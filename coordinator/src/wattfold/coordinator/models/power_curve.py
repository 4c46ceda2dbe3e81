"""Package power as a function of frequency, ``p = a f^3 + b f + c``, and its inverse.

Equations 18 and 19 of Sarood et al., "Maximizing Throughput of Overprovisioned HPC Data Centers
Under a Strict Power Budget" (SC14). The curve belongs to an application on a kind of processor:
``c`` is the static power of the package, the cubic and the linear term its dynamic power.
Frequencies are in GHz and powers in W, the units of the published coefficients. Nothing here
enforces a cap; the integers of the power ledger are converted by the caller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCurve:
    """The curve between the lowest frequency and the one above which the job gets no faster."""

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

    def power_w(self, f_ghz: float) -> float:
        """Eq. 18, W. Not clamped: any frequency from zero up is answered."""
        return self.a * f_ghz**3 + self.b * f_ghz + self.c

    def frequency_ghz(self, p_w: float) -> float:
        """Eq.

        19, GHz, clamped to [f_low, f_high]: a cap outside [p_low, p_high] gives the nearer end.
        """
        return min(
            self.f_high_ghz, max(self.f_low_ghz, cubic_frequency_ghz(self.a, self.b, self.c, p_w))
        )


def cubic_frequency_ghz(a: float, b: float, c: float, p_w: float) -> float:
    """The one real root f of ``a f^3 + b f + (c - p) = 0``, GHz; zero where p is at most c."""
    return float(cubic_frequencies_ghz(a, b, c, np.asarray([p_w], dtype=np.float64))[0])


def cubic_frequencies_ghz(a: float, b: float, c: float, p_w: Floats) -> Floats:
    """`cubic_frequency_ghz` for an array of powers.

    Cardano's root in its hyperbolic form. The textbook sum of two cube roots subtracts nearly equal
    numbers when b dominates; ``sinh(asinh(.)/3)`` has no such loss.
    """
    drive = np.maximum((p_w - c) / a, 0.0)
    slope = b / a
    # Below this the linear term is lost in rounding, and the quotient below would overflow.
    if slope < 1e-12:
        return np.cbrt(drive)
    scale = math.sqrt(slope / 3.0)
    roots: Floats = 2.0 * scale * np.sinh(np.arcsinh(drive / (2.0 * scale**3)) / 3.0)
    return roots
