"""Listings: long queues, starting jobs, held jobs, unreachable nodes, policies."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from unit.adapters.api_site import ApiSite
from unit.cli.command import Command
from unit.cli.conftest import address, fake, short_folder, wattfold
from unit.cli.fake_coordinator import FakeCoordinator
from unit.core.stage import Stage, job_spec, on

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.copies.node_views import starting_reason
from wattfold.coordinator.adapters.door.ownership import public
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.v1 import coordinator_pb2 as pb

__all__ = ["address", "fake", "short_folder", "wattfold"]


def test_running_jobs_are_kept_in_a_limited_list(tmp_path: Path) -> None:
    async def listed() -> pb.ListJobsResponse:
        async with ApiSite(tmp_path) as site, asyncio.timeout(240):
            for number in range(5):
                site.service.post(ev.JobSubmitted(job_id=JobId(f"j{number}"), spec=job_spec()))
            await site.service.request(ev.TimePassed())
            for number in (0, 2):
                site.core.state.jobs[JobId(f"j{number}")].state = JobState.RUNNING
                site.core.state.index.touch_job(site.core.state.jobs[JobId(f"j{number}")])
            return await site.stub.ListJobs(pb.ListJobsRequest(limit=3))

    answer = asyncio.run(listed())
    assert ([job.job_id for job in answer.jobs], answer.total) == (["j0", "j2", "j4"], 5)


@pytest.mark.parametrize("chosen", [[], ["--mine"]])
def test_a_limited_list_says_how_many_jobs_are_missing(
    wattfold: Command, fake: FakeCoordinator, chosen: list[str]
) -> None:
    for number in range(5):
        state = pb.JOB_STATE_PENDING if number else pb.JOB_STATE_RUNNING
        fake.add(pb.Job(job_id=f"j{number}", state=state, access=pb.JOB_ACCESS_OWN))
    result = wattfold("queue", "--limit", "3", *chosen)
    assert result.stderr == "wattfold: 2 jobs are not listed; --limit 5 lists all\n"
    assert wattfold("queue", "--limit", "5", *chosen).stderr == ""


def test_an_own_running_job_is_kept(wattfold: Command, fake: FakeCoordinator) -> None:
    for number in range(5):
        state = pb.JOB_STATE_PENDING if number else pb.JOB_STATE_RUNNING
        fake.add(pb.Job(job_id=f"j{number}", state=state, access=pb.JOB_ACCESS_OWN))
    listed = wattfold.json("queue", "--mine", "--limit", "2")["jobs"]
    assert [job["jobId" if "jobId" in job else "job_id"] for job in listed] == ["j0", "j4"]


def test_a_starting_job_has_a_place_and_a_reason() -> None:
    stage = Stage(200)
    stage.up("n0")
    stage.run_job("a", "n0:0-3", cap_w=30)
    stage.submit("b", job_spec(1, 2))
    stage.plan(on("a", "n0:0-1", cap_w=30), on("b", "n0:2-3", cap_w=30))
    job = stage.job("b")
    assert (job.state, job.ranks) == (JobState.STARTING, {})
    assert starting_reason(stage.core.state, job) == "starts on n0 when cores of a are released"
    stage.mask_is("n0", "a", "0-1")
    assert stage.job("b").ranks
    assert starting_reason(stage.core.state, job) == ""


def test_a_start_that_is_tried_again_has_a_reason(wattfold: Command, fake: FakeCoordinator) -> None:
    share = pb.NodeShare(node_id="n1", cpus="0-1")
    reason = "retrying to start: no disk space"
    fake.add(pb.Job(job_id="j", state=pb.JOB_STATE_STARTING, shares=[share], reason=reason))
    assert f"n1:0-1, {reason}" in wattfold("queue").stdout


def test_a_held_job_says_nothing_of_who_holds_it() -> None:
    stage = Stage()
    stage.submit("a")
    stage.send(ev.JobHeld(job_id=JobId("a")))
    assert stage.job("a").reason == "held until it is released"


@pytest.mark.parametrize(
    "reason", ["attempt 1 ended: cannot open /home/ada/secret", "retrying to start: /home/ada"]
)
def test_words_of_agents_are_hidden_from_other_accounts(reason: str) -> None:
    shown = public(pb.Job(job_id="1", reason=reason))
    assert shown.reason == reason.partition(":")[0]


def test_a_resumed_node_that_does_not_answer_is_not_simply_in_service(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    fake.nodes[0].state, fake.nodes[0].message = pb.NODE_STATE_DOWN, "no agent answers at n1:7171"
    result = wattfold("node", "resume", "n1")
    assert result.stdout == "n1 in service, but down: no agent answers at n1:7171\n"


@pytest.mark.parametrize("name", [[], ["parm-wse"], ["slowdown-driven"]])
def test_policies_are_readable_at_80_columns(wattfold: Command, name: list[str]) -> None:
    shown = wattfold("policies", *name, env={"COLUMNS": "80"}).stdout
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    complete = wattfold("policies", *name).stdout
    assert sorted(shown.split()) == sorted(complete.split())
