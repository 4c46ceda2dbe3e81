#!/usr/bin/env python3
"""Measure the cost of an agent and its delay in setting caps, on a real agent process.

The benchmark uses two zone trees. *files* has plain files of four packages with DRAM: the adapter
and the service alone. *emulated* is the agent's own emulated hardware, whose firmware runs inside
the agent. *Idle* means as in service: sampling at 2 Hz, a renewed lease, telemetry at 1 Hz, no
job. CPU time is the scheduler's own count of all threads. A cap counts as applied when the agent
has written it and read it back. The averaging window of the hardware is not included.

    scripts/benchmarks/agent.py [--idle 20] [--changes 5000] [--json]

Exits with status 1 if a target is missed. Values depend on other load, which is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import grpc

from wattfold.v1 import common_pb2 as common
from wattfold.v1 import node_agent_pb2 as pb
from wattfold.v1 import node_agent_pb2_grpc

IDLE_PERCENT_MAX = 0.5
IDLE_MB_MAX = 60.0
CHANGES_PER_S_MIN = 1000.0
CONFIRMED_MS_P50_MAX = 5.0
IN_FLIGHT = 16
LEASE_NS = 60_000_000_000
CAPS_UW = (60_000_000, 80_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured value with its target; 0 = no target."""

    tree: str
    what: str
    value: float
    unit: str
    at_most: float = 0
    at_least: float = 0

    @property
    def held(self) -> bool:
        """Whether the target was met."""
        return (not self.at_most or self.value < self.at_most) and self.value >= self.at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A running agent."""

    tree: str
    pid: int
    address: str


def main() -> int:
    arguments = _arguments()
    rows: list[Row] = []
    for tree in ("files", "emulated"):
        with _agent(tree) as running:
            rows += asyncio.run(_measure(running, arguments))
    if arguments.json:
        print(json.dumps([asdict(row) | {"held": row.held} for row in rows], indent=2))
    else:
        _print(rows)
    return 0 if all(row.held for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--idle", type=float, default=20, help="seconds of idling (default 20)")
    parser.add_argument("--changes", type=int, default=5000, help="cap changes (default 5000)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


@contextlib.contextmanager
def _agent(tree: str) -> Iterator[Running]:
    # Zones and sockets are never on a disk, whose file system slows down replacing a number.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="wattfold-bench-", dir=memory) as folder:
        root = Path(folder)
        flags = ["--emulate"]
        if tree == "files":
            flags = ["--powercap-root", str(_files(root / "powercap"))]
        command = [sys.executable, "-m", "wattfold.nodeagent.app", "--node-id", "bench"]
        command += ["--state-dir", f"{root}/state", "--run-dir", f"{root}/run"]
        command += ["--masks", "affinity", *flags]
        with open(root / "log", "wb") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            select.select([process.stdout], [], [], 60)
            line = process.stdout.readline()
            if "listen=" not in line:
                raise SystemExit((root / "log").read_text(encoding="utf-8"))
            address = line.split("listen=")[1].strip()
            yield Running(tree=tree, pid=process.pid, address=address)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _files(root: Path) -> Path:
    """Files of four packages of a Xeon Platinum 8260 with DRAM, as the kernel shows them."""
    for package in range(4):
        zone = root / f"intel-rapl:{package}"
        _zone(zone, f"package-{package}", 165_000_000, 262_143_328_850)
        _zone(zone / f"intel-rapl:{package}:0", "dram", 47_250_000, 65_712_999_613)
    return root


def _zone(path: Path, name: str, limit_uw: int, range_uj: int) -> None:
    path.mkdir(parents=True)
    values = {
        "name": name,
        "enabled": 1,
        "energy_uj": 1_000_000,
        "max_energy_range_uj": range_uj,
        "constraint_0_name": "long_term",
        "constraint_0_power_limit_uw": limit_uw,
        "constraint_0_max_power_uw": limit_uw,
        "constraint_0_time_window_us": 999_424,
    }
    if name != "dram":
        values |= {
            "constraint_1_name": "short_term",
            "constraint_1_power_limit_uw": limit_uw * 6 // 5,
            "constraint_1_max_power_uw": limit_uw * 5 // 2,
            "constraint_1_time_window_us": 976,
        }
    for file, value in values.items():
        (path / file).write_text(f"{value}\n", encoding="ascii")


class _Client:
    """Commands of one coordinator, each with its own id."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.stub = node_agent_pb2_grpc.NodeAgentStub(channel)
        self._numbers = itertools.count()

    def _header(self) -> common.CommandHeader:
        return common.CommandHeader(epoch=1, request_id=f"b{next(self._numbers)}", cause="bench")

    async def renew(self) -> None:
        request = pb.RenewLeaseRequest(header=self._header(), duration_ns=LEASE_NS)
        await self.stub.RenewLease(request, timeout=30)

    async def change(self, zones: list[str], cap_uw: int) -> None:
        """Set caps. Raises an error unless all are enforced as requested."""
        caps = [pb.ZoneCap(name=name, cap_uw=cap_uw) for name in zones]
        request = pb.SetCapsRequest(header=self._header(), caps=caps)
        answer = await self.stub.SetCaps(request, timeout=30)
        for result in answer.results:
            if result.status != pb.CAP_STATUS_OK or result.enforced_uw != cap_uw:
                raise SystemExit(f"a cap was not taken: {result}")


