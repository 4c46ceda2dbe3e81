"""Orders to end or forget a job over a real connection, and retries when an order is lost."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.agents.calls import AgentSettings, Hooks
from wattfold.coordinator.adapters.agents.link import AgentLink, Contacts
from wattfold.coordinator.adapters.agents.own_lag import OwnLag
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.v1 import node_agent_pb2 as pb
from wattfold.v1 import node_agent_pb2_grpc

N0, A = NodeId("n0"), JobId("a")
Posted = asyncio.Queue[ev.Event]


class WilfulAgent(node_agent_pb2_grpc.NodeAgentServicer):
    """Agent whose answers the test chooses.

    It reports an ended process until that process is forgotten.
    """

    def __init__(self) -> None:
        self.over = threading.Event()
        self.end: Callable[[Any], pb.EndAttemptResponse] = lambda _: pb.EndAttemptResponse()
        self.refusals = 0
        self.forgotten: list[int] = []

    def GetInventory(self, request: Any, context: Any) -> pb.Inventory:
        return pb.Inventory(node_id="n0", cpus="0-3")

    def ListProcesses(self, request: Any, context: Any) -> pb.ListProcessesResponse:
        return pb.ListProcessesResponse()

    def StreamTelemetry(self, request: Any, context: Any) -> Iterator[pb.Telemetry]:
        number = 0
        while not self.over.wait(request.interval_ns / 1e9):
            number += 1
            ended = pb.ProcessInfo(job_id="a", state=pb.PROCESS_STATE_ENDED, attempt=2)
            left = [] if self.forgotten else [ended]
            yield pb.Telemetry(node_id="n0", uptime_ns=number, ended=left)

    def EndAttempt(self, request: Any, context: Any) -> pb.EndAttemptResponse:
        return self.end(context)

    def ForgetProcess(self, request: Any, context: Any) -> pb.ForgetProcessResponse:
        if self.refusals:
            self.refusals -= 1
            context.abort(grpc.StatusCode.INTERNAL, "not now")
        self.forgotten.append(request.attempt)
        return pb.ForgetProcessResponse()


def linked(
    agent: WilfulAgent, folder: Path, test: Callable[[AgentLink, Posted], Awaitable[None]]
) -> None:
    """Run a test with a link to an agent."""
    server = grpc.server(futures.ThreadPoolExecutor(4))
    node_agent_pb2_grpc.add_NodeAgentServicer_to_server(agent, server)
    address = f"unix:{folder}/agent.sock"
    server.add_insecure_port(address)
    server.start()

    async def go() -> None:
        posted: Posted = asyncio.Queue()
        hooks = Hooks(
            post=posted.put_nowait,
            sampled=lambda _: None,
            heard=lambda *_: None,
            gone=lambda _: None,
            epoch=lambda: 1,
            coordinator_id="c",
            fenced=lambda _: None,
            launch_data=lambda _: None,
            step_key=lambda _: b"",
        )
        clock = Clock()
        settings = AgentSettings(telemetry_interval_s=0.05, command_timeout_s=0.5)
        link = AgentLink(N0, address, "", hooks, settings, clock, OwnLag(clock.now_ns), Contacts())
        try:
            async with asyncio.timeout(240):
                await test(link, posted)
        finally:
            await link.close()

    try:
        asyncio.run(go())
    finally:
        agent.over.set()
        server.stop(0).wait()


def unanswered(agent: WilfulAgent, context: Any) -> pb.EndAttemptResponse:
    agent.over.wait()
    return pb.EndAttemptResponse(found=True)


def refused(agent: WilfulAgent, context: Any) -> pb.EndAttemptResponse:
    context.abort(grpc.StatusCode.INTERNAL, "not now")
    raise AssertionError


def absent(agent: WilfulAgent, context: Any) -> pb.EndAttemptResponse:
    return pb.EndAttemptResponse(found=False)


@pytest.mark.parametrize(
    ("answer", "is_refused"), [(unanswered, False), (refused, True), (absent, True)]
)
def test_an_order_to_end_a_job_that_is_not_heard_is_told_of(
    answer: Callable[[WilfulAgent, Any], pb.EndAttemptResponse], is_refused: bool, tmp_path: Path
) -> None:
    agent = WilfulAgent()
    agent.end = lambda context: answer(agent, context)

    async def test(link: AgentLink, posted: Posted) -> None:
        link.commands.perform(
            act.Terminate(node_id=N0, job_id=A, request_id="1", cause="", attempt=2)
        )
        event = await posted.get()
        assert isinstance(event, reports.TerminateFailed)
        assert (event.job_id, event.attempt, event.refused) == ("a", 2, is_refused)
        assert event.reason

    linked(agent, tmp_path, test)


def test_an_end_that_was_not_forgotten_is_told_again(
    tmp_path: Path,
) -> None:
    agent = WilfulAgent()
    agent.refusals = 2

    async def test(link: AgentLink, posted: Posted) -> None:
        running = asyncio.create_task(link.run())
        ends = 0
        while not agent.forgotten:
            event = await posted.get()
            if isinstance(event, reports.ProcessEnded):
                ends += 1
                forget = act.ForgetProcess(
                    node_id=N0, job_id=A, request_id=f"{ends}", cause="", attempt=2
                )
                link.commands.perform(forget)
                await asyncio.gather(*link.commands._under_way)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert (ends, agent.forgotten) == (3, [2])

    linked(agent, tmp_path, test)


def test_a_closed_link_starts_no_call(tmp_path: Path) -> None:
    """The core may still decide while the coordinator ends."""
    failed: list[dict[str, Any]] = []

    async def close(link: AgentLink, posted: Posted) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))
        await link.close()
        link.commands.perform(act.ForgetProcess(node_id=N0, job_id=A, request_id="r", cause="a"))
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)

    agent = WilfulAgent()
    linked(agent, tmp_path, close)
    gc.collect()
    # gRPC's own callbacks may fail too, when another test closes its loop.
    assert not [context for context in failed if "future" in context]
    assert not agent.forgotten


class AdoptingAgent(WilfulAgent):
    """Agent that runs a job of Slurm, and has narrowed it in each next message."""

    def StreamTelemetry(self, request: Any, context: Any) -> Iterator[pb.Telemetry]:
        slurm = pb.Adoption(owner="slurm")
        usages = [
            [],
            [pb.JobUsage(job_id="slurm-1", cpus="0-1", adoption=slurm)],
            [pb.JobUsage(job_id="slurm-1", cpus="0-1", adoption=slurm), pb.JobUsage(job_id="b")],
            [pb.JobUsage(job_id="slurm-1", cpus="0", adoption=slurm)],
            [],
        ]
        for number, jobs in enumerate(usages):
            yield pb.Telemetry(node_id="n0", uptime_ns=number, jobs=jobs)
        self.over.wait()


def test_adopted_jobs_and_their_changes_are_told_once(tmp_path: Path) -> None:
    async def test(link: AgentLink, posted: Posted) -> None:
        running = asyncio.create_task(link.run())
        told: list[str] = []
        while len(told) < 2:
            event = await posted.get()
            if isinstance(event, reports.AdoptedJobsSeen):
                told += [f"{job.job_id} {job.cpus}" for job in event.jobs]
        assert told == ["slurm-1 0-1", "slurm-1 0"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    linked(AdoptingAgent(), tmp_path, test)
