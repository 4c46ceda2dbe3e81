"""Jobs of a simulation as schedulers see them: the table and the running jobs."""

from __future__ import annotations

from collections.abc import Mapping

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.coordinator.policies.port import Held, JobInformation, SizeRequest
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.running_jobs.progress import Progress
from wattfold.simulator.engine.running_jobs.run_times import RunTimeModel, RunTimes

_REST = SizeRequest(0, 0, 1.0, 0)[4:]
"""Rest of the request of a job that requests only a size."""


class TableJobs(JobInformation):
    """Jobs by their position in the table.

    Estimates of jobs with profiles are scaled to the size and cap that they get; the service uses
    the users' estimates as given. Malleable jobs may change their nodes while they run, which no
    job does in the service. ``restart_s`` is the cost of each change for a job that restarts for
    it, in seconds; 0 = jobs do not restart.
    """

    def __init__(self, table: JobTable, running: Progress, *, restart_s: float = 0.0) -> None:
        self._running = running
        self._least: list[int] = table.size_min.tolist()
        self._greatest: list[int] = table.size_max.tolist()
        self._priority: list[float] = table.priority.tolist()
        self._submit_ns: list[int] = table.submit_ns.tolist()
        self._estimate_ns: list[int] = table.estimate_ns.tolist()
        self._run_ns: list[int] = table.run_ns.tolist()
        self._malleable: list[bool] = table.malleable.tolist()
        self._restart_s = restart_s
        self._foretold: dict[int, int] = {}
        self.unscaled_uw: Mapping[int, int] = {}
        """Decided caps of jobs whose caps are lower for a short time, until nodes are asleep."""
        self._profiles = table.profiles
        self._waits_of = table.waits_of
        self._plain = not (restart_s or any(self._malleable)) and table.waits is None
        """Whether no job requests more than a size."""
        self._times = RunTimes(table, RunTimeModel.PASS) if table.profiles else None

    def arrive(self, job: int, now_ns: int) -> None:
        """Let the wait of a job count from now on, as in the service.

        A job waits from the time at which the conditions of its start are met.
        """
        self._submit_ns[job] = now_ns

    def arrived_ns(self, job: int) -> int:
        """Return the time from which the wait of a job counts."""
        return self._submit_ns[job]

    def ask(self, job: int) -> SizeRequest:
        """Return the request of a job."""
        asked = (
            self._least[job],
            self._greatest[job],
            self._priority[job],
            self._submit_ns[job],
        )
        if self._plain:
            # Most workloads are plain. This path runs once per job, so it avoids a call with
            # defaults.
            return tuple.__new__(SizeRequest, asked + _REST)
        return SizeRequest(
            *asked,
            resizable=self._malleable[job],
            resize_s=self._restart_s,
            waits=self._waits_of(job),
        )

    def held(self, job: int) -> Held | None:
        """Return the resources of a running job; None while it waits."""
        running = self._running
        if job not in running.jobs:
            return None
        cap_uw = self.unscaled_uw.get(job, running.cap_uw[job])
        return Held(running.size[job], cap_uw, running.start_ns[job])

    def foretell(self, job: int, estimate_ns: int) -> None:
        """Set the predicted run time of a job at its requested size."""
        if estimate_ns != self._estimate_ns[job]:
            self._foretold[job] = estimate_ns
        else:
            self._foretold.pop(job, None)

    def foretold_ns(self, job: int) -> int:
        """Return the predicted run time of a job; 0 = the user's estimate holds."""
        return self._foretold.get(job, 0)

    def estimate_ns(self, job: int, size: int, cap_uw: int) -> int:
        """Return a job's estimate; with a profile it is scaled to its size and cap."""
        if self._times is None and not self._foretold:
            return self._estimate_ns[job]
        foretold_ns = self._foretold.get(job)
        estimate_ns = self._estimate_ns[job] if foretold_ns is None else foretold_ns
        if self._times is None:
            return estimate_ns
        total_ns = self._times.total_ns(job, size, cap_uw)
        scaled_ns = -(-estimate_ns * total_ns // max(self._run_ns[job], 1))
        return max(scaled_ns, total_ns) if foretold_ns is None else scaled_ns

    def profile(self, job: int, kind: NodeKind) -> PassProfile:
        """Return the annotated profile, independent of the user's estimate."""
        return self._profiles[job].on(w_from_uw(kind.least_uw), w_from_uw(kind.most_uw))

    def done(self, job: int, now_ns: int) -> float:
        """Return the fraction of a job's work that is done."""
        return self._running.done_by(job, now_ns) if job in self._running.jobs else 0.0

    def kept(self, job: int) -> float:
        """Return the fraction of a waiting job's work that its earlier attempts saved."""
        return self._running.done[job]