async def _measure(running: Running, arguments: argparse.Namespace) -> list[Row]:
    async with grpc.aio.insecure_channel(running.address) as channel:
        client = _Client(channel)
        await client.renew()
        inventory = await client.stub.GetInventory(pb.GetInventoryRequest(), timeout=30)
        packages = [z.name for z in inventory.zones if z.kind == pb.ZONE_KIND_PACKAGE]
        rows = await _idle(running, client, arguments.idle)
        rows += await _latency(running, client, packages, arguments.changes // 5)
        return rows + await _throughput(running, client, packages, arguments.changes)


async def _idle(running: Running, client: _Client, seconds: float) -> list[Row]:
    async def renew_for_ever() -> None:
        while True:
            await client.renew()
            await asyncio.sleep(3)

    stream = client.stub.StreamTelemetry(pb.StreamTelemetryRequest(interval_ns=1_000_000_000))
    renewing = asyncio.create_task(renew_for_ever())
    await stream.read()
    cpu_ns, began_ns = _cpu_ns(running.pid), time.monotonic_ns()
    messages = 0
    while time.monotonic_ns() - began_ns < seconds * 1e9:
        await stream.read()
        messages += 1
    elapsed_ns = time.monotonic_ns() - began_ns
    percent = (_cpu_ns(running.pid) - cpu_ns) / elapsed_ns * 100
    renewing.cancel()
    stream.cancel()
    memory = _memory_mb(running.pid)
    # The emulated hardware is not part of an agent in service.
    busy_most = IDLE_PERCENT_MAX if running.tree == "files" else 0
    guard = sum(_memory_mb(child) for child in _children(running.pid))
    return [
        _row(running, "idle, CPU", percent, "% of a core", at_most=busy_most),
        _row(running, "idle, memory", memory, "MB", at_most=IDLE_MB_MAX),
        _row(running, "idle, memory of its guard", guard, "MB"),
        _row(running, "telemetry messages", messages / elapsed_ns * 1e9, "/s"),
    ]


async def _latency(
    running: Running, client: _Client, packages: list[str], changes: int
) -> list[Row]:
    rows = []
    for what, zones in (("one cap", packages[:1]), ("all packages", packages)):
        times_ms = []
        for number in range(changes):
            began_ns = time.perf_counter_ns()
            await client.change(zones, CAPS_UW[number % 2])
            times_ms.append((time.perf_counter_ns() - began_ns) / 1e6)
        p50, p99 = statistics.median(times_ms), statistics.quantiles(times_ms, n=100)[98]
        name = f"{what} confirmed"
        rows.append(_row(running, f"{name}, p50", p50, "ms", at_most=CONFIRMED_MS_P50_MAX))
        rows.append(_row(running, f"{name}, p99", p99, "ms"))
    return rows


async def _throughput(
    running: Running, client: _Client, packages: list[str], changes: int
) -> list[Row]:
    numbers = iter(range(changes))

    async def work() -> None:
        for number in numbers:
            await client.change([packages[number % len(packages)]], CAPS_UW[number // 8 % 2])

    cpu_ns, began_ns = _cpu_ns(running.pid), time.perf_counter_ns()
    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    rate = changes / (time.perf_counter_ns() - began_ns) * 1e9
    cost_us = (_cpu_ns(running.pid) - cpu_ns) / changes / 1e3
    return [
        _row(running, "changes accepted", rate, "/s", at_least=CHANGES_PER_S_MIN),
        _row(running, "CPU time of a change", cost_us, "us"),
    ]


def _row(running: Running, what: str, value: float, unit: str, **target: float) -> Row:
    return Row(tree=running.tree, what=what, value=round(value, 3), unit=unit, **target)


def _cpu_ns(pid: int) -> int:
    """CPU time of all threads, nanoseconds."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text(encoding="ascii").split()[0]) for file in files)


def _memory_mb(pid: int) -> float:
    """Resident memory, 10^6 bytes."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(text.split("VmRSS:")[1].split()[0]) * 1024 / 1e6


def _children(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(text) for file in files for text in file.read_text(encoding="ascii").split()]


def _print(rows: list[Row]) -> None:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{os.cpu_count()} CPUs, load {load}")
    for row in rows:
        target = f"< {row.at_most:g}" if row.at_most else ""
        target = f">= {row.at_least:g}" if row.at_least else target
        verdict = ("ok" if row.held else "MISSED") if target else ""
        value = f"{row.value:10.2f} {row.unit}"
        print(f"{row.tree:<10}{row.what:<32}{value:<26}{target:<10}{verdict}".rstrip())


if __name__ == "__main__":
    sys.exit(main())
