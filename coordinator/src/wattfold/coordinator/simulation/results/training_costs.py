"""What a run of training jobs has cost: energy, at its price when it was drawn, and tardiness.

The total is that of ANDREAS (Filippini et al., FiCloud 2021): energy of the nodes in use, their
idle GPUs included, and weight times tardiness of every job. Nodes without a job are told apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.simulation.pool.prices import Prices
from wattfold.coordinator.simulation.pool.record import RunRecord
from wattfold.coordinator.simulation.workloads.workload import Floats, Ints

UW_PER_KW = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCosts:
    """Jobs that have not ended count nothing."""

    energy_eur: float
    """Of nodes with a job."""
    idle_eur: float
    """Of nodes without one, from the first submission to the last end."""
    tardiness_eur: float
    jobs_overdue: int
    tardiness_s_total: float

    @property
    def total_eur(self) -> float:
        """Energy of nodes with a job, and tardiness."""
        return self.energy_eur + self.tardiness_eur


def training_costs(record: RunRecord) -> TrainingCosts | None:
    """The costs of a run; None where nobody trains. Without prices energy costs nothing."""
    training = record.jobs.training
    if training is None:
        return None
    late_s = tardiness_s(record)
    prices = record.prices or Prices()
    used_uw, unused_uw = record.series.drawn_uw, record.series.unused_uw
    assert unused_uw is not None, "training runs have it"
    return TrainingCosts(
        energy_eur=_energy_eur(record, used_uw - unused_uw, prices),
        idle_eur=_energy_eur(record, unused_uw, prices),
        tardiness_eur=prices.late_eur(late_s, training.weights),
        jobs_overdue=int((late_s > 0).sum()),
        tardiness_s_total=float(late_s.sum()),
    )


def tardiness_s(record: RunRecord) -> Floats:
    """By how much each job ended after it was due, s."""
    training, end_ns = record.jobs.training, record.columns.end_ns
    assert training is not None, "jobs that train have due dates"
    late_s: Floats = np.maximum(end_ns - training.due_ns, 0) / NS_PER_S
    late_s[(training.due_ns < 0) | (end_ns < 0)] = 0.0
    return late_s


def _energy_eur(record: RunRecord, powers_uw: Ints, prices: Prices) -> float:
    """Of a power that is constant from each entry of the series to the next."""
    times_ns, ended = record.series.time_ns, record.columns.end_ns >= 0
    if len(times_ns) < 2 or not ended.any():
        return 0.0
    until_ns = int(record.columns.end_ns[ended].max())
    edges_ns = np.minimum(np.append(times_ns, until_ns), until_ns)
    each_eur = np.diff(prices.paid_eur(edges_ns))
    return float((powers_uw / UW_PER_KW * each_eur).sum())
