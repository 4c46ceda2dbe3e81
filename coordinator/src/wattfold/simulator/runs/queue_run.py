"""Simulation of the queue of a site from this moment on, with the service's core and policies.

The run has two phases. In the first phase, the jobs that run now start at their real times on their
real resources, under a budget that never binds. So the core knows submissions, starts and time
limits as the coordinator does. At ``now_ns``, the second phase begins: the progress of running jobs
is set, and the policy, the budget, announced budgets, limits, reservations and closed nodes take
effect. The run ends when no job can run any more.

Nothing in it depends on chance: two runs of equal queues and policies are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model import configuration
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.plan import Plan, Policy, Snapshot, Waiting
from wattfold.simulator.messages.driver import ClusterOptions, SimulatedCluster
from wattfold.simulator.messages.work import Work
from wattfold.simulator.runs.schedulers import ready_of
from wattfold.simulator.runs.site_queue import QueuedJob, SiteQueue

S = 1_000_000_000
STARTUP_NS = 10 * S
"""Nodes connect within this time, before the first job."""
STUCK_NS = 600 * S
"""After this time without running jobs and future changes, waiting jobs count as never starting."""
LEASE_NS, LEASE_ANNOUNCED_NS = 86_400 * S, 600 * S
"""Lengths of leases. The second is for announced budgets, which are met a lease before their time.

Every node renews its lease three times in it, so short leases make long runs slow.
"""
LONGEST_NS = 400 * 86_400 * S
DEADLINE_NS = 60 * S
"""Time in which running jobs must meet a lower budget."""
ENDLESS = Work(run_ns=1 << 62, asked_cores=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTimes:
    """Start and end of a job in time of the queue; None: the job never starts or ends."""

    start_ns: int | None
    end_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRun:
    """Result of a run. Energy counts all nodes, from now to the last end of a job."""

    policy: str
    times: Mapping[JobId, JobTimes]
    energy_uj: int
    last_end_ns: int
    """Equals ``now_ns`` of the queue if no job ends."""
    stopped_ns: int
    """Time at which the run found that no job can run any more."""
    rounds: int
    unseated: tuple[JobId, ...] = ()
    """Running jobs whose resources do not fit the known nodes: they are simulated as waiting."""


@dataclass(frozen=True, slots=True)
class RunningSeats(Policy):
    """Policy of the first phase: jobs that run now start at their times, and all others wait."""

    seats: Mapping[JobId, tuple[int, Assignment]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the policy."""
        return "seats"

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:  # noqa: ARG002
        """Return the assignments of all jobs that have started by now."""
        given: list[Assignment] = []
        waiting: list[Waiting] = []
        due_ns: list[int] = []
        for view in snapshot.jobs:
            start_ns, assignment = self.seats.get(view.job_id, (0, None))
            if view.current is not None:
                given.append(view.current)
            elif assignment is not None and start_ns <= now_ns:
                given.append(assignment)
            else:
                waiting.append(Waiting(job_id=view.job_id, reason="waits"))
                due_ns += [start_ns] if start_ns > now_ns else []
        return Plan(
            assignments=tuple(given), waiting=tuple(waiting), revisit_ns=min(due_ns, default=0)
        )

    def fallback(self) -> Policy | None:
        """Return None: the plan cannot fail."""
        return None


