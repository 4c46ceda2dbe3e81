"""The list of jobs of the coordinator in memory, with the criteria of the real one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from wattfold.coordinator.cli.jobs.lists.job_tables import is_of
from wattfold.coordinator.cli.shared.texts.formatting import ENDED_STATES
from wattfold.v1 import coordinator_pb2 as pb

_PLACED = (
    pb.JOB_STATE_STARTING,
    pb.JOB_STATE_RUNNING,
    pb.JOB_STATE_SUSPENDED,
    pb.JOB_STATE_ENDING,
)


def listed(
    request: pb.ListJobsRequest, jobs: Iterable[pb.Job], planner: str
) -> pb.ListJobsResponse:
    """Return the answer to a request."""
    chosen = [job for job in jobs if _named(request, job) and _keeps(request, job)]
    counts = Counter(job.state for job in chosen)
    last = sorted(chosen, key=lambda job: job.state in _PLACED)[-(request.limit or 1000) :]
    kept = {job.job_id for job in last}
    return pb.ListJobsResponse(
        jobs=[job for job in chosen if job.job_id in kept],
        planner=planner,
        total=len(chosen),
        counts=[pb.JobCount(state=state, jobs=counts[state]) for state in sorted(counts)],
    )


def _named(request: pb.ListJobsRequest, job: pb.Job) -> bool:
    if request.job_ids:
        return job.job_id in request.job_ids
    return request.include_ended or job.state not in ENDED_STATES


def _keeps(request: pb.ListJobsRequest, job: pb.Job) -> bool:
    return (
        (not request.states or job.state in request.states)
        and (not request.user or is_of(job, request.user))
        and (not request.mine or job.access == pb.JOB_ACCESS_OWN)
        and request.app in ("", job.spec.app)
        and request.queue in ("", job.spec.queue)
        and request.account in ("", job.spec.account)
        and (not request.node_ids or any(s.node_id in request.node_ids for s in job.shares))
        and job.submitted_at_s >= request.since_s
    )
