"""Metrics of one run, in units for people.

Means, medians and maxima are over the ended jobs; `Metrics.jobs_unfinished` counts the others.
Unknown values are NaN: times of a run without an ended job, solver times of a policy without a
solver, mean powers of a record without a series.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from wattfold.contract.units import NS_PER_S, UW_PER_W, j_from_uj, s_from_ns, w_from_uw
from wattfold.simulator.engine.record import RunRecord, Series
from wattfold.simulator.results.job_values import JobValues, job_values
from wattfold.simulator.results.training_costs import training_costs
from wattfold.simulator.workloads.workload import Floats, Ints, Mask

NAN = float("nan")
KEPT_WITHIN_S = 60.0
"""A promised start counts as kept with at most this delay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Metrics of a run. Wait is start - submit and response is end - submit.

    PARM (SC14) uses other names: its *response time* is ``wait_s_*`` here, and its *completion
    time* (waiting and running) is ``response_s_*``, which ``completion_s_*`` also gives.
    """

    policy: str
    seed: int
    nodes: int
    jobs: int
    jobs_unfinished: int
    wait_s_mean: float
    wait_s_median: float
    wait_s_max: float
    response_s_mean: float
    response_s_median: float
    response_s_max: float
    slowdown_mean: float
    """Response over the run time of the job table, without jobs that have no run time."""
    slowdown_median: float
    bounded_slowdown_mean: float
    """As slowdown, with run times below 10 s counted as 10 s, and at least 1."""
    bounded_slowdown_median: float
    makespan_s: float
    """First submission to last end."""
    utilisation: float
    """Nodes held, integrated over time, relative to all nodes over the makespan; 0..1."""
    nodes_busy_mean: float
    """Mean over the time with at least one running job."""
    energy_j: float
    committed_w_mean: float
    committed_w_peak: float
    drawn_w_mean: float
    drawn_w_peak: float
    over_budget_s: float
    resizes: int
    stalled_share: float
    """Time lost to resizes relative to the run time of the jobs; 0..1."""
    rounds: int
    solver_s_mean: float
    solver_s_p99: float
    solver_s_max: float
    events: int
    wall_s: float
    """Time of the simulation itself."""
    jobs_timed_out: int = 0
    """Jobs ended by their time limits."""
    preemptions: int = 0
    """Number of times that jobs were preempted."""
    wasted_share: float = 0.0
    """Time of lost work of earlier attempts relative to the run time of the jobs; 0..1."""
    start_error_s_mean: float = 0.0
    """Mean absolute difference between the first promised start and the start of a job."""
    start_error_s_median: float = 0.0
    start_kept_share: float = 0.0
    """Fraction of promised starts that were kept within a minute, or were early."""
    weighted_wait: float = 0.0
    """WQT of Bridi et al.: sum of the waits over the expected wait of the job's queue.

    This and the next six are 0 except in runs with queues that state waits.
    """
    jobs_late: int = 0
    """NL: jobs that waited longer than the maximum of their queue."""
    lateness_s_total: float = 0.0
    """TR: sum of the waits beyond the maxima."""
    decision_s_mean: float = 0.0
    """AO: wall time of a decision of the scheduler."""
    decision_s_max: float = 0.0
    decision_cpu_s_mean: float = 0.0
    """The same as CPU time, without that of helper processes and threads."""
    decision_cpu_s_max: float = 0.0
    total_eur: float = 0.0
    """Energy of nodes with a job, and tardiness.

    This and the next five are 0 except in runs with training jobs, as are the times of decisions.
    """
    energy_eur: float = 0.0
    idle_eur: float = 0.0
    """Energy of nodes without a job."""
    tardiness_eur: float = 0.0
    jobs_overdue: int = 0
    """Jobs that ended after their due date."""
    tardiness_s_total: float = 0.0
    nodes_awake: float = 0.0
    """Share of the nodes that are awake or boot, 0..1.

    This and the next four are 0 except in runs whose nodes sleep.
    """
    boots: int = 0
    failed_boots: int = 0
    asleep_j: float = 0.0
    """Energy of nodes that sleep, part of ``energy_j``."""
    boot_j: float = 0.0
    """Energy of nodes that boot, part of ``energy_j``."""

    @property
    def completion_s_mean(self) -> float:
        """PARM's mean completion time."""
        return self.response_s_mean

    @property
    def completion_s_max(self) -> float:
        """PARM's maximum completion time, its measure of fairness."""
        return self.response_s_max


