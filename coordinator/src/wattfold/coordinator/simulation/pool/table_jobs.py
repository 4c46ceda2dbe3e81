"""The jobs of a simulation as a scheduler asks for them: the table, and what runs."""

from __future__ import annotations

from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.coordinator.policies.scheduler import Ask, Held, Jobs
from wattfold.coordinator.simulation.pool.jobs import JobTable
from wattfold.coordinator.simulation.pool.progress import Progress
from wattfold.coordinator.simulation.pool.run_times import RunTimeModel, RunTimes

_REST = Ask(0, 0, 1.0, 0)[4:]
"""What a job asks for that asks for no more than a size."""


class TableJobs(Jobs):
    """Jobs by their position in the table.

    Estimates of jobs with profiles are scaled to the size and cap they get; the service takes its
    users at their word. Malleable jobs may change their nodes while they run; in the service none
    does. ``restart_s`` is what each change costs a job that starts again for it, seconds; 0 = none
    does.
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
        self._profiles = table.profiles
        self._waits_of = table.waits_of
        self._plain = not (restart_s or any(self._malleable)) and table.waits is None
        """Whether no job asks for more than a size."""
        self._times = RunTimes(table, RunTimeModel.PASS) if table.profiles else None

    def ask(self, job: int) -> Ask:
        """What it asks for."""
        asked = (
            self._least[job],
            self._greatest[job],
            self._priority[job],
            self._submit_ns[job],
        )
        if self._plain:
            # Of most workloads, and asked for once a job: not through a call with defaults.
            return tuple.__new__(Ask, asked + _REST)
        return Ask(
            *asked,
            resizable=self._malleable[job],
            resize_s=self._restart_s,
            waits=self._waits_of(job),
        )

    def held(self, job: int) -> Held | None:
        """What it has; None while it waits."""
        running = self._running
        if job not in running.jobs:
            return None
        return Held(running.size[job], running.cap_uw[job], running.start_ns[job])

    def foretell(self, job: int, estimate_ns: int) -> None:
        """From now on a job is taken to run so long at the size it asks for."""
        if estimate_ns < self._estimate_ns[job]:
            self._foretold[job] = estimate_ns
        else:
            self._foretold.pop(job, None)

    def foretold_ns(self, job: int) -> int:
        """What it is taken to run other than its user says; 0 = just that."""
        return self._foretold.get(job, 0)

    def estimate_ns(self, job: int, size: int, cap_uw: int) -> int:
        """For the logged run; at another size and cap it grows with the run."""
        if self._times is None and not self._foretold:
            return self._estimate_ns[job]
        foretold_ns = self._foretold.get(job)
        estimate_ns = self._estimate_ns[job] if foretold_ns is None else foretold_ns
        if self._times is None:
            return estimate_ns
        total_ns = self._times.total_ns(job, size, cap_uw)
        scaled_ns = -(-estimate_ns * total_ns // max(self._run_ns[job], 1))
        return max(scaled_ns, total_ns) if foretold_ns is None else scaled_ns

    def profile(self, job: int, kind: NodeKind) -> PassProfile:  # noqa: ARG002 - all are alike
        """As annotated, whatever its user's estimate."""
        return self._profiles[job]

    def done(self, job: int, now_ns: int) -> float:
        """Share of its work that is done."""
        return self._running.done_by(job, now_ns) if job in self._running.jobs else 0.0

    def kept(self, job: int) -> float:
        """Share of its work that a job that waits has kept of its earlier attempts."""
        return self._running.done[job]