class _QueueRun:
    def __init__(self, queue: SiteQueue, policy: Policy) -> None:
        queue.check()
        self._queue, self._policy = queue, policy
        seats = {
            job.job_id: (job.seat.started_ns, job.seat.assignment)
            for job in queue.jobs
            if job.seat is not None
        }
        options = ClusterOptions(
            lease_ns=LEASE_ANNOUNCED_NS if queue.announced else LEASE_NS,
            settings=queue.settings,
            journal=False,
        )
        specs = [node.spec for node in queue.nodes]
        self._full_uw = sum(
            spec.base_power_uw + sum(zone.cap_uw_max for zone in spec.zones) for spec in specs
        )
        budget_uw = max(self._full_uw, queue.budget_uw)
        self.cluster = SimulatedCluster(specs, RunningSeats(seats), budget_uw, options)
        self._suspended = 0
        self._idle_since_ns = -1
        self._energy_before = 0
        self.unseated: tuple[JobId, ...] = ()
        later = [
            *(one.at_ns for one in queue.announced),
            *(one.end_ns for one in queue.reservations),
            *(job.conditions.begin_ns for job in queue.jobs),
        ]
        self._settled_ns = max((queue.now_ns, *later))
        self._schedule()

    def _schedule(self) -> None:
        queue, cluster = self._queue, self.cluster
        if queue.queues:
            cluster.post(configuration.QueuesConfigured(queues=queue.queues))
        for profile in queue.profiles:
            cluster.post(profile)
        for job in queue.jobs:
            cluster.clock.at(job.submitted_ns, partial(self._submit, job))
        cluster.clock.at(queue.now_ns, self._go_on)

    def _submit(self, job: QueuedJob) -> None:
        cluster = self.cluster
        cluster.truth.works[job.job_id] = job.work if job.seat is None else ENDLESS
        cluster.submitted += 1
        cluster.post(
            ev.JobSubmitted(
                job_id=job.job_id, spec=job.spec, held=job.held, conditions=job.conditions
            )
        )

    def _go_on(self) -> None:
        """Begin the second phase."""
        queue, cluster = self._queue, self.cluster
        self._energy_before = cluster.meter.drawn_uw_ns
        unseated = []
        for job in queue.jobs:
            if job.seat is None:
                pass
            elif cluster.truth.resume(job.job_id, job.work, job.seat.done):
                self._continue(job)
            else:
                unseated.append(job.job_id)
            if job.size_ordered:
                cluster.resize(job.job_id, job.size_ordered)
        self.unseated = tuple(unseated)
        for reservation in queue.reservations:
            cluster.post(ev.ReservationMade(reservation=reservation))
        for node in queue.nodes:
            if node.closed:
                cluster.order(node.spec.node_id, ev.NodeOrder.DRAIN)
        cluster.set_budget(queue.budget_uw, DEADLINE_NS)
        for one in queue.announced:
            cluster.announce_budget(one.budget_uw, one.at_ns)
        if queue.limits is not None:
            cluster.post(queue.limits)
        cluster.policy = self._policy
        cluster.post(configuration.PolicyChanged(name=self._policy.name))

    def _continue(self, job: QueuedJob) -> None:
        """Give the core the progress of a running job."""
        seat, cluster = job.seat, self.cluster
        assert seat is not None, "the job runs"
        if job.epochs_saved:
            cluster.post(ev.EpochsTold(job_id=job.job_id, attempt=1, saved=job.epochs_saved))
        if seat.suspended:
            self._suspended += 1
            cluster.post(ev.JobSuspendRequested(job_id=job.job_id))

    def finished(self) -> bool:
        """Whether no job can run any more."""
        cluster = self.cluster
        now_ns = cluster.now_ns
        if now_ns < self._queue.now_ns:
            return False
        if not cluster.core.state.open_jobs:
            return True
        if now_ns <= self._settled_ns or cluster.truth.sums.running > self._suspended:
            self._idle_since_ns = -1
            return False
        if self._idle_since_ns < 0:
            self._idle_since_ns = now_ns
        return now_ns - self._idle_since_ns >= STUCK_NS

    def result(self) -> QueueRun:
        runs, meter = self.cluster.truth.runs, self.cluster.meter
        times = {}
        for job in self._queue.jobs:
            run = runs.get(job.job_id)
            start_ns, end_ns = (run.totals.start_ns, run.totals.end_ns) if run else (-1, -1)
            if job.seat is not None and job.job_id not in self.unseated:
                start_ns = job.seat.started_ns
            times[job.job_id] = JobTimes(
                start_ns=start_ns if start_ns >= 0 else None,
                end_ns=end_ns if end_ns >= 0 else None,
            )
        ends = [one.end_ns for one in times.values() if one.end_ns is not None]
        return QueueRun(
            policy=self._policy.name,
            times=times,
            energy_uj=max(meter.until_last_end_uw_ns - self._energy_before, 0) // S,
            last_end_ns=max((self._queue.now_ns, *ends)),
            stopped_ns=self.cluster.now_ns,
            rounds=self.cluster.rounds,
            unseated=self.unseated,
        )


def run_queue(
    queue: SiteQueue, policy: Policy, on_ended: Callable[[int], None] | None = None
) -> QueueRun:
    """Run the jobs of a queue to their ends under a policy of the service.

    ``on_ended`` receives the number of ended jobs whenever it grows. Raises ValueError for a queue
    without nodes or with too small a budget, and the core's errors with the last events.
    """
    ready = ready_of(policy.name)
    if ready is not None:
        ready()
    under_way = _QueueRun(queue, policy)
    cluster, reported = under_way.cluster, 0

    def done() -> bool:
        nonlocal reported
        ended = cluster.submitted - cluster.core.state.open_jobs
        if on_ended is not None and ended > reported:
            reported = ended
            on_ended(ended)
        return under_way.finished()

    cluster.run(queue.now_ns + LONGEST_NS, done)
    return under_way.result()
