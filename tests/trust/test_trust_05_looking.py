"""Queries of the queue add no work that grows with the queue to the loop that renews leases."""

# ruff: noqa: N802 - gRPC names the methods

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from unit.adapters.api_site import ApiSite
from unit.core.stage import job_spec, node_spec, on, planning_round, reading

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.agents.calls import AgentSettings, Hooks
from wattfold.coordinator.adapters.agents.link import SILENT_AFTER_INTERVALS, AgentLink, Contacts
from wattfold.coordinator.adapters.agents.own_lag import OwnLag, Silence
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.pictures import Pictures
from wattfold.coordinator.adapters.copies.replica_feed import ReplicaFeed, for_planning
from wattfold.coordinator.adapters.door.peers import own_account
from wattfold.coordinator.adapters.learning.profiles import ProgressLearner
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.model.plan import Plan
from wattfold.coordinator.core.state.changes import Changes
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import node_agent_pb2 as agent_pb
from wattfold.v1 import node_agent_pb2_grpc

N0, N1 = NodeId("n0"), NodeId("n1")
S = 1_000_000_000
INTERVAL_S = 0.05


def site(folder: Path, test: Callable[[ApiSite], Awaitable[None]]) -> None:
    async def go() -> None:
        async with ApiSite(folder) as there, asyncio.timeout(240):
            await test(there)

    asyncio.run(go())


