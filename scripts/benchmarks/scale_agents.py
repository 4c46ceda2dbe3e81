#!/usr/bin/env python3
"""Simulated agents for `scale`: many gRPC servers of the node contract in one process.

Each server has a socket, confirms every command immediately, and sends telemetry. It keeps a lease
as an agent does and counts leases that had lapsed before their renewal. The process prints a line
when all servers listen. For every line on its standard input, it prints its notes since the last
line, as JSON.

    scripts/benchmarks/scale_agents.py FOLDER FIRST COUNT JOB_S
"""

# ruff: noqa: N802, ARG002 - gRPC names the methods and their parameters

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from wattfold.v1 import node_agent_pb2 as pb
from wattfold.v1 import node_agent_pb2_grpc

CORES = 4
BASE_UW, FLOOR_UW, CAP_UW_MAX = 50_000_000, 40_000_000, 100_000_000
WINDOW_NS = 1_000_000_000
ZONE = "package-0"


@dataclass(slots=True)
class Noted:
    """Observations of the agents of a process; times in seconds."""

    renewals: int = 0
    lapsed: int = 0
    gap_s_max: float = 0.0
    """Longest time between two renewals of a lease."""
    launches: int = 0
    messages: int = 0


@dataclass(slots=True)
class _Running:
    job_id: str
    pid: int
    until_s: float


