"""The agent of a node in process, to which anything may be sent.

All of it is real but the devices: the zones are those of a machine model, masks are affinities, and
there is no guard.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
import grpc.aio
from believes.any_site import AGENT, WITHIN_S
from believes.sound_node import W

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent.adapters.call_checks import BodyCheck
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.devices.zone_search import discover
from wattfold.nodeagent.adapters.grpc_service import Changes, NodeAgentService
from wattfold.nodeagent.adapters.host import schedulable_cpus
from wattfold.nodeagent.adapters.jobs.cpu_time import CpuClock
from wattfold.nodeagent.adapters.jobs.cpuset import choose_masks
from wattfold.nodeagent.adapters.jobs.job_groups import choose_groups
from wattfold.nodeagent.adapters.jobs.step_folders import StepFolders
from wattfold.nodeagent.adapters.state_store import StateStore
from wattfold.nodeagent.core.gpus import NodeGpu
from wattfold.nodeagent.emulation.fixtures import load_fixture
from wattfold.nodeagent.emulation.memory_files import MemoryFiles
from wattfold.nodeagent.emulation.tree_model import TreeModel
from wattfold.nodeagent.service.jobs.accounting import Accounting, AccountingRules
from wattfold.nodeagent.service.jobs.jobs import NodeJobs
from wattfold.nodeagent.service.jobs.launching import JobPorts
from wattfold.nodeagent.service.power.power import NodePower
from wattfold.v1 import common_pb2, node_agent_pb2_grpc
from wattfold.v1 import node_agent_pb2 as pb

GPUS = (NodeGpu(id="GPU-a"),)


class NoGuard:
    """Its power service is never killed."""

    async def hold_until(self, deadline_ns: int) -> None:
        """Nothing."""

    def lapsed(self) -> None:
        """Nothing."""

    def refresh(self) -> None:
        """Nothing."""


class AnyNode:
    """An agent with its state in ``folder``, from its start on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cpus = schedulable_cpus()
        self.store = StateStore(folder / "state")
        changes = Changes()
        zones = discover(
            MemoryFiles(TreeModel(load_fixture("xeon-e5-2620").machine)), RangeSetting()
        )
        self.power = NodePower(zones, self.store, "boot", changes.notify, NoGuard())
        clock = CpuClock(folder, "n0", use_cgroups=False)
        ports = JobPorts(
            store=self.store,
            masks=choose_masks(folder, "n0", self.cpus, "affinity"),
            groups=choose_groups(folder, "n0", "off", 1000),
            clock=clock,
            firmware=None,
            boot_id="boot",
            shim_library="",
            files_soft_max=1024,
            steps=StepFolders(folder),
            node_id="n0",
            remote_shell="",
            gpus=GPUS,
        )
        self.jobs = NodeJobs(self.cpus, ports, folder / "shims", changes.notify)
        rules = AccountingRules(idle_uw=0, cpus=len(self.cpus))
        accounting = Accounting(self.jobs, self.power, clock, rules, changes.notify, GPUS)
        inventory = pb.Inventory(node_id="n0", cpus=str(self.cpus), gpus=["GPU-a"])
        self.service = NodeAgentService(inventory, self.power, self.jobs, accounting, changes)

    async def __aenter__(self) -> AnyNode:
        self.power.start()
        self.jobs.start()
        self._server = grpc.aio.server(interceptors=[BodyCheck()])
        node_agent_pb2_grpc.add_NodeAgentServicer_to_server(self.service, self._server)
        address = f"unix:{self.folder}/agent.sock"
        self._server.add_insecure_port(address)
        await self._server.start()
        self._channel = grpc.aio.insecure_channel(address)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._channel.close()
        await self._server.stop(0)
        await self.jobs.orders.end_all(0)
        self.jobs.stop()
        self.power.stop()
        self.store.close()

    async def call(self, method: str, body: bytes) -> tuple[grpc.StatusCode, Any]:
        """The status of a call with this body and the answer, of a stream its first."""
        path, descriptor = f"/{AGENT.full_name}/{method}", AGENT.methods_by_name[method]
        try:
            async with asyncio.timeout(WITHIN_S):
                if descriptor.server_streaming:
                    call = self._channel.unary_stream(path)(body)
                    answer = await call.read()
                    call.cancel()
                    if answer is grpc.aio.EOF:
                        return await call.code(), None
                else:
                    answer = await self._channel.unary_unary(path)(body)
        except grpc.aio.AioRpcError as error:
            return error.code(), None
        return grpc.StatusCode.OK, getattr(pb, descriptor.output_type.name).FromString(answer)

    async def check(self) -> None:
        """The node does as it is told, by the coordinator that it obeys."""
        _, inventory = await self.call("GetInventory", b"")
        header = common_pb2.CommandHeader(
            epoch=max(inventory.epoch, 1), coordinator_id=inventory.coordinator_id
        )
        cap = pb.ZoneCap(name="package-0", cap_uw=60 * W)
        for method, request in {
            "RenewLease": pb.RenewLeaseRequest(header=header, duration_ns=NS_PER_S * 100),
            "SetCaps": pb.SetCapsRequest(header=header, caps=[cap]),
            "ListProcesses": pb.ListProcessesRequest(),
            "StreamTelemetry": pb.StreamTelemetryRequest(),
        }.items():
            code, answer = await self.call(method, request.SerializeToString())
            assert code is grpc.StatusCode.OK, (method, code)
            if method == "SetCaps":
                assert answer.results[0].status == pb.CAP_STATUS_OK, answer
        held = [job.held for job in self.jobs.jobs.values() if job.live]
        assert sum(map(len, held)) == len(CpuSet.of(cpu for cpus in held for cpu in cpus)), held


def launch(folder: Path) -> pb.LaunchRequest:
    """A job that sleeps on the first CPU."""
    return pb.LaunchRequest(
        header=common_pb2.CommandHeader(epoch=1, coordinator_id="c"),
        job_id="1",
        argv=["/bin/sleep", "1000"],
        env={"A": "b"},
        cwd=str(folder),
        cpus=str(min(schedulable_cpus())),
        mode=common_pb2.RESIZE_MODE_MASK,
        launch_cpus=1,
        attempt=1,
    )
