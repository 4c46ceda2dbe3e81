"""Costs of a run of training jobs: energy at the price of its time, and tardiness.

The total is that of ANDREAS (Filippini et al., FiCloud 2021): energy of the nodes in use, including
their idle GPUs, and weight times tardiness of every job. Energy of nodes without a job is separate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattfold.contract.units import NS_PER_S
from wattfold.simulator.engine.prices import Prices
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.workloads.workload import Floats, Ints

UW_PER_KW = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCosts:
    """Costs of a run; jobs that have not ended do not count."""

    energy_eur: float
    """Energy of nodes with a job."""
    idle_eur: float
    """Energy of nodes without a job, from the first submission to the last end."""
    tardiness_eur: float
    jobs_overdue: int
    tardiness_s_total: float

    @property
    def total_eur(self) -> float:
        """Energy of nodes with a job, and tardiness."""
        return self.energy_eur + self.tardiness_eur


def training_costs(record: RunRecord) -> TrainingCosts | None:
    """Return the costs of a run; None without training jobs. Without prices, energy is free."""
    training = record.jobs.training
    if training is None:
        return None
    late_s = tardiness_s(record)
    prices = record.prices or Prices()
    used_uw, unused_uw = record.series.drawn_uw, record.series.unused_uw
    assert unused_uw is not None, "training runs have it"
    return TrainingCosts(
        energy_eur=energy_eur(record, used_uw - unused_uw, prices),
        idle_eur=energy_eur(record, unused_uw, prices),
        tardiness_eur=prices.late_eur(late_s, training.weights),
        jobs_overdue=int((late_s > 0).sum()),
        tardiness_s_total=float(late_s.sum()),
    )


def tardiness_s(record: RunRecord) -> Floats:
    """Return the tardiness of each job, in s."""
    training, end_ns = record.jobs.training, record.columns.end_ns
    assert training is not None, "jobs that train have due dates"
    late_s: Floats = np.maximum(end_ns - training.due_ns, 0) / NS_PER_S
    late_s[(training.due_ns < 0) | (end_ns < 0)] = 0.0
    return late_s


def energy_eur(record: RunRecord, powers_uw: Ints, prices: Prices) -> float:
    """Return the cost of a power that is constant between entries of the series, in EUR."""
    times_ns, ended = record.series.time_ns, record.columns.end_ns >= 0
    if len(times_ns) < 2 or not ended.any():
        return 0.0
    until_ns = int(record.columns.end_ns[ended].max())
    edges_ns = np.minimum(np.append(times_ns, until_ns), until_ns)
    each_eur = np.diff(prices.paid_eur(edges_ns))
    return float((powers_uw / UW_PER_KW * each_eur).sum())