async def submit(there: ApiSite, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        name = JobId(f"j{number}")
        there.service.post(ev.JobSubmitted(job_id=name, spec=job_spec()))
    await there.service.request(ev.TimePassed())


async def run_on(there: ApiSite, node: NodeId, job: str) -> None:
    """Connect a node and run a job on it."""
    post, state = there.service.post, there.core.state
    post(ev.NodeRegistered(node_id=node, address="x"))
    post(reports.NodeConnected(spec=node_spec(node), caps=(reading(10),), processes=()))
    post(ev.BudgetChanged(budget_uw=state.ledger.budget_uw))
    await there.service.request(ev.TimePassed())
    assignment = on(job, f"{node}:0-3")
    plan = ev.PlanProposed(
        plan=Plan(assignments=(assignment,)), round=planning_round(state.solving)
    )
    post(plan)
    post(reports.JobLaunched(node_id=node, job_id=JobId(job), pid=1))
    await there.service.request(ev.TimePassed())


def telemetry(node: NodeId, *jobs: str, cpu_ns: int = 1) -> agent_pb.Telemetry:
    uses = [agent_pb.JobUsage(job_id=job, cpu_ns=cpu_ns) for job in jobs]
    return agent_pb.Telemetry(node_id=node, jobs=uses)


def made(there: ApiSite) -> int:
    """Number of view pieces built so far."""
    found: int = there.worker.replica.companion(Pictures).made
    return found


# Views.


def test_a_second_look_makes_nothing_anew_and_a_change_one_piece(tmp_path: Path) -> None:
    async def test(there: ApiSite) -> None:
        await submit(there, 300)
        asked = pb.ListJobsRequest()
        first = await there.stub.ListJobs(asked)
        assert [job.job_id for job in first.jobs] == [f"j{n}" for n in range(300)]
        assert made(there) == 300
        await there.stub.ListJobs(asked)
        assert made(there) == 300
        await there.service.request(ev.JobHeld(job_id=JobId("j7")))
        again = await there.stub.ListJobs(asked)
        assert made(there) == 301
        assert again.jobs[7].state == pb.JOB_STATE_HELD

    site(tmp_path, test)


def test_who_has_just_submitted_sees_the_job(tmp_path: Path) -> None:
    async def test(there: ApiSite) -> None:
        for _ in range(3):
            request = pb.SubmitRequest(spec=pb.JobSpec(argv=["run"], env={"KEY": "secret"}))
            answer = await there.stub.Submit(request)
            listed = await there.stub.ListJobs(pb.ListJobsRequest(job_ids=[answer.job_id]))
            assert [job.job_id for job in listed.jobs] == [answer.job_id]
            assert not listed.jobs[0].spec.env

    site(tmp_path, test)


@pytest.mark.parametrize("count", [20, 1000])
def test_what_a_look_sends_goes_with_the_changes_not_with_the_jobs(
    tmp_path: Path, count: int
) -> None:
    async def test(there: ApiSite) -> None:
        await submit(there, count)
        await there.stub.ListNodes(pb.ListNodesRequest())
        before = there.worker.bytes
        await submit(there, 1, first=count)
        await there.stub.ListNodes(pb.ListNodesRequest())
        assert len(there.worker.updates[-1].jobs) == 1
        assert there.worker.bytes - before < 5000

    site(tmp_path, test)


def test_a_message_of_one_node_renews_its_jobs_and_no_others(tmp_path: Path) -> None:
    async def test(there: ApiSite) -> None:
        await submit(there, 100)
        for node, job in ((N0, "j0"), (N1, "j1")):
            await run_on(there, node, job)
            there.pictures.hear(node, telemetry(node, job), 1)
        await there.stub.ListJobs(pb.ListJobsRequest())
        await there.stub.ListNodes(pb.ListNodesRequest())
        before = made(there)
        there.pictures.hear(N1, telemetry(N1, "j1", cpu_ns=77), 2)
        await there.stub.ListNodes(pb.ListNodesRequest())
        assert made(there) == before + 1
        pieces = there.worker.replica.companion(Pictures)._jobs
        assert JobId("j0") in pieces
        assert JobId("j1") not in pieces
        jobs = (await there.stub.ListJobs(pb.ListJobsRequest())).jobs
        assert {job.job_id: job.cpu_ns for job in jobs if job.cpu_ns} == {"j0": 1, "j1": 77}

    site(tmp_path, test)


def test_many_who_look_at_once_are_answered_together(tmp_path: Path) -> None:
    async def test(there: ApiSite) -> None:
        await submit(there, 50)
        calls = there.worker.calls
        asked = [there.pictures.cluster(own_account(), 0) for _ in range(40)]
        views = await asyncio.gather(*asked)
        assert there.worker.calls == calls + 1
        assert {len(pb.ClusterView.FromString(view).jobs) for view in views} == {50}
        assert made(there) == 50

    site(tmp_path, test)


def test_a_worker_that_died_is_told_everything_again(tmp_path: Path) -> None:
    async def test(there: ApiSite) -> None:
        await submit(there, 30)
        await run_on(there, N0, "j0")
        there.pictures.hear(N0, telemetry(N0, "j0", cpu_ns=5), 1)
        before = await there.stub.ListJobs(pb.ListJobsRequest())
        there.worker.die()
        await submit(there, 1, first=30)
        after = await there.stub.ListJobs(pb.ListJobsRequest())
        assert len(after.jobs) == 31
        assert [j.cpu_ns for j in after.jobs[:30]] == [j.cpu_ns for j in before.jobs]

    site(tmp_path, test)


def test_watching_shows_what_ended_since_and_then_no_more(tmp_path: Path) -> None:
    async def test(there: ApiSite) -> None:
        await submit(there, 2)
        views = there.stub.Watch(pb.WatchRequest(interval_ns=1))
        assert len((await views.read()).jobs) == 2
        await there.service.request(ev.JobCancelRequested(job_id=JobId("j0")))
        second = await views.read()
        assert [job.state for job in second.jobs] == [
            pb.JOB_STATE_CANCELLED,
            pb.JOB_STATE_PENDING,
        ]
        await there.service.request(ev.JobHeld(job_id=JobId("j1")))
        assert [job.job_id for job in (await views.read()).jobs] == ["j1"]
        views.cancel()

    site(tmp_path, test)


# Planning and listeners.


def test_what_only_travels_is_not_sent_to_be_planned_with(tmp_path: Path) -> None:
    async def test(there: ApiSite) -> None:
        feed = ReplicaFeed(there.worker, lambda: there.core.state, for_planning)
        there.service.followers.append(feed.note)
        for number in range(3):
            spec = pb.JobSpec(argv=["run", "ARGUMENT"], env={"KEY": "SECRET"}, cwd="/FOLDER")
            await there.stub.Submit(pb.SubmitRequest(spec=spec))
            await feed.ask(len_of_jobs, lambda _: (), 1.0)
            sent = pickle.dumps(there.worker.updates[-1])
            assert not [word for word in (b"ARGUMENT", b"SECRET", b"FOLDER") if word in sent]
            assert len(there.worker.updates[-1].jobs) == 1, number

    site(tmp_path, test)


def len_of_jobs(replica: Any) -> int:
    return len(replica.state.jobs)


class NeverWalked(dict[JobId, Job]):
    """Jobs of a state that allow lookups but no iteration."""

    def __iter__(self) -> Iterator[JobId]:
        raise AssertionError("somebody walked over all jobs")

    values = items = keys = __iter__  # type: ignore[assignment]


def test_what_is_told_of_changes_looks_at_no_other_job(tmp_path: Path) -> None:
    async def test(there: ApiSite) -> None:
        async def fit(lesson: Any) -> str:
            return "no"

        ProgressLearner(there.service, fit)
        heard: list[Changes] = []
        there.service.followers.append(heard.append)
        await submit(there, 500)
        heard.clear()
        there.core.state.jobs = NeverWalked(there.core.state.jobs)
        await there.service.request(ev.JobHeld(job_id=JobId("j9")))
        assert list(heard[-1].jobs) == ["j9"]
        there.api.changed()

    site(tmp_path, test)


def test_others_get_their_turn_while_events_keep_coming(tmp_path: Path) -> None:
    async def test(there: ApiSite) -> None:
        turns, events = 0, 0

        def one_more() -> None:
            nonlocal events
            events += 1
            if events < 1000:
                there.service.post(ev.TimePassed())

        there.service.listeners.append(one_more)
        there.service.post(ev.TimePassed())
        while events < 1000:
            await asyncio.sleep(0)
            turns += 1
        assert turns > 500

    site(tmp_path, test)


# Silence.


def test_time_in_which_we_could_not_listen_is_no_silence() -> None:
    now_ns = 0
    lag = OwnLag(lambda: now_ns)
    silence = Silence(lag, lambda: now_ns)
    now_ns = 10 * S
    lag.note(9 * S)
    assert silence.lasted_ns == S
    now_ns = 12 * S
    assert silence.lasted_ns == 3 * S
    silence.heard()
    assert silence.lasted_ns == 0


class TalkingAgent(node_agent_pb2_grpc.NodeAgentServicer):
    """Agent that sends telemetry from its own threads until it is paused."""

    def __init__(self) -> None:
        self.sent = 0
        self.pause = threading.Event()
        self.over = threading.Event()
        self._counted = threading.Condition()

    def GetInventory(self, request: Any, context: Any) -> agent_pb.Inventory:
        return agent_pb.Inventory(node_id="n0", cpus="0-3")

    def ListProcesses(self, request: Any, context: Any) -> agent_pb.ListProcessesResponse:
        return agent_pb.ListProcessesResponse()

    def StreamTelemetry(self, request: Any, context: Any) -> Iterator[agent_pb.Telemetry]:
        pace = threading.Event()
        while not self.pause.is_set():
            with self._counted:
                self.sent += 1
                self._counted.notify_all()
            yield agent_pb.Telemetry(node_id="n0", uptime_ns=self.sent)
            pace.wait(request.interval_ns / 1e9)
        self.over.wait()

    def wait_for(self, more: int) -> None:
        """Block the calling thread until ``more`` messages have been sent."""
        with self._counted:
            until = self.sent + more
            self._counted.wait_for(lambda: self.sent >= until, timeout=240)


def test_a_loop_that_was_held_up_calls_no_node_silent(tmp_path: Path) -> None:
    agent = TalkingAgent()
    server = grpc.server(futures.ThreadPoolExecutor(4))
    node_agent_pb2_grpc.add_NodeAgentServicer_to_server(agent, server)
    address = f"unix:{tmp_path}/agent.sock"
    server.add_insecure_port(address)
    server.start()
    try:
        asyncio.run(_held_up(agent, address))
    finally:
        agent.over.set()
        server.stop(0).wait()


async def _held_up(agent: TalkingAgent, address: str) -> None:
    posted: list[ev.Event] = []
    heard, silent = asyncio.Event(), asyncio.Event()

    def post(event: ev.Event) -> None:
        posted.append(event)
        if isinstance(event, reports.NodeSilent):
            silent.set()

    hooks = Hooks(
        post=post,
        sampled=lambda _: None,
        heard=lambda *_: heard.set(),
        gone=lambda _: None,
        epoch=lambda: 1,
        coordinator_id="c",
        fenced=lambda _: None,
        launch_data=lambda _: None,
        step_key=lambda _: b"",
    )
    clock = Clock()
    lag = OwnLag(clock.now_ns)
    lag.start()
    settings = AgentSettings(telemetry_interval_s=INTERVAL_S)
    link = AgentLink(N0, address, "", hooks, settings, clock, lag, Contacts())
    running = asyncio.create_task(link.run())
    async with asyncio.timeout(240):
        await heard.wait()
        for _ in range(3):
            # As in a stalled listener: the agent keeps sending, and no message is read.
            agent.wait_for(3 * SILENT_AFTER_INTERVALS)
            heard.clear()
            await heard.wait()
        assert not silent.is_set(), posted
        agent.pause.set()
        await silent.wait()
    lag.stop()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await link.close()
    assert [type(event).__name__ for event in posted] == ["NodeConnected", "NodeSilent"]
