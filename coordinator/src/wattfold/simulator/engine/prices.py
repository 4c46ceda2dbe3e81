"""Costs of a run: energy, and the tardiness of jobs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.models.energy_price import EnergyPrice
from wattfold.coordinator.models.training_cost import Tariff
from wattfold.simulator.choices import LATE_EUR_H as LATE_EUR_H
from wattfold.simulator.workloads.workload import Floats, Ints

_ONE_KW = np.array(1000.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """A tariff with times of the log, and the price of an hour of tardiness at weight 1."""

    tariff: Tariff = Tariff(price=EnergyPrice.constant(0.0))  # noqa: RUF009 - immutable
    late_eur_h: float = LATE_EUR_H

    def paid_eur(self, times_ns: Ints) -> Floats:
        """Return the cost of 1 kW from the first of these times to each of them, in EUR."""
        begin_s = int(times_ns[0]) / NS_PER_S
        return self.tariff.cost_eur(_ONE_KW, begin_s, (times_ns - times_ns[0]) / NS_PER_S)

    def late_eur(self, late_s: Floats, weights: Floats) -> float:
        """Return the cost of these tardiness values, in EUR."""
        return float((late_s * weights).sum()) * self.late_eur_h / 3600
