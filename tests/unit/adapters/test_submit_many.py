"""Many jobs in one call, and arrays over the API: submission, orders and lists."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from unit.adapters.api_site import ApiSite

from wattfold.coordinator.adapters.journal.journal import JournalError
from wattfold.v1 import coordinator_pb2 as pb

SPEC = pb.JobSpec(argv=["true"], kind=pb.JOB_KIND_RIGID, size_min=1)


_NOT_REQUEUED = (
    "job 1_7 cannot be requeued: the job is held; only starting, running and suspended jobs can be "
    "requeued, and jobs that failed after they saved a snapshot"
)


def one(**fields: Any) -> pb.SubmitRequest:
    return pb.SubmitRequest(spec=SPEC, **fields)


def wrong() -> pb.SubmitRequest:
    return pb.SubmitRequest(spec=pb.JobSpec())


def results(answer: pb.SubmitManyResponse) -> list[str]:
    return [result.job_id or result.error for result in answer.results]


def test_each_job_is_accepted_or_refused_on_its_own(tmp_path: Path) -> None:
    async def submitted() -> tuple[list[str], list[str], list[str]]:
        async with ApiSite(tmp_path) as site, asyncio.timeout(240):
            many = pb.SubmitManyRequest(
                jobs=[
                    one(idempotency_key="k"),
                    wrong(),
                    one(array="0-9"),
                    one(idempotency_key="k"),
                ],
                env={"A": "b"},
            )
            first = results(await site.stub.SubmitMany(many))
            again = results(await site.stub.SubmitMany(many))
            env = await site.stub.GetEnvironment(pb.GetEnvironmentRequest(job_id="1"))
            await site.stub.Submit(one())
            return first, again, [env.env["A"], *site.core.state.jobs]

    first, again, rest = asyncio.run(submitted())
    twice = "the same idempotency key is given twice in this call"
    assert first == ["1", "no command given", "2", twice]
    assert again == ["1", "no command given", "3", "1"]
    assert rest == ["b", "1", "2_0", "3_0", "4"]


def test_numbers_are_used_once_although_events_could_not_be_stored(tmp_path: Path) -> None:
    async def submitted() -> tuple[list[str], list[str]]:
        async with ApiSite(tmp_path) as site, asyncio.timeout(240):
            commit, calls = site.journal.commit, []

            def failing() -> None:
                calls.append(1)
                if len(calls) == 1:
                    raise JournalError("disk full")
                commit()

            site.journal.commit = failing  # type: ignore[method-assign]
            many = pb.SubmitManyRequest(jobs=[one() for _ in range(100)])
            first = results(await site.stub.SubmitMany(many))
            last = results(await site.stub.SubmitMany(pb.SubmitManyRequest(jobs=[one()])))
            assert len(site.core.state.jobs) == len([text for text in first if text[0] != "n"]) + 1
            return first, last

    first, last = asyncio.run(submitted())
    stored = [text for text in first if text.isdecimal()]
    assert first[0] == "not accepted because it could not be stored: disk full"
    assert stored
    assert last == ["101"]


def test_too_many_jobs_are_refused(tmp_path: Path) -> None:
    async def refused() -> str:
        async with ApiSite(tmp_path) as site, asyncio.timeout(240):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await site.stub.SubmitMany(pb.SubmitManyRequest(jobs=[one()] * 1001))
            return error.value.details() or ""

    assert asyncio.run(refused()) == "1001 jobs exceed the limit of 1000 jobs in a call"


def test_orders_for_an_array_and_its_tasks(tmp_path: Path) -> None:
    async def told(call: Any, request: Any) -> str:
        try:
            await call(request)
        except grpc.aio.AioRpcError as error:
            return error.details() or ""
        return ""

    async def orders() -> list[str]:
        async with ApiSite(tmp_path) as site, asyncio.timeout(240):
            stub, found = site.stub, []
            await stub.Submit(one(array="0-9"))
            for call, request in (
                (stub.Release, pb.ReleaseRequest(job_id="1")),
                (stub.Hold, pb.HoldRequest(job_id="1")),
                (stub.SuspendJob, pb.SuspendJobRequest(job_id="1")),
                (stub.SignalJob, pb.SignalJobRequest(job_id="1", signal=2)),
                (stub.Requeue, pb.RequeueRequest(job_id="1_7")),
                (stub.ModifyJob, pb.ModifyJobRequest(job_id="1", name="new")),
                (stub.Release, pb.ReleaseRequest(job_id="1_5")),
                (stub.Cancel, pb.CancelRequest(job_id="1_9")),
                (stub.Cancel, pb.CancelRequest(job_id="1_10")),
                (stub.Explain, pb.ExplainRequest(job_id="1_8")),
            ):
                found.append(await told(call, request))
            shown = await stub.ListJobs(pb.ListJobsRequest(job_ids=["1", "1_5", "1_8"]))
            states = [pb.JobState.Name(job.state) for job in shown.jobs]
            names = {job.spec.name for job in shown.jobs}
            await stub.Cancel(pb.CancelRequest(job_id="1"))
            ended = await stub.ListJobs(pb.ListJobsRequest(include_ended=True))
            return [*found, *states, *names, *(job.message for job in ended.jobs)]

    assert asyncio.run(orders()) == [
        "array 1: job 1_0 is pending, not held",
        "",
        "array 1: job 1_0 is held; only a running job can be suspended",
        "job 1 is an array; signal its tasks, such as 1_0",
        _NOT_REQUEUED,
        "",
        "",
        "",
        "no job '1_10'",
        "",
        "JOB_STATE_PENDING",
        "JOB_STATE_HELD",
        "JOB_STATE_PENDING",
        "new",
        "10 cancelled",
    ]
