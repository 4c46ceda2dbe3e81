"""Checks of the conditions of a start: the jobs that it waits for, and its begin time."""

from __future__ import annotations

import math

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.clock import AHEAD_S, Clock
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.core.model.jobs.conditions import Dependency, StartConditions
from wattfold.coordinator.core.rules.job_arrays.array_counts import spec_named
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb

AFTER_MAX = 1000
"""Maximum number of jobs that a job waits for. Each end of one of them examines all of them."""


class UnknownJobError(InvalidRequestError):
    """A submission names a job that does not exist, or that the coordinator has deleted."""


def conditions_of(request: pb.SubmitRequest, state: State, clock: Clock) -> StartConditions:
    """Return the conditions of a submission. Raises InvalidRequestError, also as UnknownJobError.

    Users may wait for jobs of other accounts, because the states of all jobs are public.
    """
    return StartConditions(after=_after(request, state), begin_ns=_begin_ns(request, clock))


def _after(request: pb.SubmitRequest, state: State) -> tuple[Dependency, ...]:
    needs: dict[JobId, bool] = {}
    for one in request.after:
        job_id = JobId(one.job_id)
        # Success includes the end.
        needs[job_id] = needs.get(job_id, False) or one.success
    if len(needs) > AFTER_MAX:
        raise InvalidRequestError(
            f"the job would wait for {len(needs)} jobs, and the limit is {AFTER_MAX}; let a job "
            "between them wait for a part"
        )
    for job_id in needs:
        if spec_named(state, job_id) is None:
            raise UnknownJobError(_unknown(job_id, state))
    return tuple(Dependency(job_id=job_id, success=ok) for job_id, ok in needs.items())


def _unknown(job_id: JobId, state: State) -> str:
    number = int(job_id) if job_id.isascii() and job_id.isdecimal() and len(job_id) < 16 else 0
    if not 1 <= number <= state.submissions or job_id != str(number):
        return f"no job {job_id[:40]!r} to wait for; `wattfold queue --all` lists all jobs"
    return (
        f"job {job_id} is no longer known: the coordinator keeps the last "
        f"{state.settings.kept_ended_jobs} ended jobs; submit without --after for it if its end "
        "is enough"
    )


def _begin_ns(request: pb.SubmitRequest, clock: Clock) -> int:
    if not request.begin_at_s:
        return -1
    late_s = clock.wall_s(clock.now_ns()) - request.begin_at_s
    if not -AHEAD_S <= late_s < math.inf:
        raise InvalidRequestError("the begin time must be within the next ten years")
    if late_s >= 0:
        raise InvalidRequestError(
            f"the begin time is {late_s:.0f} s ago; give a future time, or submit without --begin"
        )
    return clock.time_ns(request.begin_at_s)
