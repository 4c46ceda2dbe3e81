"""Job starts a second, and the CPU time of each, on one emulated node. Part of `start.py`.

Two loads of `/bin/true` on one core each. *node*: this program launches jobs at an agent and
forgets them, as a coordinator does, and keeps all cores of the node in use. *site*: users submit
all jobs at once to a coordinator with this agent. CPU time includes the job itself. It is that
above an idle service, so that the emulated hardware is not charged to the jobs.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import psutil

from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.v1 import common_pb2 as common
from wattfold.v1 import coordinator_pb2, node_agent_pb2_grpc
from wattfold.v1 import node_agent_pb2 as pb

IDLE_S = 2.0
POLL_S = 0.1
JOB = "/bin/true"
NODE_CPU_MS_MAX = 10.0
STARTS_PER_S_MIN = 100.0
TELEMETRY_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRow:
    """One figure of the job starts; the median over the runs."""

    what: str
    value: float
    unit: str
    at_most: float = 0.0
    at_least: float = 0.0

    @property
    def held(self) -> bool:
        """Whether the target was met."""
        return (not self.at_most or self.value <= self.at_most) and self.value >= self.at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The processes of a site; the coordinator is 0 where there is none."""

    agent: int
    coordinator: int = 0

    def cpu_s(self) -> dict[str, float]:
        """CPU time so far: of the agent, of keepers and jobs, and of the coordinator."""
        agent = _own_s(psutil.Process(self.agent))
        found = {"agent": agent, "keepers and jobs": _tree_s(self.agent) - agent}
        if self.coordinator:
            found["coordinator"] = _tree_s(self.coordinator)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Time and CPU time of one load."""

    jobs: int
    elapsed_s: float
    cpu_ms: dict[str, float]
    """CPU time per start, by part."""


def _own_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _tree_s(pid: int) -> float:
    """CPU time of a process and all its descendants, also of those that have ended."""
    top = psutil.Process(pid)
    total = 0.0
    for process in (top, *top.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def rows_of(name: str, loads: Sequence[Load]) -> list[StartRow]:
    """The figures of one kind of load."""
    on_node = [load.cpu_ms["agent"] + load.cpu_ms["keepers and jobs"] for load in loads]
    rate = statistics.median(load.jobs / load.elapsed_s for load in loads)
    rows = [
        StartRow(
            what=f"{name}: CPU of a start, {part}",
            value=round(statistics.median(load.cpu_ms[part] for load in loads), 2),
            unit="ms",
        )
        for part in loads[0].cpu_ms
    ]
    total = round(statistics.median(on_node), 2)
    return [
        StartRow(
            what=f"{name}: starts", value=round(rate, 1), unit="/s", at_least=STARTS_PER_S_MIN
        ),
        StartRow(
            what=f"{name}: CPU of a start, node", value=total, unit="ms", at_most=NODE_CPU_MS_MAX
        ),
        *rows,
    ]


async def measure_node(address: str, services: Services, jobs: int, runs: int) -> list[StartRow]:
    """Launches jobs at an agent."""
    async with grpc.aio.insecure_channel(address) as channel:
        node = _Node(node_agent_pb2_grpc.NodeAgentStub(channel))
        await node.begin()
        loads = []
        for _ in range(runs + 1):
            idle = await _idle(services)
            before, began_s = services.cpu_s(), time.monotonic()
            await node.run(jobs)
            loads.append(_load(services, before, idle, jobs, time.monotonic() - began_s))
        await node.end()
    return rows_of("node", loads[1:])


class _Node:
    """Keeps every core of a node in use with jobs."""

    def __init__(self, stub: node_agent_pb2_grpc.NodeAgentStub) -> None:
        self._stub = stub
        self._numbers = itertools.count(1)
        self._ends: dict[str, asyncio.Future[int]] = {}
        self._cpus: list[int] = []
        self._reader: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        inventory = await self._stub.GetInventory(pb.GetInventoryRequest(), timeout=30)
        self._cpus = [place.cpu for place in inventory.topology]
        self._reader = asyncio.create_task(self._read())

    async def end(self) -> None:
        assert self._reader is not None
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def run(self, jobs: int) -> None:
        numbers = iter(range(jobs))

        async def work(cpu: int) -> None:
            for _ in numbers:
                await self._run_job(cpu)

        await asyncio.gather(*(work(cpu) for cpu in self._cpus))

    async def _run_job(self, cpu: int) -> None:
        job = f"s{next(self._numbers)}"
        ended = self._ends[job] = asyncio.get_running_loop().create_future()
        request = pb.LaunchRequest(
            header=self._header(job),
            job_id=job,
            argv=[JOB],
            env={"PATH": os.defpath},
            cwd="/",
            stdout_path=os.devnull,
            stderr_path=os.devnull,
            cpus=str(cpu),
            mode=common.RESIZE_MODE_MASK,
            launch_cpus=1,
            attempt=1,
        )
        await self._stub.Launch(request, timeout=30)
        if await ended:
            raise SystemExit(f"{JOB} ended with {ended.result()}")
        del self._ends[job]
        forget = pb.ForgetProcessRequest(header=self._header(f"{job}f"), job_id=job, attempt=1)
        await self._stub.ForgetProcess(forget, timeout=30)

    async def _read(self) -> None:
        stream = self._stub.StreamTelemetry(pb.StreamTelemetryRequest(interval_ns=TELEMETRY_NS))
        async for message in stream:
            for info in message.ended:
                ended = self._ends.get(info.job_id)
                if ended is not None and not ended.done():
                    ended.set_result(info.exit_code or info.state != pb.PROCESS_STATE_ENDED)

    def _header(self, name: str) -> common.CommandHeader:
        return common.CommandHeader(epoch=1, request_id=name, cause="bench")


async def measure_site(
    address: str, services: Services, folder: Path, jobs: int, runs: int
) -> list[StartRow]:
    """Submits jobs to a coordinator."""
    with CoordinatorClient(address) as client:
        loads = []
        for _ in range(runs + 1):
            idle = await _idle(services)
            before, began_s = services.cpu_s(), time.monotonic()
            for _ in range(jobs):
                spec = coordinator_pb2.JobSpec(
                    argv=[JOB],
                    cwd=str(folder),
                    stdout_path=os.devnull,
                    stderr_path=os.devnull,
                    unit=coordinator_pb2.SIZE_UNIT_CORES,
                    size_min=1,
                    size_max=1,
                )
                client.submit(coordinator_pb2.SubmitRequest(spec=spec))
            await _all_ended(client)
            loads.append(_load(services, before, idle, jobs, time.monotonic() - began_s))
    return rows_of("site", loads[1:])


async def _all_ended(client: CoordinatorClient) -> None:
    """Waits until no job waits or runs."""
    while client.list_jobs(limit=1).total:
        await asyncio.sleep(POLL_S)


async def _idle(services: Services) -> dict[str, float]:
    """CPU time a second of each part without a job."""
    before, began_s = services.cpu_s(), time.monotonic()
    await asyncio.sleep(IDLE_S)
    elapsed_s = time.monotonic() - began_s
    return {part: (used - before[part]) / elapsed_s for part, used in services.cpu_s().items()}


def _load(
    services: Services,
    before: dict[str, float],
    idle: dict[str, float],
    jobs: int,
    elapsed_s: float,
) -> Load:
    cpu_ms = {
        part: max(0.0, used - before[part] - idle[part] * elapsed_s) / jobs * 1e3
        for part, used in services.cpu_s().items()
    }
    return Load(jobs=jobs, elapsed_s=elapsed_s, cpu_ms=cpu_ms)
