"""Data of a run for plots and tables, independent of the kind of run.

Times are in seconds from the start of the run. Powers are in watts, not microwatts, for readers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerPoint:
    """Committed and measured power from a time on."""

    time_s: float
    committed_w: float
    measured_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPoint:
    """The budget from a time on."""

    time_s: float
    budget_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSpan:
    """A span of time in which a job held a core."""

    job: str
    node: str
    cpu: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitPoint:
    """Power that the limits of each node allow from this moment on, base power included."""

    time_s: float
    node_w: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCurves:
    """Changes of the limits, each with the power of all nodes in this order."""

    nodes: tuple[str, ...]
    points: tuple[LimitPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Figures of a run that were taken from outside of the services."""

    foreign_share: float
    """Part of the CPU time of the cores that belonged to no process of the run."""
    samples: int
    """Number of times that the limits of all nodes were read."""
    samples_above: int
    """Number of samples in which the limits exceeded the budget."""
    limits_w_peak: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRun:
    """One run of a workload under one policy."""

    policy: str
    budget: tuple[BudgetPoint, ...]
    power: tuple[PowerPoint, ...]
    spans: tuple[CoreSpan, ...]
    limits: LimitCurves

    @property
    def end_s(self) -> float:
        """Time at which the last core was released, or of the last sample if no core was held."""
        if self.spans:
            return max(span.end_s for span in self.spans)
        return max((point.time_s for point in self.power), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    """Results of a run."""

    policy: str
    jobs: int
    mean_completion_s: float
    """Mean of end minus submission over the jobs."""
    makespan_s: float
    energy_j: float
    budget_w: float
    committed_w_peak: float
    measured_w_peak: float
    resizes: int
    observed: Observation
