"""A coordinator in process with two nodes, to which anything may be sent from both sides.

All of it is real but the processes: the planning worker is in place, and the agents are a servicer
that answers as it is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import pwd
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
import grpc.aio
from believes.sound_node import inventory
from google.protobuf.message import Message
from unit.adapters.api_site import BUDGET_UW, ApiSite
from unit.adapters.in_place import InPlaceWorker

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.agents.agents import Agents
from wattfold.coordinator.adapters.agents.calls import AgentSettings, FencedError, Hooks
from wattfold.coordinator.adapters.agents.link import AgentLink, Contacts
from wattfold.coordinator.adapters.agents.own_lag import OwnLag
from wattfold.coordinator.adapters.copies.replica_feed import ReplicaFeed, for_planning
from wattfold.coordinator.adapters.door.access import Gate
from wattfold.coordinator.adapters.door.auditing import LOOKS, AuditInterceptor
from wattfold.coordinator.adapters.door.peers import Peer
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.adapters.journal.replaying import replay
from wattfold.coordinator.adapters.learning.epochs import EpochReporter
from wattfold.coordinator.adapters.learning.observations import NodeSample
from wattfold.coordinator.adapters.learning.profiles import ProgressLearner
from wattfold.coordinator.adapters.learning.residual import AlarmLog
from wattfold.coordinator.adapters.learning.wishes import WishReporter
from wattfold.coordinator.adapters.planning import Planner
from wattfold.coordinator.app.wiring import COMMANDS
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.rules.invariants import check_invariants
from wattfold.coordinator.core.state.state import CoreSettings
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import node_agent_pb2 as agent_pb

SETTINGS = CoreSettings(check_every=1)
"""The site has no programs that switch nodes."""
WITHIN_S = 240.0
RUNNING = agent_pb.PROCESS_STATE_RUNNING
NODES = (NodeId("n0"), NodeId("n1"))
COORDINATOR = pb.DESCRIPTOR.services_by_name["Coordinator"]
AGENT = agent_pb.DESCRIPTOR.services_by_name["NodeAgent"]


class AnyAgent:
    """Answers each method of the agents' service with ``bodies`` first, then as a node should."""

    def __init__(self, node_id: NodeId) -> None:
        self.node_id = node_id
        self.bodies: dict[str, list[bytes]] = {}
        self.address = ""
        self._processes: dict[str, agent_pb.ProcessInfo] = {}
        self._ended = asyncio.Event()
        self._server = grpc.aio.server()

    async def start(self) -> None:
        """Serves all methods."""
        handlers = {
            method.name: grpc.unary_stream_rpc_method_handler(self._stream)
            if method.server_streaming
            else grpc.unary_unary_rpc_method_handler(self._answers(method))
            for method in AGENT.methods
        }
        handler = grpc.method_handlers_generic_handler(AGENT.full_name, handlers)
        self._server.add_generic_rpc_handlers((handler,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()

    async def stop(self) -> None:
        """Ends it."""
        await self._server.stop(0)

    def _answers(self, method: Any) -> Callable[[bytes, Any], Any]:
        async def answer(body: bytes, _context: Any) -> bytes:
            if bodies := self.bodies.get(method.name):
                return bodies.pop(0)
            request = getattr(agent_pb, method.input_type.name).FromString(body)
            return self._sound(method.name, request).SerializeToString()

        return answer

    async def _stream(self, _body: bytes, _context: Any) -> AsyncIterator[bytes]:
        for body in self.bodies.pop("StreamTelemetry", []):
            yield body
        while True:
            ended = [p for p in self._processes.values() if p.state != RUNNING]
            yield agent_pb.Telemetry(ended=ended).SerializeToString()
            self._ended.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._ended.wait()

    def _sound(self, name: str, request: Any) -> Message:
        """What a node answers that does as it is told."""
        match name:
            case "GetInventory":
                return inventory(self.node_id)
            case "SetCaps":
                ok = agent_pb.CAP_STATUS_OK
                return agent_pb.SetCapsResponse(
                    results=[
                        agent_pb.CapResult(
                            name=c.name, requested_uw=c.cap_uw, enforced_uw=c.cap_uw, status=ok
                        )
                        for c in request.caps
                    ]
                )
            case "SetMask":
                return agent_pb.SetMaskResponse(cpus=request.cpus)
            case "Launch":
                self._processes[request.job_id] = agent_pb.ProcessInfo(
                    job_id=request.job_id,
                    pid=100,
                    state=RUNNING,
                    cpus=request.cpus,
                    attempt=request.attempt,
                )
                return agent_pb.LaunchResponse(pid=100)
            case "EndAttempt":
                process = self._processes.get(request.job_id)
                if process is not None:
                    process.state = agent_pb.PROCESS_STATE_ENDED
                    self._ended.set()
                return agent_pb.EndAttemptResponse(found=process is not None)
            case "ForgetProcess":
                self._processes.pop(request.job_id, None)
                return agent_pb.ForgetProcessResponse()
            case "ListProcesses":
                return agent_pb.ListProcessesResponse(processes=self._processes.values())
            case _:
                return getattr(agent_pb, f"{name}Response")()


class AnySite(ApiSite):
    """A coordinator with its agents' links, behind the interceptors of the service."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.core.state.settings = SETTINGS
        self.address = "127.0.0.1:0"
        state, service = self.core.state, self.service
        nobody = pwd.getpwnam("nobody")
        # An operator whose jobs are taken over TCP.
        token = Peer(uid=nobody.pw_uid, account=nobody.pw_name, address="", in_group=True)
        self.interceptors = [
            AuditInterceptor(service.note, token=token),
            Gate(lambda: state, ""),
        ]
        self.sent = {node_id: AnyAgent(node_id) for node_id in NODES}
        self.agents = Agents()
        self.fenced: list[FencedError] = []
        planning = ReplicaFeed(InPlaceWorker(), lambda: state, for_planning)
        service.followers.append(planning.note)
        self.planner = Planner(
            FifoEasy(),
            planning,
            service.clock.now_ns,
            lambda: dict(self.seen.residual),
            service.post,
            10.0,
        )
        service.performers = dict.fromkeys(COMMANDS, self.agents) | {act.Solve: self.planner}
        self._news = asyncio.Event()
        service.listeners.append(self._news.set)

    async def __aenter__(self) -> AnySite:
        await super().__aenter__()
        service = self.service
        learner = ProgressLearner(service, _unfitted)
        takers = [learner, WishReporter(service), EpochReporter(service), AlarmLog(), self.seen]

        def sampled(sample: NodeSample) -> None:
            for taker in takers:
                taker.take(sample)
            self._news.set()

        self.hooks = Hooks(
            post=service.post,
            sampled=sampled,
            heard=self.pictures.hear,
            gone=self._gone,
            epoch=lambda: self.core.state.epoch,
            coordinator_id="c",
            fenced=self._fenced,
            step_key=lambda _: bytes(32),
            launch_data=service.launch_data,
        )
        # In the journal, as what a restarted coordinator begins with.
        service.post(ev.BudgetChanged(budget_uw=BUDGET_UW))
        for agent in self.sent.values():
            await agent.start()
            service.post(ev.NodeRegistered(node_id=agent.node_id, address=agent.address))
            self.agents.add(self._link(agent))
        await self.until(
            lambda: all(self.leased(node_id) for node_id in NODES), "both nodes are up"
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.agents.close()
        await self.planner.close()
        for agent in self.sent.values():
            await agent.stop()
        await super().__aexit__(kind, error, trace)

    def _link(self, agent: AnyAgent) -> AgentLink:
        clock = self.service.clock
        return AgentLink(
            agent.node_id,
            agent.address,
            "",
            self.hooks,
            AgentSettings(),
            clock,
            OwnLag(clock.now_ns),
            Contacts(),
        )

    def _gone(self, node_id: NodeId) -> None:
        self._news.set()
        self.seen.drop(node_id)
        self.pictures.drop(node_id)

    def _fenced(self, error: FencedError) -> None:
        self.fenced.append(error)
        self._news.set()

    def leased(self, node_id: NodeId) -> bool:
        """Whether a node is in contact and has a lease."""
        node = self.core.state.nodes.get(node_id)
        return node is not None and node.reachable and node.leased

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for it."""
        try:
            async with asyncio.timeout(WITHIN_S):
                while not condition():
                    assert not self._running.done(), self._running.exception()
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"never happened: {what}") from None

    def contact_anew(self, node_id: NodeId) -> None:
        """Begins contact with a node again."""
        self.agents.drop(node_id)
        self.link = self._link(self.sent[node_id])
        self.agents.add(self.link)

    async def answered(self, node_id: NodeId) -> None:
        """Waits until a node is in contact and has told all it has to tell, or is refused."""
        bodies = self.sent[node_id].bodies

        def done() -> bool:
            connected = self.agents.connected(node_id)
            told = connected is True and "StreamTelemetry" not in bodies
            return told or connected is False or bool(self.fenced)

        await self.until(done, f"an answer of {node_id} is taken in")

    async def call(self, method: str, body: bytes) -> grpc.StatusCode:
        """The status of a call with this body; of a stream that of its first answer."""
        path, descriptor = f"/{COORDINATOR.full_name}/{method}", COORDINATOR.methods_by_name[method]
        try:
            async with asyncio.timeout(WITHIN_S):
                if descriptor.server_streaming:
                    call = self._channel.unary_stream(path)(body)
                    answer = await call.read()
                    call.cancel()
                    if answer is grpc.aio.EOF:
                        return await call.code()
                else:
                    answer = await self._channel.unary_unary(path)(body)
        except grpc.aio.AioRpcError as error:
            return error.code()
        getattr(pb, descriptor.output_type.name).FromString(answer)
        return grpc.StatusCode.OK

    async def check(self) -> None:
        """The state is sound, and the same as a restarted coordinator would have."""
        assert not self._running.done(), self._running.exception()
        check_invariants(self.core.state)
        assert not self.journal.aside(), self.journal.aside()
        self.journal.commit()
        again = CoordinatorCore(BUDGET_UW, SETTINGS)
        replay(self.journal, again)
        assert _state(again) == _state(self.core)

    async def check_looks(self) -> None:
        """All that people look at can be shown."""
        job = {"job_id": next(iter(self.core.state.jobs), "")}
        for name in sorted(LOOKS):
            request = getattr(pb, COORDINATOR.methods_by_name[name].input_type.name)()
            if "job_id" in request.DESCRIPTOR.fields_by_name and name != "ListAudit":
                request.job_id = job["job_id"]
            code = await self.call(name, request.SerializeToString())
            assert code is grpc.StatusCode.OK, (name, code)

    async def end_all(self) -> None:
        """Cancels all jobs, and waits until they have ended."""
        for job in [job for job in self.core.state.jobs.values() if not job.final]:
            await self.stub.Cancel(pb.CancelRequest(job_id=job.job_id))
        jobs = self.core.state.jobs
        await self.until(lambda: all(job.final for job in jobs.values()), "all jobs have ended")

    async def runs_on(self, node_id: NodeId) -> None:
        """A new job starts on a node."""
        request = pb.SubmitRequest(spec=pb.JobSpec(argv=["/bin/true"], cwd="/", among=[node_id]))
        answer = await self.stub.Submit(request)
        job = self.core.state.jobs[JobId(answer.job_id)]
        await self.until(
            lambda: job.state is JobState.RUNNING, f"job {job.job_id} runs on {node_id}"
        )


def _state(core: CoordinatorCore) -> Any:
    return json.loads(codec.dump_state(core.state))


async def _unfitted(_lesson: Any) -> str:
    return "no profile"
