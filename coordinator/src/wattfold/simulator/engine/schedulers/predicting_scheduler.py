"""Scheduler of a pool with predicted run times in place of the users' estimates.

It stands between the engine and the scheduler. It predicts each job at its submission, learns from
each job that ends (`models.forecast`), and extends the prediction of a job at the moment when the
job exceeds it. The inner scheduler asks for estimates as usual and gets predictions.

Predictions never end a job: the user's time stays the limit. If jobs may exceed that time,
schedulers without predictions need this class too, because the users' estimates are extended in the
same way.

It learns the run time of the job's work at the requested size, whatever sizes the job had.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Protocol, cast, runtime_checkable

from wattfold.coordinator.models.forecast import (
    METHODS,
    USER,
    Asked,
    RunHistory,
    SimilarRuns,
    grown_ns,
    lasting_ns,
    predicted_ns,
)
from wattfold.coordinator.policies.port import Decision, JobInformation, Scheduler, Site
from wattfold.simulator.engine.running_jobs.jobs import JobTable


@runtime_checkable
class Stretches(Protocol):
    """A scheduler under which jobs run at other speeds than requested."""

    def ends_ns(self, job: int) -> int:
        """Return the planned end of a running job."""


class PredictableJobs(JobInformation, Protocol):
    """Jobs whose estimates may be predictions (`TableJobs`)."""

    def foretell(self, job: int, estimate_ns: int) -> None:
        """Set the predicted run time of a job at its requested size."""


class PredictingScheduler(Scheduler):
    """A scheduler with a predictor in front. ``method`` is one of `METHODS`.

    ``outlasts``: jobs may run for longer than their users requested.
    """

    def __init__(
        self, table: JobTable, inner: Scheduler, method: str, *, outlasts: bool = False
    ) -> None:
        if method not in METHODS or (method == USER and not outlasts):
            raise ValueError(
                f"unknown predictor {method!r}; choose one of {', '.join(METHODS[1:])}"
            )
        self._outlasts = outlasts
        self._table, self._inner, self._method = table, inner, method
        self._stretches = inner if isinstance(inner, Stretches) else None
        self._history = RunHistory()
        self._jobs: PredictableJobs
        self._known: dict[int, SimilarRuns] = {}
        """Predictors' knowledge of waiting and running jobs."""
        self._running: dict[int, int] = {}
        """Start times of running jobs."""
        self._planned: dict[int, int] = {}
        """Planned run times, at the requested size, of jobs whose plan may still grow."""
        self._due: list[tuple[int, int]] = []
        """Heap of (planned end, job) of running jobs; entries of earlier plans remain."""
        self._left: tuple[int, int] | None = None
        """The job that ended last and its run time. It teaches nothing if the job is requeued."""

    @property
    def name(self) -> str:
        """Name of the inner scheduler, with the predictor if it has one."""
        return self._inner.name if self._method == USER else f"{self._inner.name}+{self._method}"

    @property
    def each_event(self) -> bool:
        """As in the inner scheduler."""
        return self._inner.each_event

    @property
    def revisit_ns(self) -> int:
        """Time of the next request of the scheduler, or when the next prediction is exceeded."""
        revisit_ns = self._inner.revisit_ns
        if not self._due:
            return revisit_ns
        return min(revisit_ns, self._due[0][0]) if revisit_ns else self._due[0][0]

    @property
    def solver_ns(self) -> Sequence[int]:
        """As in the inner scheduler."""
        return self._inner.solver_ns

    def attach(self, jobs: JobInformation) -> None:
        """Attach the jobs; called once before anything else."""
        self._jobs = cast("PredictableJobs", jobs)
        self._inner.attach(jobs)

    def site(self, site: Site) -> None:
        """Set nodes and power from now on."""
        self._inner.site(site)

    def submit(self, job: int, now_ns: int) -> None:
        """Queue a job with a prediction; a requeued job keeps its knowledge."""
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

    def change(self, job: int, now_ns: int) -> None:
        """Use the new start of a running job that waited for its nodes."""
        held = self._jobs.held(job)
        if held is not None and job in self._running:
            self._running[job] = held.started_ns
            if job in self._planned:
                heappush(self._due, (max(self._ends_ns(job, now_ns), now_ns + 1), job))
        self._inner.change(job, now_ns)

    def end(self, job: int, now_ns: int) -> None:
        """Handle the end of a job."""
        self._learn()
        started_ns = self._running.pop(job, None)
        if started_ns is not None:
            self._left = job, now_ns - started_ns
        self._planned.pop(job, None)
        self._inner.end(job, now_ns)

    def decide(self, now_ns: int) -> Decision:
        """Return the decision of the scheduler under the current predictions."""
        while self._due and self._due[0][0] <= now_ns:
            self._reached(heappop(self._due)[1], now_ns)
        decision = self._inner.decide(now_ns)
        for job, *_ in decision.changes:
            if job not in self._running:
                self._running[job] = now_ns
            if job in self._planned:
                heappush(self._due, (max(self._ends_ns(job, now_ns), now_ns + 1), job))
        return decision

    def _ends_ns(self, job: int, now_ns: int) -> int:
        """Return the planned end of a running job."""
        if self._stretches is not None:
            return self._stretches.ends_ns(job)
        held = self._jobs.held(job)
        if held is None:  # It starts in this decision.
            return now_ns + self._planned[job]
        return self._running[job] + self._jobs.estimate_ns(job, held.size, held.cap_uw)

    def _reached(self, job: int, now_ns: int) -> None:
        """Extend the plan of a running job that has reached its planned end."""
        if job not in self._running or job not in self._planned:
            return
        ends_ns = self._ends_ns(job, now_ns)
        while ends_ns <= now_ns and (planned_ns := self._grown_ns(job)) > self._planned[job]:
            self._planned[job] = planned_ns
            self._jobs.foretell(job, planned_ns)
            self._inner.change(job, now_ns)
            ends_ns = self._ends_ns(job, now_ns)
        if ends_ns > now_ns:
            heappush(self._due, (ends_ns, job))
        else:
            del self._planned[job]  # The plan has reached the time that the user requested.

    def _grown_ns(self, job: int) -> int:
        """Return the next planned run time of a job that has reached its plan."""
        table, predicted, spent_ns = self._table, self._predicted_ns(job), self._planned[job]
        asked_ns = int(table.estimate_ns[job])
        if not self._outlasts:
            return grown_ns(predicted, spent_ns, asked_ns)
        limit_ns = int(table.limit_ns[job]) if table.limit_ns is not None else 0
        return lasting_ns(predicted, spent_ns, asked_ns, limit_ns)

    def _predicted_ns(self, job: int) -> int:
        """Return the predicted run time of a job at its start."""
        asked_ns = int(self._table.estimate_ns[job])
        return min(predicted_ns(self._method, self._known[job], asked_ns), asked_ns)

    def _learn(self) -> None:
        """Learn from the job that ended last; it was not requeued."""
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
