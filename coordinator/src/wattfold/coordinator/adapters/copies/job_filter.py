"""Criteria of a list of jobs, applied where the jobs are, so that a list transfers only its jobs.

A criterion on a field that the caller may not see matches no job. So no filter reveals the
application, the queue or the account of a job of another user.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.job_messages import job_state
from wattfold.coordinator.adapters.door.ownership import access_of, owns
from wattfold.coordinator.adapters.door.peers import Peer
from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.model.jobs.spec import UNKNOWN_UID, JobSpec
from wattfold.v1 import coordinator_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Criteria that a job must all meet. Empty values match all jobs."""

    states: frozenset[pb.JobState] = frozenset()
    user: str = ""
    """User, by name or number."""
    mine: bool = False
    app: str = ""
    queue: str = ""
    account: str = ""
    node_ids: frozenset[NodeId] = frozenset()
    """Nodes; the job holds cores on one of them."""
    since_s: float = 0.0
    """Earliest submission, in Unix seconds; 0 = no bound."""

    def keeps(self, job: Job, viewer: Peer, clock: Clock) -> bool:
        """Whether a job meets all criteria, as far as the account may see it."""
        spec = job.spec
        if self.states and job_state(job.state) not in self.states:
            return False
        if self.node_ids and self.node_ids.isdisjoint(job.ranks):
            return False
        if self.since_s and clock.wall_s(job.submitted_ns) < self.since_s:
            return False
        if self.user and not _is_of(spec, self.user):
            return False
        if self.mine and not owns(viewer, spec):
            return False
        return self._keeps_private(spec, viewer)

    def _keeps_private(self, spec: JobSpec, viewer: Peer) -> bool:
        if not (self.app or self.queue or self.account):
            return True
        if access_of(viewer, spec) == pb.JOB_ACCESS_OTHER:
            return False
        wanted = (self.app, spec.app), (self.queue, spec.queue), (self.account, spec.account)
        return all(one in ("", own) for one, own in wanted)


ALL_JOBS = JobFilter()


def job_filter(request: pb.ListJobsRequest) -> JobFilter:
    """Return the criteria of a request."""
    return JobFilter(
        states=frozenset(request.states),
        user=request.user,
        mine=request.mine,
        app=request.app,
        queue=request.queue,
        account=request.account,
        node_ids=frozenset(map(NodeId, request.node_ids)),
        since_s=request.since_s,
    )


def _is_of(spec: JobSpec, user: str) -> bool:
    return user == spec.user or (spec.uid != UNKNOWN_UID and user == str(spec.uid))
