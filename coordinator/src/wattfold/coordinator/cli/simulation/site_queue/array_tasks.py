"""Tasks of arrays that are not jobs yet, as the jobs that a simulation of the queue needs."""

from __future__ import annotations

from collections.abc import Iterator

from wattfold.contract.index_set import parse_indices
from wattfold.v1 import coordinator_pb2 as pb


def with_tasks(job: pb.Job) -> Iterator[pb.Job]:
    """Yield the tasks of the array that a job stands for, or else the job itself."""
    if not job.HasField("array"):
        yield job
        return
    for indices in parse_indices(job.array.waiting).ranges:
        for index in indices:
            task = pb.Job()
            task.CopyFrom(job)
            task.ClearField("array")
            task.job_id = f"{job.job_id}_{index}"
            yield task