@dataclass(slots=True)
class Agent(node_agent_pb2_grpc.NodeAgentServicer):
    """One simulated node. Jobs run for about ``job_s`` and succeed."""

    node_id: str
    noted: Noted
    job_s: float
    chance: random.Random
    began_s: float = field(default_factory=time.monotonic)
    cap_uw: int = FLOOR_UW
    epoch: int = 0
    renewed_s: float = 0.0
    lease_s: float = 0.0
    running: dict[str, _Running] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    pids: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def GetInventory(self, request: Any, context: Any) -> pb.Inventory:
        zone = pb.PowerZone(
            name=ZONE,
            kind=pb.ZONE_KIND_PACKAGE,
            cap_uw_min=FLOOR_UW,
            cap_uw_max=CAP_UW_MAX,
            floor_uw=FLOOR_UW,
            cap_uw=self.cap_uw,
            window_ns=WINDOW_NS,
            can_cap=True,
            can_measure=True,
        )
        places = [pb.Cpu(cpu=cpu, core=cpu, siblings=str(cpu)) for cpu in range(CORES)]
        return pb.Inventory(
            node_id=self.node_id,
            hostname=self.node_id,
            cpus=f"0-{CORES - 1}",
            topology=places,
            zones=[zone],
            base_power_uw=BASE_UW,
            emulated=True,
            mask_mechanism=pb.MASK_MECHANISM_AFFINITY,
            epoch=self.epoch,
        )

    async def ListProcesses(self, request: Any, context: Any) -> pb.ListProcessesResponse:
        return pb.ListProcessesResponse(processes=[self._process(r) for r in self.running.values()])

    def _process(self, running: _Running) -> pb.ProcessInfo:
        return pb.ProcessInfo(
            job_id=running.job_id,
            pid=running.pid,
            state=pb.PROCESS_STATE_RUNNING,
            cpus=f"0-{CORES - 1}",
        )

    async def StreamTelemetry(self, request: Any, context: Any) -> AsyncIterator[pb.Telemetry]:
        interval_s = request.interval_ns / 1e9
        while True:
            self._end_due()
            self.noted.messages += 1
            yield self._telemetry(request.interval_ns)
            self.changed.clear()
            try:
                async with asyncio.timeout(interval_s):
                    await self.changed.wait()
            except TimeoutError:
                continue

    def _end_due(self) -> None:
        now_s = time.monotonic()
        for running in [r for r in self.running.values() if r.until_s <= now_s]:
            del self.running[running.job_id]
            self.ended[running.job_id] = running.pid

    def _telemetry(self, interval_ns: int) -> pb.Telemetry:
        up_s = time.monotonic() - self.began_s
        power_uw = FLOOR_UW if not self.running else self.cap_uw
        zone = pb.ZonePower(
            name=ZONE,
            power_uw=power_uw,
            energy_uj=round(up_s * power_uw),
            cap_uw=self.cap_uw,
            valid=True,
        )
        jobs = [
            pb.JobUsage(
                job_id=job_id,
                cpus=f"0-{CORES - 1}",
                cpu_ns=round(up_s * 1e9),
                energy_uj=round(up_s * power_uw),
                threads=CORES,
                memory_bytes=1 << 30,
            )
            for job_id in self.running
        ]
        ended = [
            pb.ProcessInfo(job_id=job_id, pid=pid, state=pb.PROCESS_STATE_ENDED, cpus="0")
            for job_id, pid in self.ended.items()
        ]
        return pb.Telemetry(
            node_id=self.node_id,
            uptime_ns=round(up_s * 1e9),
            interval_ns=interval_ns,
            zones=[zone],
            jobs=jobs,
            ended=ended,
        )

    async def SetCaps(self, request: Any, context: Any) -> pb.SetCapsResponse:
        self.cap_uw = request.caps[0].cap_uw
        result = pb.CapResult(
            name=ZONE,
            requested_uw=self.cap_uw,
            enforced_uw=self.cap_uw,
            status=pb.CAP_STATUS_OK,
            settles_in_ns=WINDOW_NS,
        )
        return pb.SetCapsResponse(results=[result])

    async def SetMask(self, request: Any, context: Any) -> pb.SetMaskResponse:
        return pb.SetMaskResponse(cpus=request.cpus, shim=pb.SHIM_STATE_ABSENT)

    async def Launch(self, request: Any, context: Any) -> pb.LaunchResponse:
        self.noted.launches += 1
        self.pids += 1
        until_s = time.monotonic() + self.job_s * self.chance.uniform(0.5, 1.5)
        self.running[request.job_id] = _Running(request.job_id, self.pids, until_s)
        asyncio.get_running_loop().call_later(until_s - time.monotonic(), self.changed.set)
        return pb.LaunchResponse(pid=self.pids)

    async def Signal(self, request: Any, context: Any) -> pb.SignalResponse:
        running = self.running.get(request.job_id)
        if running is not None:
            running.until_s = 0.0
            self.changed.set()
        return pb.SignalResponse(found=running is not None)

    async def ForgetProcess(self, request: Any, context: Any) -> pb.ForgetProcessResponse:
        self.ended.pop(request.job_id, None)
        return pb.ForgetProcessResponse()

    async def RenewLease(self, request: Any, context: Any) -> pb.RenewLeaseResponse:
        if request.header.epoch < self.epoch:
            text = f"epoch {request.header.epoch} is older than epoch {self.epoch}"
            await context.abort(grpc.StatusCode.ABORTED, text)
        self.epoch = request.header.epoch
        self._note_gap()
        self.noted.renewals += 1
        self.renewed_s, self.lease_s = time.monotonic(), request.duration_ns / 1e9
        return pb.RenewLeaseResponse(
            remaining_ns=request.duration_ns, caps=[pb.ZoneCap(name=ZONE, cap_uw=self.cap_uw)]
        )

    def _note_gap(self) -> None:
        if self.renewed_s:
            gap_s = time.monotonic() - self.renewed_s
            self.noted.gap_s_max = max(self.noted.gap_s_max, gap_s)
            self.noted.lapsed += gap_s > self.lease_s

    def finish(self) -> None:
        """A lease that is over at the end has lapsed as well."""
        self._note_gap()


def address(folder: Path, number: int) -> str:
    """Address of the agent with this number."""
    return f"unix:{folder}/{number:05d}"


def name(number: int) -> str:
    """Name of the node with this number."""
    return f"n{number:05d}"


async def _serve(folder: Path, first: int, count: int, job_s: float) -> None:
    noted = Noted()
    agents, servers = [], []
    for number in range(first, first + count):
        agent = Agent(name(number), noted, job_s, random.Random(number))
        server = grpc.aio.server()
        node_agent_pb2_grpc.add_NodeAgentServicer_to_server(agent, server)
        server.add_insecure_port(address(folder, number))
        await server.start()
        agents.append(agent)
        servers.append(server)
    print("ready", flush=True)
    # Every line requests the notes since the previous line.
    while (await asyncio.to_thread(sys.stdin.readline)).strip():
        for agent in agents:
            agent.finish()
        print(json.dumps(asdict(noted)), flush=True)
        noted = Noted()
        for agent in agents:
            agent.noted = noted


def main() -> int:
    folder, first, count, job_s = sys.argv[1:]
    asyncio.run(_serve(Path(folder), int(first), int(count), float(job_s)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
