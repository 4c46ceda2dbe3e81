"""Sums of the true state: energy, peaks, time above the budget, responses to lower budgets.

`note` is called at the end of every instant, so an excess within an instant does not count.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace

from wattfold.simulator.engine.sleep.sleep_counts import SleepCounts
from wattfold.simulator.messages.truth import Sums


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredBudget:
    """A budget from a time on; a lower budget must be met ``deadline_ns`` later."""

    time_ns: int
    budget_uw: int
    deadline_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetResponse:
    """Response to a lower budget. Durations from the change on, -1 = not before the next."""

    time_ns: int
    before_uw: int
    budget_uw: int
    deadline_ns: int
    bound_before_uw: int
    """Maximum power of the nodes at the change."""
    bound_kept_ns: int = -1
    """Time until the maximum power was within the new budget."""
    drawn_kept_ns: int = -1
    """Time until the drawn power was within the new budget."""


SERIES = ("time_ns", "queued", "running", "nodes_busy", "committed_uw", "drawn_uw", "budget_uw")


@dataclass(slots=True, kw_only=True)
class Meter:
    """Integrals over virtual time, in microwatt nanoseconds and nanoseconds."""

    budget_uw: int
    now_ns: int = 0
    drawn_uw: int = 0
    bound_uw: int = 0
    drawn_uw_ns: int = 0
    until_last_end_uw_ns: int = 0
    """Value of ``drawn_uw_ns`` at the last end of a process."""
    peak_bound_uw: int = 0
    peak_drawn_uw: int = 0
    peak_committed_uw: int = 0
    bound_over_ns: int = 0
    """Time with maximum power above the budget, without the grace of a lower budget."""
    drawn_over_ns: int = 0
    """Time with drawn power above the budget, including grace."""
    grace_until_ns: int = 0
    responses: list[BudgetResponse] = field(default_factory=list)
    sums: Sums = field(default_factory=Sums)
    """The true state, which is the same since the last instant."""
    sleep: SleepCounts = field(default_factory=SleepCounts)
    """Totals without the numbers of boots, which the nodes know."""
    series: dict[str, array[int]] = field(
        default_factory=lambda: {name: array("q") for name in SERIES}
    )
    _last: tuple[int, ...] = ()

    def advance(self, now_ns: int) -> None:
        """Add the time since the last instant, in which nothing changed."""
        elapsed_ns = now_ns - self.now_ns
        self.now_ns = now_ns
        self.drawn_uw_ns += self.drawn_uw * elapsed_ns
        sums = self.sums
        self.sleep.pass_time(elapsed_ns, sums.nodes, sums.asleep, sums.asleep_uw, sums.boot_uw)
        owed_ns = max(now_ns - max(now_ns - elapsed_ns, self.grace_until_ns), 0)
        self.bound_over_ns += owed_ns * (self.bound_uw > self.budget_uw)
        self.drawn_over_ns += elapsed_ns * (self.drawn_uw > self.budget_uw)

    def budget(self, step: MeteredBudget) -> None:
        """Change the budget."""
        if step.budget_uw < self.budget_uw:
            self.grace_until_ns = step.time_ns + step.deadline_ns
            self.responses.append(
                BudgetResponse(
                    time_ns=step.time_ns,
                    before_uw=self.budget_uw,
                    budget_uw=step.budget_uw,
                    deadline_ns=step.deadline_ns,
                    bound_before_uw=self.bound_uw,
                )
            )
        self.budget_uw = step.budget_uw

    def note(self, sums: Sums, committed_uw: int, queued: int) -> None:
        """Record the state at the end of the current instant."""
        self.sums = sums
        self.drawn_uw, self.bound_uw = sums.drawn_uw, sums.bound_uw
        self.peak_bound_uw = max(self.peak_bound_uw, sums.bound_uw)
        self.peak_drawn_uw = max(self.peak_drawn_uw, sums.drawn_uw)
        self.peak_committed_uw = max(self.peak_committed_uw, committed_uw)
        self._answer()
        state = (queued, sums.running, sums.nodes_busy, committed_uw, sums.drawn_uw, self.budget_uw)
        if (*state, sums.asleep) != self._last:
            self._last = (*state, sums.asleep)
            for name, value in zip(SERIES, (self.now_ns, *state), strict=True):
                self.series[name].append(value)
            self.sleep.awake.append(sums.nodes - sums.asleep)

    def _answer(self) -> None:
        """Check whether the last lower budget is met now."""
        last = self.responses[-1] if self.responses else None
        if last is None or last.budget_uw != self.budget_uw:
            return
        elapsed_ns = self.now_ns - last.time_ns
        if last.bound_kept_ns < 0 and self.bound_uw <= self.budget_uw:
            last = replace(last, bound_kept_ns=elapsed_ns)
        if last.drawn_kept_ns < 0 and self.drawn_uw <= self.budget_uw:
            last = replace(last, drawn_kept_ns=elapsed_ns)
        self.responses[-1] = last
