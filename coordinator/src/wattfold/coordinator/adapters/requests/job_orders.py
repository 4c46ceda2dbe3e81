"""Orders of users about jobs, tasks and whole arrays: cancel, hold, release, requeue and others.

An order for an array applies to all of its tasks. It is refused only if it fits none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import grpc

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.copies import job_messages
from wattfold.coordinator.adapters.copies.node_views import ending_reason
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.adapters.requests.submissions import requeue_event
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.job_array import JobArray
from wattfold.coordinator.core.rules.job_arrays import arrays
from wattfold.coordinator.core.rules.job_arrays.array_counts import awaited, shown_state
from wattfold.coordinator.core.rules.jobs import managed_jobs
from wattfold.coordinator.core.rules.jobs.adoption import UNSTARTED
from wattfold.coordinator.core.rules.jobs.attempt_events import requeue_refusal, resize_refusal
from wattfold.coordinator.core.rules.power import emergency
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import coordinator_pb2_grpc

Refusal = Callable[[Job], str]
"""Returns why an order does not fit a job, empty if it does."""


class JobOrders(coordinator_pb2_grpc.CoordinatorServicer):
    """The part of the coordinator's service that changes the state of jobs."""

    _service: Service

    @property
    def _state(self) -> State:
        return self._service.core.state

    async def _request(self, event: ev.Event, context: Any) -> None:
        raise NotImplementedError

    async def Cancel(self, request: pb.CancelRequest, context: Any) -> pb.CancelResponse:
        """Cancel a job: end it, or remove it from the queue."""
        job = await self._job(request.job_id, context)
        if why := managed_jobs.refusal(job, "cancel"):
            await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, why)
        job_id = job.job_id
        array = self._state.arrays.get(JobId(request.job_id))
        named = array.array_id if array else job_id
        await self._request(ev.JobCancelRequested(job_id=named, force=request.force), context)
        if array is not None:
            state = shown_state(self._state, array)
            return pb.CancelResponse(state=job_messages.job_state(state))
        job = self._state.jobs[job_id]
        message = ending_reason(self._state, job)
        return pb.CancelResponse(state=job_messages.job_state(job.state), message=message)

    async def Hold(self, request: pb.HoldRequest, context: Any) -> pb.HoldResponse:
        """Keep a waiting job from starting."""
        job_id = await self._fitting(request.job_id, context, _hold_refusal)
        await self._request(ev.JobHeld(job_id=job_id), context)
        return pb.HoldResponse()

    async def Release(self, request: pb.ReleaseRequest, context: Any) -> pb.ReleaseResponse:
        """Let a held job start."""
        job_id = await self._fitting(request.job_id, context, _release_refusal)
        await self._request(ev.JobReleased(job_id=job_id), context)
        return pb.ReleaseResponse()

    async def Requeue(self, request: pb.RequeueRequest, context: Any) -> pb.RequeueResponse:
        """End the attempt of a job, with time for a snapshot, and queue the job again.

        A failed job continues from its snapshot.
        """

        def refusal(job: Job) -> str:
            if why := managed_jobs.refusal(job, "requeue"):
                return why
            why = requeue_refusal(job)
            if not why and job.final and self._service.launch_data(job.job_id) is None:
                why = "its environment was deleted; submit it again"
            return f"job {job.job_id} cannot be requeued: {why}" if why else ""

        job_id = await self._fitting(request.job_id, context, refusal)
        try:
            event = requeue_event(request)
        except InvalidRequestError as error:
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await self._request(event, context)
        job = await self._job(job_id, context)
        return pb.RequeueResponse(state=job_messages.job_state(job.state))

    async def SuspendJob(
        self, request: pb.SuspendJobRequest, context: Any
    ) -> pb.SuspendJobResponse:
        """Suspend a running job."""
        job_id = await self._fitting(request.job_id, context, _suspend_refusal)
        await self._request(ev.JobSuspendRequested(job_id=job_id), context)
        return pb.SuspendJobResponse()

    async def ResumeJob(self, request: pb.ResumeJobRequest, context: Any) -> pb.ResumeJobResponse:
        """Resume a suspended job."""

        def refusal(job: Job) -> str:
            why = managed_jobs.refusal(job, "resume")
            return why or emergency.resume_refusal(self._state, job)

        job_id = await self._fitting(request.job_id, context, refusal)
        await self._request(ev.JobResumeRequested(job_id=job_id), context)
        return pb.ResumeJobResponse()

    async def ResizeJob(self, request: pb.ResizeJobRequest, context: Any) -> pb.ResizeJobResponse:
        """Set the size of a job, or let the policy choose it again."""

        def refusal(job: Job) -> str:
            why = resize_refusal(job, request.size)
            return f"job {job.job_id} cannot be resized: {why}" if why else ""

        job_id = await self._fitting(request.job_id, context, refusal)
        await self._request(ev.JobResizeRequested(job_id=job_id, size=request.size), context)
        job = await self._job(job_id, context)
        size = job.target.size if job.target and job.ranks else 0
        return pb.ResizeJobResponse(state=job_messages.job_state(job.state), size=size)

    async def _job(self, job_id: str, context: Any) -> Job:
        """Return a job, a task that is not a job yet as that job, or a task of an array."""
        state = self._state
        if (array := state.arrays.get(JobId(job_id))) is not None:
            return next(iter(self._tasks(array)))
        job = state.jobs.get(JobId(job_id))
        if job is None and (found := awaited(state, job_id)) is not None:
            job = arrays.task(*found, self._service.clock.now_ns())
        if job is None:
            await _abort(context, grpc.StatusCode.NOT_FOUND, f"no job {job_id!r}")
        return job

    def _tasks(self, array: JobArray) -> list[Job]:
        """Return the tasks of an array that have not ended, or else an ended task.

        The first task that is not a job yet stands for the tasks that are not.
        """
        found = list(self._state.index.tasks(array.array_id).values())
        if array.left:
            index = array.index_set[array.taken]
            found.append(arrays.task(array, index, self._service.clock.now_ns()))
        ended = self._state.index.ended_tasks(array.array_id)
        return found or [self._state.jobs[job_id] for job_id in ended][-1:]

    async def _fitting(self, job_id: str, context: Any, refusal: Refusal) -> JobId:
        """Return the ID of a job, task or array that an order fits. Ends the call otherwise."""
        array = self._state.arrays.get(JobId(job_id))
        jobs = self._tasks(array) if array else [await self._job(job_id, context)]
        refused = [refusal(job) for job in jobs]
        if all(refused):
            text = f"array {job_id}: {refused[0]}" if array else refused[0]
            await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, text)
        return JobId(job_id)


def _hold_refusal(job: Job) -> str:
    if why := managed_jobs.refusal(job, "hold"):
        return why
    if job.state in UNSTARTED:
        return ""
    return f"job {job.job_id} is {job.state.value}; only a waiting job can be held"


def _release_refusal(job: Job) -> str:
    if why := managed_jobs.refusal(job, "release"):
        return why
    if job.state is JobState.HELD:
        return ""
    waits = f": it {job.reason}" if job.state is JobState.WAITING else ""
    return f"job {job.job_id} is {job.state.value}, not held{waits}"


def _suspend_refusal(job: Job) -> str:
    if why := managed_jobs.refusal(job, "suspend"):
        return why
    if job.state is JobState.RUNNING:
        return ""
    return f"job {job.job_id} is {job.state.value}; only a running job can be suspended"


async def _abort(context: Any, code: grpc.StatusCode, text: str) -> NoReturn:
    await context.abort(code, text)
    raise AssertionError("abort returned")
