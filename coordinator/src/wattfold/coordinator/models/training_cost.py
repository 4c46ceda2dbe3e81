"""Cost of a node with GPU jobs per time: c_ng of ANDREAS.

    c_ng = (host + g draw + (G - g) idle) x price x PUE

The cost of a job is that of its node without other jobs, as in the paper: two jobs on a node are
each charged for its host.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.models.energy_price import EnergyPrice

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDraw:
    """Powers of a node in W (host, idle GPU) and its number of GPUs."""

    host_w: float
    idle_w: float
    gpus: int

    def power_w(self, used: int, each_w: float) -> float:
        """Return the power with ``used`` busy GPUs that draw ``each_w`` each."""
        return self.host_w + used * each_w + max(self.gpus - used, 0) * self.idle_w


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """A price, and the power drawn per watt of the nodes (cooling, losses)."""

    price: EnergyPrice
    pue: float = 1.0

    def cost_eur(self, power_w: Floats, begin_s: float, lasts_s: Floats) -> Floats:
        """Return the cost of powers drawn for given times from a calendar time (UTC, s) on."""
        spent = self.price.integral(begin_s, begin_s + lasts_s)
        return np.asarray(power_w / 1000.0 * self.pue * spent / 3600.0)
