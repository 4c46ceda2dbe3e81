"""What a node with jobs on its GPUs costs per time: c_ng of ANDREAS.

    c_ng = (host + g draw + (G - g) idle) x price x PUE

The cost of a job by itself is that of its node with nobody else there, as in the paper: two jobs
that share a node are each charged its host.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.models.energy_price import EnergyPrice

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDraw:
    """Powers of a node in W: of its host, of a GPU without work, and how many GPUs it has."""

    host_w: float
    idle_w: float
    gpus: int

    def power_w(self, used: int, each_w: float) -> float:
        """With so many GPUs at work, each of which draws so much."""
        return self.host_w + used * each_w + max(self.gpus - used, 0) * self.idle_w


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """A price, and how much is drawn for every watt of nodes (cooling, losses)."""

    price: EnergyPrice
    pue: float = 1.0

    def cost_eur(self, power_w: Floats, begin_s: float, lasts_s: Floats) -> Floats:
        """Of powers drawn from a time of the calendar on (UTC, s), for so many seconds each."""
        spent = self.price.integral(begin_s, begin_s + lasts_s)
        return np.asarray(power_w / 1000.0 * self.pue * spent / 3600.0)

    def rate_eur_s(self, power_w: float, time_s: float) -> float:
        """EUR per second at a time of the calendar."""
        return power_w / 1000.0 * self.pue * self.price.at(time_s) / 3600.0