def metrics_of(record: RunRecord) -> Metrics:
    """Return the metrics of a run."""
    jobs, columns = record.jobs, record.columns
    values = job_values(jobs.submit_ns, columns.start_ns, columns.end_ns, jobs.run_ns)
    ended = values.ended
    first_ns = int(jobs.submit_ns.min()) if len(jobs) else 0
    last_ns = int(columns.end_ns[ended].max()) if ended.any() else first_ns
    makespan_s = s_from_ns(last_ns - first_ns)
    wait, response = _Spread.of(values.wait_s[ended]), _Spread.of(values.response_s[ended])
    slowdown = _Spread.of(values.slowdown[ended & ~np.isnan(values.slowdown)])
    bounded = _Spread.of(values.bounded_slowdown[ended])
    solver = _Spread.of(record.solver_ns / NS_PER_S)
    return Metrics(
        policy=record.policy,
        seed=record.seed,
        nodes=record.machine.nodes,
        jobs=len(jobs),
        jobs_unfinished=int((~ended).sum()),
        wait_s_mean=wait.mean,
        wait_s_median=wait.median,
        wait_s_max=wait.most,
        response_s_mean=response.mean,
        response_s_median=response.median,
        response_s_max=response.most,
        slowdown_mean=slowdown.mean,
        slowdown_median=slowdown.median,
        bounded_slowdown_mean=bounded.mean,
        bounded_slowdown_median=bounded.median,
        makespan_s=makespan_s,
        utilisation=_share(
            float(columns.node_ns[ended].sum(dtype=np.float64)) / NS_PER_S,
            record.machine.nodes * makespan_s,
        ),
        nodes_busy_mean=_nodes_busy(record.series),
        energy_j=j_from_uj(record.energy_uj),
        committed_w_mean=mean_between(
            record.series.time_ns, record.series.committed_uw, first_ns, last_ns
        )
        / UW_PER_W,
        committed_w_peak=w_from_uw(record.peak_committed_uw),
        drawn_w_mean=_share(j_from_uj(record.energy_uj), makespan_s),
        drawn_w_peak=w_from_uw(record.peak_drawn_uw),
        over_budget_s=s_from_ns(record.over_budget_ns),
        resizes=int(columns.resizes.sum()),
        stalled_share=_stalled(columns.stalled_ns, values, ended),
        rounds=record.rounds,
        solver_s_mean=solver.mean,
        solver_s_p99=solver.p99,
        solver_s_max=solver.most,
        events=record.events,
        wall_s=record.wall_s,
        jobs_timed_out=_sum(columns.timed_out),
        preemptions=_sum(columns.attempts) - len(jobs) if columns.attempts is not None else 0,
        wasted_share=_wasted(columns.wasted_ns, values, ended),
        **_of_starts(record, ended),
        **_of_queues(record, values),
        **_of_training(record),
        **_of_decisions(record),
        **_of_sleep(record),
    )


class _OfSleep(TypedDict, total=False):
    nodes_awake: float
    boots: int
    failed_boots: int
    asleep_j: float
    boot_j: float


def _of_sleep(record: RunRecord) -> _OfSleep:
    """Return nodes awake, boots and their energies; empty if no node sleeps."""
    counts = record.sleep
    if counts is None:
        return {}
    return {
        "nodes_awake": counts.awake_ns / max(counts.node_ns, 1),
        "boots": counts.boots,
        "failed_boots": counts.failed,
        "asleep_j": counts.asleep_uw_ns / NS_PER_S / UW_PER_W,
        "boot_j": counts.boot_uw_ns / NS_PER_S / UW_PER_W,
    }


class _OfTraining(TypedDict, total=False):
    total_eur: float
    energy_eur: float
    idle_eur: float
    tardiness_eur: float
    jobs_overdue: int
    tardiness_s_total: float


def _of_training(record: RunRecord) -> _OfTraining:
    """Return the costs of training jobs; empty without training jobs."""
    costs = training_costs(record)
    if costs is None:
        return {}
    return {
        "total_eur": costs.total_eur,
        "energy_eur": costs.energy_eur,
        "idle_eur": costs.idle_eur,
        "tardiness_eur": costs.tardiness_eur,
        "jobs_overdue": costs.jobs_overdue,
        "tardiness_s_total": costs.tardiness_s_total,
    }


