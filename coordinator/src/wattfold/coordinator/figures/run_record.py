"""What a figure or a table of a run is made of: plain data, whatever the run was.

Times are seconds from the start of the run. Watts and not microwatts, as these are for people.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerPoint:
    """Committed and measured power from this moment on."""

    time_s: float
    committed_w: float
    measured_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPoint:
    """The budget from this moment on."""

    time_s: float
    budget_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSpan:
    """A job held one core for a while."""

    job: str
    node: str
    cpu: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRun:
    """One run of a workload under one policy."""

    policy: str
    budget: tuple[BudgetPoint, ...]
    power: tuple[PowerPoint, ...]
    spans: tuple[CoreSpan, ...]

    @property
    def end_s(self) -> float:
        """When the last core was given back; the last sample without any."""
        if self.spans:
            return max(span.end_s for span in self.spans)
        return max((point.time_s for point in self.power), default=0.0)

    def budget_at(self, time_s: float) -> float | None:
        """The budget in force at a moment, W; None before the first."""
        earlier = [point for point in self.budget if point.time_s <= time_s]
        return max(earlier, key=lambda point: point.time_s).budget_w if earlier else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    """The figures of merit of one run."""

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
