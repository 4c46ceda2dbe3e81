"""The coordinator applies the filters of a list of jobs, within what each account may see."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from unit.adapters.api_site import ApiSite
from unit.core.stage import job_spec

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.job_filter import JobFilter
from wattfold.coordinator.adapters.door.peers import BY_SOCKET, Peer
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.rank import Rank
from wattfold.coordinator.core.model.queue import Queue
from wattfold.v1 import coordinator_pb2 as pb

ADA = Peer(uid=1001, account="ada", address=BY_SOCKET)
EVE = Peer(uid=1002, account="eve", address=BY_SOCKET)
ROOT = Peer(uid=0, account="root", address=BY_SOCKET)
CLOCK = Clock()
AT_NS = 10**9
SPEC = replace(job_spec(), user="ada", uid=1001, app="lammps", queue="short", account="lab")


def job(state: JobState = JobState.PENDING, nodes: Sequence[str] = ()) -> Job:
    ranks = {NodeId(name): Rank(node_id=NodeId(name), held=CpuSet.parse("0")) for name in nodes}
    return Job(job_id=JobId("1"), spec=SPEC, state=state, submitted_ns=AT_NS, ranks=ranks)


@pytest.mark.parametrize(
    ("chosen", "ada", "eve"),
    [
        (JobFilter(), True, True),
        (JobFilter(user="ada"), True, True),
        (JobFilter(user="1001"), True, True),
        (JobFilter(user="eve"), False, False),
        (JobFilter(mine=True), True, False),
        (JobFilter(app="lammps"), True, False),
        (JobFilter(queue="short"), True, False),
        (JobFilter(app="lammps", queue="long"), False, False),
        (JobFilter(app="gromacs"), False, False),
        (JobFilter(account="lab"), True, False),
        (JobFilter(account="lab", queue="long"), False, False),
        (JobFilter(account="other"), False, False),
        (JobFilter(states=frozenset({pb.JOB_STATE_PENDING})), True, True),
        (JobFilter(states=frozenset({pb.JOB_STATE_RUNNING})), False, False),
        (JobFilter(node_ids=frozenset({NodeId("n1"), NodeId("n7")})), True, True),
        (JobFilter(node_ids=frozenset({NodeId("n7")})), False, False),
        (JobFilter(since_s=CLOCK.wall_s(AT_NS) - 1), True, True),
        (JobFilter(since_s=CLOCK.wall_s(AT_NS) + 1), False, False),
    ],
)
def test_a_filter_reveals_no_private_field(chosen: JobFilter, ada: bool, eve: bool) -> None:
    found = job(nodes=["n1"])
    assert chosen.keeps(found, ADA, CLOCK) == ada
    assert chosen.keeps(found, EVE, CLOCK) == eve
    if chosen.mine:
        assert not chosen.keeps(found, ROOT, CLOCK)
    else:
        assert chosen.keeps(found, ROOT, CLOCK) == ada


def test_jobs_with_conditions_count_as_pending() -> None:
    pending = JobFilter(states=frozenset({pb.JOB_STATE_PENDING}))
    assert pending.keeps(job(JobState.WAITING), ADA, CLOCK)


def test_a_filtered_list_has_counts_of_all_matching_jobs(tmp_path: Path) -> None:
    async def listed() -> list[pb.ListJobsResponse]:
        async with ApiSite(tmp_path) as site, asyncio.timeout(240):
            site.service.post(ev.QueuesConfigured(queues=(Queue(name="short"),)))
            for number in range(6):
                spec = replace(job_spec(), queue="short" if number % 2 else "")
                site.service.post(ev.JobSubmitted(job_id=JobId(f"j{number}"), spec=spec))
            await site.service.request(ev.JobHeld(job_id=JobId("j5")))
            return [
                await site.stub.ListJobs(pb.ListJobsRequest(queue="short", limit=1)),
                await site.stub.ListJobs(pb.ListJobsRequest(states=[pb.JOB_STATE_HELD])),
                await site.stub.ListJobs(pb.ListJobsRequest(job_ids=["j0", "j1"], queue="short")),
            ]

    first, held, named = asyncio.run(listed())
    assert ([one.job_id for one in first.jobs], first.total) == (["j5"], 3)
    counts = {count.state: count.jobs for count in first.counts}
    assert counts == {pb.JOB_STATE_PENDING: 2, pb.JOB_STATE_HELD: 1}
    assert [one.job_id for one in held.jobs] == ["j5"]
    assert [one.job_id for one in named.jobs] == ["j1"]


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (pb.ListJobsRequest(node_ids=["n9"]), "no node 'n9'; `wattfold nodes` lists all nodes"),
        (pb.ListJobsRequest(queue="x"), "no queue 'x'; `wattfold queues` lists all queues"),
    ],
)
def test_unknown_names_are_refused(tmp_path: Path, request_: pb.ListJobsRequest, told: str) -> None:
    async def refused() -> tuple[grpc.StatusCode, str]:
        async with ApiSite(tmp_path) as site, asyncio.timeout(240):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await site.stub.ListJobs(request_)
            return error.value.code(), error.value.details() or ""

    assert asyncio.run(refused()) == (grpc.StatusCode.NOT_FOUND, told)