class _OfQueues(TypedDict, total=False):
    weighted_wait: float
    jobs_late: int
    lateness_s_total: float


class _OfDecisions(TypedDict, total=False):
    decision_s_mean: float
    decision_s_max: float
    decision_cpu_s_mean: float
    decision_cpu_s_max: float


def _of_decisions(record: RunRecord) -> _OfDecisions:
    """Return wall times of decisions, for the runs that measure them."""
    if record.jobs.waits is None and record.jobs.training is None:
        return {}
    return {
        "decision_s_mean": record.deciding_ns / NS_PER_S / max(record.decisions, 1),
        "decision_s_max": record.longest_decision_ns / NS_PER_S,
        "decision_cpu_s_mean": record.deciding_cpu_ns / NS_PER_S / max(record.decisions, 1),
        "decision_cpu_s_max": record.longest_decision_cpu_ns / NS_PER_S,
    }


def _of_queues(record: RunRecord, values: JobValues) -> _OfQueues:
    """Return the metrics based on the waits of queues; empty without queue waits."""
    waits = record.jobs.waits
    if waits is None:
        return {}
    said = values.ended & (waits.max_ns > 0)
    wait_s = values.wait_s[said]
    late_s = np.maximum(wait_s - waits.max_ns[said] / NS_PER_S, 0.0)
    return {
        "weighted_wait": float((wait_s / (waits.expected_ns[said] / NS_PER_S)).sum()),
        "jobs_late": int((late_s > 0).sum()),
        "lateness_s_total": float(late_s.sum()),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spread:
    mean: float
    median: float
    p99: float
    most: float

    @classmethod
    def of(cls, values: Floats) -> _Spread:
        if not len(values):
            return cls(mean=NAN, median=NAN, p99=NAN, most=NAN)
        return cls(
            mean=float(values.mean()),
            median=float(np.median(values)),
            p99=float(np.percentile(values, 99)),
            most=float(values.max()),
        )


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else NAN


def _stalled(stalled_ns: Ints, values: JobValues, ended: Mask) -> float:
    lost_s = float(stalled_ns[ended].sum(dtype=np.float64)) / NS_PER_S
    return _share(lost_s, float(values.run_s[ended].sum()))


def _sum(column: Ints | None) -> int:
    return 0 if column is None else int(column.sum())


def _wasted(wasted_ns: Ints | None, values: JobValues, ended: Mask) -> float:
    if wasted_ns is None or not wasted_ns.any():
        return 0.0
    lost_s = float(wasted_ns[ended].sum(dtype=np.float64)) / NS_PER_S
    return _share(lost_s, lost_s + float(values.run_s[ended].sum()))


class _OfStarts(TypedDict, total=False):
    start_error_s_mean: float
    start_error_s_median: float
    start_kept_share: float


def _of_starts(record: RunRecord, ended: Mask) -> _OfStarts:
    """Return how well first promised starts were kept; empty without promises."""
    told_ns = record.told_ns
    if told_ns is None or not (told := ended & (told_ns >= 0)).any():
        return {}
    late_s = (record.columns.start_ns[told] - told_ns[told]) / NS_PER_S
    return {
        "start_error_s_mean": float(np.abs(late_s).mean()),
        "start_error_s_median": float(np.median(np.abs(late_s))),
        "start_kept_share": float((late_s <= KEPT_WITHIN_S).mean()),
    }


def _nodes_busy(series: Series) -> float:
    """Return the mean number of busy nodes over the time with a running job."""
    if len(series.time_ns) < 2:
        return NAN
    lasted = np.diff(series.time_ns) * (series.running[:-1] > 0).astype(np.float64)
    return _share(float((series.nodes_busy[:-1] * lasted).sum()), float(lasted.sum()))


def mean_between(times_ns: Ints, values: Ints, first_ns: int, last_ns: int) -> float:
    """Return the mean of a step function over an interval; its first entry also counts earlier."""
    if not len(times_ns) or last_ns <= first_ns:
        return NAN
    edges = np.clip(times_ns, first_ns, last_ns)
    edges[0] = first_ns
    # Differences are exact as integers; their products with microwatts are not.
    lasted = np.diff(np.append(edges, last_ns)).astype(np.float64)
    return float((values * lasted).sum() / lasted.sum())
