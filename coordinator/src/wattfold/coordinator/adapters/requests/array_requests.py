"""Submissions of job arrays: the checks of their indices, and the event."""

from __future__ import annotations

from dataclasses import replace

from wattfold.contract.ids import JobId
from wattfold.contract.index_set import parse_array
from wattfold.contract.job_variables import JOB_ID_PATTERN
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.adapters.requests.output_patterns import has_index_pattern
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.conditions import StartConditions
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.v1 import coordinator_pb2 as pb


def check_array(request: pb.SubmitRequest) -> None:
    """Raise InvalidRequestError if the indices or the output paths do not fit an array."""
    if request.array:
        try:
            parse_array(request.array)
        except ValueError as error:
            raise InvalidRequestError(f"array {request.array[:40]!r}: {error}") from None
        return
    for path in (request.spec.stdout_path, request.spec.stderr_path):
        if has_index_pattern(path):
            raise InvalidRequestError(
                f"output {path[:80]!r} has the pattern %a, the index of a task; give --array, or "
                "use %j"
            )


def submission(
    request: pb.SubmitRequest,
    job_id: JobId,
    spec: JobSpec,
    key: str,
    fingerprint: str,
    conditions: StartConditions,
) -> ev.JobSubmitted | ev.ArraySubmitted:
    """Return the event of a checked submission."""
    if not request.array:
        return ev.JobSubmitted(
            job_id=job_id,
            spec=spec,
            held=request.held,
            key=key,
            fingerprint=fingerprint,
            conditions=conditions,
        )
    indices, limit = parse_array(request.array)
    return ev.ArraySubmitted(
        job_id=job_id,
        spec=spec,
        indices=str(indices),
        limit=limit,
        held=request.held,
        key=key,
        fingerprint=fingerprint,
        conditions=conditions,
    )


def with_array_variables(launch: LaunchData, array: str) -> LaunchData:
    """Return the launch data of all tasks, with the numbers that are the same for all of them.

    A job that requests the names of Slurm gets these, too.
    """
    if not array:
        return launch
    indices, _ = parse_array(array)
    values = {"COUNT": len(indices), "MIN": indices.lowest, "MAX": indices.highest}
    env = dict(launch.env)
    for name, value in values.items():
        env[f"WATTFOLD_ARRAY_{name}"] = str(value)
        if env.get("SLURM_JOB_ID") == JOB_ID_PATTERN:
            env[f"SLURM_ARRAY_TASK_{name}"] = str(value)
    return replace(launch, env=tuple(sorted(env.items())))
