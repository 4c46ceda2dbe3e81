"""Conditions of a start over the API: refusals, views, holds and repeated submissions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from unit.adapters.api_site import ApiSite
from unit.core.stage import S, job_spec

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.door.ownership import public
from wattfold.coordinator.adapters.journal.launch_data import may_start
from wattfold.coordinator.adapters.metrics.exposition import REASONS, waiting_reason
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.adapters.requests.start_conditions import (
    AFTER_MAX,
    UnknownJobError,
    conditions_of,
)
from wattfold.coordinator.adapters.requests.submissions import fingerprint
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.v1 import coordinator_pb2 as pb

OK, ANY = True, False


def request(*after: tuple[str, bool], begin_at_s: float = 0, **fields: Any) -> pb.SubmitRequest:
    made = pb.SubmitRequest(spec=pb.JobSpec(argv=["run"]), begin_at_s=begin_at_s, **fields)
    for job_id, success in after:
        made.after.add(job_id=job_id, success=success)
    return made


def core_with_jobs(count: int) -> CoordinatorCore:
    core = CoordinatorCore(10**9)
    for number in range(1, count + 1):
        core.handle(ev.JobSubmitted(job_id=JobId(str(number)), spec=job_spec()), 0)
    return core


def test_unknown_and_deleted_jobs_are_refused() -> None:
    core, clock = core_with_jobs(3), Clock()
    del core.state.jobs[JobId("2")]
    found = conditions_of(request(("1", OK), ("3", ANY), ("3", OK)), core.state, clock)
    assert [(one.job_id, one.success) for one in found.after] == [("1", True), ("3", True)]
    for job_id in ("4", "0", "x", "01", "9" * 99, "²"):
        with pytest.raises(UnknownJobError, match="`wattfold queue --all` lists"):
            conditions_of(request((job_id, ANY)), core.state, clock)
    with pytest.raises(UnknownJobError, match="keeps the last 10000 ended jobs; submit without"):
        conditions_of(request(("2", ANY)), core.state, clock)
    many = [(str(number), ANY) for number in range(AFTER_MAX + 1)]
    with pytest.raises(InvalidRequestError, match="wait for 1001 jobs, and the limit is 1000"):
        conditions_of(request(*many), core.state, clock)


def test_begin_times_are_within_reason() -> None:
    core, clock = core_with_jobs(0), Clock()
    now_s = clock.wall_s(clock.now_ns())
    found = conditions_of(request(begin_at_s=now_s + 60), core.state, clock)
    assert abs(found.begin_ns - clock.now_ns() - 60 * S) < S
    with pytest.raises(InvalidRequestError, match="the begin time is 60 s ago; give a future"):
        conditions_of(request(begin_at_s=now_s - 60), core.state, clock)
    for far_s in (now_s + 11 * 366 * 86_400, float("nan"), float("inf"), float("-inf")):
        with pytest.raises(InvalidRequestError, match="the begin time must be within"):
            conditions_of(request(begin_at_s=far_s), core.state, clock)


def test_another_condition_is_another_request_under_the_same_key() -> None:
    plain = request()
    stored = "b5ce22b31a5439d82f5c784f3f65d981"
    """Digest by a version without conditions."""
    assert fingerprint(plain) == fingerprint(request(idempotency_key="k")) == stored
    others = [request(("1", OK)), request(("1", ANY)), request(("2", OK)), request(begin_at_s=9)]
    assert len({fingerprint(one) for one in (plain, *others)}) == 5


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details() or ""


async def scenario(folder: Path) -> None:
    async with ApiSite(folder) as site:
        first = (await site.stub.Submit(request(held=True))).job_id
        after = request((first, OK), idempotency_key="k")
        second = (await site.stub.Submit(after)).job_id
        assert (await site.stub.Submit(after)).job_id == second
        code, _ = await refused(site.stub.Submit(request((first, ANY), idempotency_key="k")))
        assert code is grpc.StatusCode.ALREADY_EXISTS
        assert (await refused(site.stub.Submit(request(("9", OK)))))[0] is (
            grpc.StatusCode.NOT_FOUND
        )
        assert (await refused(site.stub.Submit(request(begin_at_s=5))))[0] is (
            grpc.StatusCode.INVALID_ARGUMENT
        )
        begin_s = site.service.clock.wall_s(site.service.clock.now_ns()) + 3600
        third = (await site.stub.Submit(request((second, ANY), begin_at_s=begin_s))).job_id
        fourth = (await site.stub.Submit(request(begin_at_s=begin_s))).job_id

        async def shown(job_id: str) -> pb.Job:
            return (await site.stub.ListJobs(pb.ListJobsRequest(job_ids=[job_id]))).jobs[0]

        job = await shown(second)
        assert (job.state, job.reason) == (
            pb.JOB_STATE_PENDING,
            f"waits for success of job {first}",
        )
        assert [(one.job_id, one.success, one.state) for one in job.after] == [
            (first, True, pb.DEPENDENCY_STATE_OPEN)
        ]
        assert not public(job).after, "users see the reason of jobs of other accounts only"
        begins = await shown(fourth)
        assert begins.reason.startswith("waits for its begin time, ")
        assert abs(begins.begin_at_s - begin_s) < 0.01
        assert begins.expected_start_at_s == begins.begin_at_s
        reasons = [waiting_reason(site.core.state.jobs[JobId(j)]) for j in (first, third, fourth)]
        assert reasons == ["held", "dependency", "begin_time"]
        assert {*reasons} < {*REASONS}
        assert may_start(site.core.state.jobs[JobId(fourth)]), "its environment is still needed"
        # A waiting job is held and released, and is not held by its conditions.
        code, text = await refused(site.stub.Release(pb.ReleaseRequest(job_id=second)))
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert text == f"job {second} is waiting, not held: it waits for success of job {first}"
        await site.stub.Hold(pb.HoldRequest(job_id=second))
        assert (await shown(second)).state == pb.JOB_STATE_HELD
        await site.stub.Release(pb.ReleaseRequest(job_id=second))
        explained = await site.stub.Explain(pb.ExplainRequest(job_id=second))
        assert explained.summary == f"Waits for success of job {first}."
        assert explained.lines[0] == "Until then, plans do not contain it."
        # Cancelling the first job leaves the second in vain, and says so everywhere.
        await site.stub.Cancel(pb.CancelRequest(job_id=first))
        job = await shown(second)
        assert (
            job.reason == f"waits in vain: it needs success of job {first}, which ended otherwise"
        )
        assert job.after[0].state == pb.DEPENDENCY_STATE_NEVER
        explained = await site.stub.Explain(pb.ExplainRequest(job_id=second))
        assert f"`wattfold cancel {second}`" in " ".join(explained.lines)
        assert explained.job.after[0].state == pb.DEPENDENCY_STATE_NEVER
        await site.stub.Cancel(pb.CancelRequest(job_id=second))
        job = await shown(third)
        assert job.reason.startswith("waits for its begin time")
        assert job.after[0].state == pb.DEPENDENCY_STATE_MET


def test_waiting_jobs_over_the_api(tmp_path: Path) -> None:
    asyncio.run(scenario(tmp_path))
