"""FCFS, EASY and conservative backfilling on a pool, unaware of power but for its limit.

As the service's `fifo_easy`: every job gets the nodes it asks for at the greatest cap (or at one
cap for all, PARM's naive overprovisioning), and what the budget does not feed at that cap waits.
The decisions are those of `policies.backfill` and `policies.reservations`.
"""

from __future__ import annotations

from collections.abc import Sequence

from wattfold.coordinator.policies.backfill import EasyQueue
from wattfold.coordinator.policies.reservations import ConservativeQueue
from wattfold.coordinator.simulation.pool.jobs import JobTable
from wattfold.coordinator.simulation.pool.machine import Machine
from wattfold.coordinator.simulation.pool.run_times import RunTimeModel, RunTimes
from wattfold.coordinator.simulation.pool.scheduler import Decision, Progress


class BackfillScheduler:
    """Queue order with backfilling.

    ``method`` is ``easy``, ``fcfs`` (no backfilling) or ``conservative``. ``size`` is which end of
    a job's range it gets. ``kills_at_limit``: see `policies.backfill`; only for jobs that never run
    longer than their estimate, which holds for `job_table(cut_at_estimate=True)` under a budget
    that does not change. Estimates of jobs with profiles are scaled to the size and cap they get.
    """

    each_event = True
    revisit_ns = 0
    solver_ns: Sequence[int] = ()

    def __init__(
        self,
        table: JobTable,
        machine: Machine,
        *,
        method: str = "easy",
        cap_uw: int | None = None,
        size: str = "max",
        kills_at_limit: bool = True,
    ) -> None:
        if method not in METHODS:
            raise ValueError(f"no such method: {method!r}; there are {', '.join(METHODS)}")
        self.method = method
        self.cap_uw = machine.cap_uw_max if cap_uw is None else cap_uw
        sizes = table.size_min if size == "min" else table.size_max
        self._size: list[int] = sizes.tolist()
        self._estimate: list[int] = table.estimate_ns.tolist()
        ranked = bool((table.priority != 1.0).any())
        self._priority: list[float] | None = table.priority.tolist() if ranked else None
        if table.profiles:
            self._scale_estimates(table)
        self._dynamic_uw = machine.dynamic_uw(self.cap_uw)
        self._units = 0
        self._queue: EasyQueue | ConservativeQueue
        if method == "conservative":
            self._queue = ConservativeQueue(0, kills_at_limit=kills_at_limit)
        else:
            self._queue = EasyQueue(0, backfill=method == "easy", kills_at_limit=kills_at_limit)

    @property
    def name(self) -> str:
        """``easy``, ``fcfs`` or ``conservative``."""
        return self.method

    def attach(self, progress: Progress) -> None:
        """Progress is of no use to it."""

    def resources(self, nodes: int, spendable_uw: int) -> None:
        """Nodes that can be fed at the cap."""
        units = min(nodes, max(spendable_uw, 0) // max(self._dynamic_uw, 1))
        self._queue.resize(units - self._units)
        self._units = units

    def submit(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """A job joins the queue."""
        if self._priority is None:
            self._queue.submit(job, self._size[job], self._estimate[job])
        else:
            size, estimate = self._size[job], self._estimate[job]
            self._queue.submit(job, size, estimate, self._priority[job])

    def end(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """A job has ended."""
        self._queue.end(job)

    def decide(self, now_ns: int) -> Sequence[Decision]:
        """The jobs that start."""
        started = self._queue.decide(now_ns)
        if not started:
            return ()
        size, cap_uw = self._size, self.cap_uw
        return [(job, size[job], cap_uw) for job in started]

    def _scale_estimates(self, table: JobTable) -> None:
        """An estimate is for the logged run; at another size and cap it grows with the run."""
        times = RunTimes(table, RunTimeModel.PASS)
        logged: list[int] = table.run_ns.tolist()
        for job, estimate in enumerate(self._estimate):
            total_ns = times.total_ns(job, self._size[job], self.cap_uw)
            self._estimate[job] = max(-(-estimate * total_ns // max(logged[job], 1)), total_ns)


METHODS = ("easy", "fcfs", "conservative")
