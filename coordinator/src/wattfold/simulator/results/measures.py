"""Metrics by name: their titles in tables and on axes, and which direction is better."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.simulator.results.metrics import Metrics
from wattfold.simulator.results.scales import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """An attribute of `Metrics`. ``better`` is -1 if less is better, 1 for more, 0 for neither."""

    key: str
    title: str
    quantity: Quantity
    better: int = 0
    timing: bool = False
    """Depends on the computer that ran the simulation."""
    rare: bool = False
    """Neither shown nor written to the run's file if it is 0 in all runs."""

    def of(self, metrics: Metrics) -> float:
        """Return the value, in base units."""
        return float(getattr(metrics, self.key))


def _time(key: str, title: str, *, timing: bool = False) -> Measure:
    return Measure(key=key, title=title, quantity=Quantity.TIME, better=-1, timing=timing)


def _ratio(key: str, title: str) -> Measure:
    return Measure(key=key, title=title, quantity=Quantity.RATIO, better=-1)


def _power(key: str, title: str) -> Measure:
    return Measure(key=key, title=title, quantity=Quantity.POWER)


def _cost(key: str, title: str) -> Measure:
    return Measure(key=key, title=title, quantity=Quantity.COST, better=-1, rare=True)


MEASURES: tuple[Measure, ...] = (
    Measure(key="jobs", title="jobs", quantity=Quantity.COUNT),
    Measure(key="jobs_unfinished", title="not finished", quantity=Quantity.COUNT, better=-1),
    _time("wait_s_mean", "mean wait"),
    _time("wait_s_median", "median wait"),
    _time("wait_s_max", "max wait"),
    _time("response_s_mean", "mean completion"),
    _time("response_s_median", "median completion"),
    _time("response_s_max", "max completion"),
    _ratio("slowdown_mean", "mean slowdown"),
    _ratio("slowdown_median", "median slowdown"),
    _ratio("bounded_slowdown_mean", "mean bounded slowdown"),
    _ratio("bounded_slowdown_median", "median bounded slowdown"),
    _time("makespan_s", "makespan"),
    Measure(key="utilisation", title="utilisation", quantity=Quantity.SHARE),
    Measure(key="nodes_busy_mean", title="mean nodes busy", quantity=Quantity.COUNT),
    Measure(key="energy_j", title="energy", quantity=Quantity.ENERGY, better=-1),
    _power("committed_w_mean", "mean committed power"),
    _power("committed_w_peak", "peak committed power"),
    _power("drawn_w_mean", "mean drawn power"),
    _power("drawn_w_peak", "peak drawn power"),
    _time("over_budget_s", "time over budget"),
    Measure(key="resizes", title="resizes", quantity=Quantity.COUNT),
    Measure(key="stalled_share", title="lost to resizes", quantity=Quantity.SHARE, better=-1),
    Measure(
        key="jobs_timed_out", title="ended by limits", quantity=Quantity.COUNT, better=-1, rare=True
    ),
    Measure(key="preemptions", title="preemptions", quantity=Quantity.COUNT, rare=True),
    Measure(
        key="wasted_share", title="lost to restarts", quantity=Quantity.SHARE, better=-1, rare=True
    ),
    Measure(
        key="start_error_s_mean",
        title="mean error of announced starts",
        quantity=Quantity.TIME,
        better=-1,
        rare=True,
    ),
    Measure(
        key="start_error_s_median",
        title="median error of announced starts",
        quantity=Quantity.TIME,
        better=-1,
        rare=True,
    ),
    Measure(
        key="start_kept_share",
        title="started as announced, or earlier",
        quantity=Quantity.SHARE,
        better=1,
        rare=True,
    ),
    Measure(
        key="weighted_wait",
        title="WQT, waits over expected waits",
        quantity=Quantity.RATIO,
        better=-1,
        rare=True,
    ),
    Measure(key="jobs_late", title="NL, jobs late", quantity=Quantity.COUNT, better=-1, rare=True),
    Measure(
        key="lateness_s_total",
        title="TR, sum of lateness",
        quantity=Quantity.TIME,
        better=-1,
        rare=True,
    ),
    Measure(key="nodes_awake", title="nodes awake", quantity=Quantity.SHARE, rare=True),
    Measure(key="boots", title="boots", quantity=Quantity.COUNT, better=-1, rare=True),
    Measure(key="failed_boots", title="failed boots", quantity=Quantity.COUNT, rare=True),
    Measure(key="asleep_j", title="energy asleep", quantity=Quantity.ENERGY, rare=True),
    Measure(key="boot_j", title="energy of boots", quantity=Quantity.ENERGY, rare=True),
    _cost("total_eur", "energy in use and tardiness"),
    _cost("energy_eur", "energy of nodes in use"),
    _cost("idle_eur", "energy of nodes without a job"),
    _cost("tardiness_eur", "tardiness"),
    Measure(
        key="jobs_overdue", title="jobs overdue", quantity=Quantity.COUNT, better=-1, rare=True
    ),
    Measure(
        key="tardiness_s_total",
        title="sum of tardiness",
        quantity=Quantity.TIME,
        better=-1,
        rare=True,
    ),
    Measure(key="rounds", title="planning rounds", quantity=Quantity.COUNT),
    _time("solver_s_mean", "mean solver time", timing=True),
    _time("solver_s_p99", "p99 solver time", timing=True),
    _time("solver_s_max", "max solver time", timing=True),
    Measure(
        key="decision_s_mean",
        title="AO, mean decision",
        quantity=Quantity.TIME,
        better=-1,
        timing=True,
        rare=True,
    ),
    Measure(
        key="decision_s_max",
        title="longest decision",
        quantity=Quantity.TIME,
        better=-1,
        timing=True,
        rare=True,
    ),
    Measure(
        key="decision_cpu_s_mean",
        title="mean CPU time of a decision",
        quantity=Quantity.TIME,
        better=-1,
        timing=True,
        rare=True,
    ),
    Measure(
        key="decision_cpu_s_max",
        title="longest CPU time of a decision",
        quantity=Quantity.TIME,
        better=-1,
        timing=True,
        rare=True,
    ),
    _time("wall_s", "simulation time", timing=True),
)


def measure(key: str) -> Measure:
    """Return the measure of an attribute of `Metrics`; ``completion_s_*`` is ``response_s_*``.

    Raises ValueError for an unknown name.
    """
    wanted = key.replace("completion_s", "response_s")
    for known in MEASURES:
        if known.key == wanted:
            return known
    names = ", ".join(known.key for known in MEASURES)
    raise ValueError(f"unknown figure of merit {key!r}; there are {names}")
