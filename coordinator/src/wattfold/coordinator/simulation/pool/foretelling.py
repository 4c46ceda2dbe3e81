"""Any scheduler of a pool, planning with predicted run times in place of its users' words.

It stands between the engine and the scheduler: predicts each job as it is submitted, learns from
each that ends (`models.forecast`), and gives those that run past their prediction more time, each
at the moment when it does. The scheduler asks for estimates as it always does and gets predictions.
When a job is ended is no matter of this: its user's time stays the limit.

What is learnt of a job is what its work takes at the size it asked for, however it ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, Protocol, cast, runtime_checkable

from wattfold.coordinator.models.forecast import (
    METHODS,
    USER,
    Asked,
    Known,
    RunHistory,
    grown_ns,
    predicted_ns,
)
from wattfold.coordinator.policies.scheduler import Jobs, Scheduler, Site
from wattfold.coordinator.simulation.pool.jobs import JobTable


class Replans(Scheduler, Protocol):
    """A scheduler that can be told that the estimate of a running job is another."""

    def change(self, job: int, now_ns: int) -> None:
        """A job is other than it was."""


@runtime_checkable
class Stretches(Protocol):
    """A scheduler under which jobs run at other speeds than asked for."""

    def ends_ns(self, job: int) -> int:
        """When a running job is planned to end."""


class Foretellable(Jobs, Protocol):
    """Jobs whose estimates may be predictions (`TableJobs`)."""

    def foretell(self, job: int, estimate_ns: int) -> None:
        """From now on a job is taken to run so long at the size it asks for."""


class ForetellingScheduler:
    """A scheduler with a predictor before it. ``method`` is one of `METHODS`, not the user's."""

    def __init__(self, table: JobTable, inner: Replans, method: str) -> None:
        if method not in METHODS or method == USER:
            raise ValueError(
                f"unknown predictor {method!r}; choose one of {', '.join(METHODS[1:])}"
            )
        self._table, self._inner, self._method = table, inner, method
        self._stretches = inner if isinstance(inner, Stretches) else None
        self._history = RunHistory()
        self._jobs: Foretellable
        self._known: dict[int, Known] = {}
        """Of the jobs that wait or run."""
        self._running: dict[int, int] = {}
        """When they started."""
        self._planned: dict[int, int] = {}
        """How long those are taken to run, at the size they asked for, that may grow."""
        self._due: list[tuple[int, int]] = []
        """When running jobs reach what they are planned for, or reached it as planned before."""
        self._left: tuple[int, int] | None = None
        """The job that ended last and when, of which nothing is learnt if it comes back."""

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self._inner.name}+{self._method}"

    @property
    def each_event(self) -> bool:
        """As the scheduler."""
        return self._inner.each_event

    @property
    def revisit_ns(self) -> int:
        """When the scheduler wants to be asked again, or the next prediction is exceeded."""
        revisit_ns = self._inner.revisit_ns
        if not self._due:
            return revisit_ns
        return min(revisit_ns, self._due[0][0]) if revisit_ns else self._due[0][0]

    @property
    def solver_ns(self) -> Sequence[int]:
        """As the scheduler."""
        return self._inner.solver_ns

    def attach(self, jobs: Jobs) -> None:
        """Called once before anything else."""
        self._jobs = cast("Foretellable", jobs)
        self._inner.attach(jobs)

    def site(self, site: Site) -> None:
        """Nodes and power from now on."""
        self._inner.site(site)

    def submit(self, job: int, now_ns: int) -> None:
        """A job enters the queue with a prediction, or comes back with the one it had."""
        asked = _asked(self._table, job)
        if self._left is not None and self._left[0] == job:
            self._left = None
        else:
            self._learn()
            self._known[job] = self._history.known(asked)
        planned_ns = self._predicted_ns(job)
        self._planned[job] = planned_ns
        self._jobs.foretell(job, planned_ns)
        self._inner.submit(job, now_ns)

    def end(self, job: int, now_ns: int) -> None:
        """A job has ended."""
        self._learn()
        started_ns = self._running.pop(job, None)
        if started_ns is not None:
            self._left = job, now_ns - started_ns
        self._planned.pop(job, None)
        self._inner.end(job, now_ns)

    def decide(self, now_ns: int) -> Sequence[Any]:
        """What the scheduler decides by the predictions as they are now."""
        while self._due and self._due[0][0] <= now_ns:
            self._reached(heappop(self._due)[1], now_ns)
        decisions: Sequence[Any] = self._inner.decide(now_ns)
        for decision in decisions:
            job = decision[0]
            if job not in self._running:
                self._running[job] = now_ns
            if job in self._planned:
                heappush(self._due, (max(self._ends_ns(job, now_ns), now_ns + 1), job))
        return decisions

    def _ends_ns(self, job: int, now_ns: int) -> int:
        """When a running job is planned to end."""
        if self._stretches is not None:
            return self._stretches.ends_ns(job)
        held = self._jobs.held(job)
        if held is None:  # It starts in this decision.
            return now_ns + self._planned[job]
        return self._running[job] + self._jobs.estimate_ns(job, held.size, held.cap_uw)

    def _reached(self, job: int, now_ns: int) -> None:
        """A running job may have run for as long as it is planned to, and runs on."""
        if job not in self._running or job not in self._planned:
            return
        asked_ns, predicted = int(self._table.estimate_ns[job]), self._predicted_ns(job)
        ends_ns = self._ends_ns(job, now_ns)
        while ends_ns <= now_ns and self._planned[job] < asked_ns:
            self._planned[job] = grown_ns(predicted, self._planned[job], asked_ns)
            self._jobs.foretell(job, self._planned[job])
            self._inner.change(job, now_ns)
            ends_ns = self._ends_ns(job, now_ns)
        if ends_ns > now_ns:
            heappush(self._due, (ends_ns, job))
        else:
            del self._planned[job]  # It has all its user asked for.

    def _predicted_ns(self, job: int) -> int:
        """What a job is taken to run when it starts."""
        asked_ns = int(self._table.estimate_ns[job])
        return min(predicted_ns(self._method, self._known[job], asked_ns), asked_ns)

    def _learn(self) -> None:
        """The job that ended last has not come back."""
        if self._left is None:
            return
        (job, ran_ns), self._left = self._left, None
        run_ns = min(int(self._table.run_ns[job]), ran_ns)
        self._history.learn(_asked(self._table, job), self._known.pop(job), run_ns)


def _asked(table: JobTable, job: int) -> Asked:
    return Asked(
        user=str(table.users[job]),
        app=str(table.apps[job]) if table.apps is not None else "",
        size=int(table.size_max[job]),
        time_ns=int(table.estimate_ns[job]),
    )
