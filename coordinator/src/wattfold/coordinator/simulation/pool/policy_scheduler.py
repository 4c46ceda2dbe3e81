"""Any policy of the service on a pool: asked with snapshots, as the service asks it.

For policies that bring no scheduler of their own for pools. Each round makes a snapshot of all jobs
and has the policy plan it, so it is slower than those that keep their queue between two events:
for hundreds of nodes and jobs, not for logs of years.

As with messages, and other than `EasyScheduler`, idle nodes are charged as at their floor. Jobs
take whole nodes and keep them while they run; their caps may change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.job import Assignment, JobSpec
from wattfold.coordinator.core.plan import JobView, NodeView, Policy, Snapshot
from wattfold.coordinator.policies.scheduler import Decision, Jobs, Site
from wattfold.coordinator.simulation.pool.jobs import JobTable
from wattfold.coordinator.simulation.pool.machine import Machine
from wattfold.coordinator.simulation.pool.named_scheduler import node_view, spec_of
from wattfold.coordinator.simulation.pool.table_jobs import TableJobs
from wattfold.coordinator.simulation.pool.told_starts import note_starts

DEADLINE_S = 20.0


@dataclass(slots=True, eq=False)
class _Job:
    """A job in the queue, or running where it has an assignment."""

    spec: JobSpec
    current: Assignment | None = None
    started_ns: int = -1


class PolicyScheduler:
    """A policy at work on a pool of like nodes. Decides once for all events of an instant."""

    each_event = False
    solver_ns: Sequence[int] = ()

    def __init__(self, table: JobTable, machine: Machine, policy: Policy, name: str) -> None:
        self._table, self._machine, self._policy = table, machine, policy
        self.name = name
        self.revisit_ns = 0
        self._known: TableJobs | None = None
        self._jobs: dict[int, _Job] = {}
        self._nodes: tuple[NodeView, ...] = ()
        self._budget_uw = 0
        self.first_told: dict[int, int] = {}

    def attach(self, jobs: Jobs) -> None:
        """Called once before the first event."""
        self._known = cast("TableJobs", jobs)

    def site(self, site: Site) -> None:
        """Nodes and power from now on."""
        self._nodes = tuple(node_view(f"n{number}", self._machine) for number in range(site.count))
        self._budget_uw = site.spendable_uw + site.count * self._machine.idle_uw

    def submit(self, job: int, now_ns: int) -> None:  # noqa: ARG002 - the table has its time
        """A job enters the queue."""
        self._jobs[job] = _Job(spec_of(self._table, job))

    def end(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """A job has ended."""
        del self._jobs[job]

    def change(self, job: int, now_ns: int) -> None:
        """The estimate of a running job is another; it is asked for with every snapshot."""

    def decide(self, now_ns: int) -> Sequence[Decision]:
        """Starts, and running jobs whose cap changes."""
        if not self._jobs:
            self.revisit_ns = 0
            return ()
        plan = self._policy.propose(self._snapshot(now_ns), now_ns, DEADLINE_S)
        self.revisit_ns = plan.revisit_ns
        note_starts(self.first_told, plan)
        decisions: list[Decision] = []
        for assignment in plan.assignments:
            number = int(assignment.job_id)
            job = self._jobs[number]
            before, job.current = job.current, assignment
            if before is None:
                job.started_ns = now_ns
            if before is None or before.cap_uw != assignment.cap_uw:
                decisions.append((number, assignment.size, assignment.cap_uw))
        return decisions

    def _snapshot(self, now_ns: int) -> Snapshot:
        return Snapshot(
            now_ns=now_ns,
            budget_uw=self._budget_uw,
            reserved_uw=0,
            nodes=self._nodes,
            jobs=tuple(self._view(number, job, now_ns) for number, job in self._jobs.items()),
        )

    def _view(self, number: int, job: _Job, now_ns: int) -> JobView:
        assert self._known is not None, "attach comes before the first event"
        profiles = self._table.profiles
        return JobView(
            job_id=JobId(str(number)),
            spec=job.spec,
            submitted_ns=int(self._table.submit_ns[number]),
            current=job.current,
            done=self._known.done(number, now_ns) if job.current is not None else 0.0,
            started_ns=job.started_ns,
            resized_ns=-1,
            profile=profiles[number] if profiles else None,
            planned_ns=self._known.foretold_ns(number),
            waits=self._table.waits_of(number),
        )
