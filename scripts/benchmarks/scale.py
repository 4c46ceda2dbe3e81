#!/usr/bin/env python3
"""Whether leases are kept on a large machine while people look: a real coordinator process, 1,000
simulated agents over gRPC, 6,000 jobs, four `wattfold watch --json` at once.

The agents (`scale_agents`) keep leases as real ones do and say which ran out; the coordinator's log
says which nodes it called silent. Counted is from when all nodes are up. The delay of the loop that
renews leases is measured from outside, by a request that it answers itself. Agents and coordinator
share this machine; the watchers, who would sit elsewhere, run at the lowest priority.

    scripts/benchmarks/scale.py [--nodes 1000] [--jobs 6000] [--watchers 4] [--seconds 60] [--json]

Targets: no node called silent, no lease lapsed, no renewal later than twice when it is due, every
watcher served. Ends with 1 if one is missed. Figures depend on what else runs: the load is printed.
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
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import grpc.aio
from scale_agents import BASE_UW, CAP_UW_MAX, Noted, address, name

from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import coordinator_pb2_grpc

LEASE_S = 10.0
GAP_S_MAX = 2 * LEASE_S / 3
"""A lease is renewed every third of it."""
UP_S = 300.0
SUBMITTING = 16
PROBE_S = 0.1
BUDGET_SHARE = 0.9
JOB_S = 60.0
LOG_LINES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure, with its target; None for none."""

    what: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def held(self) -> bool:
        """Whether the target was met."""
        high = self.at_most is None or self.value <= self.at_most
        return high and (self.at_least is None or self.value >= self.at_least)


@dataclass(slots=True)
class Site:
    """What runs."""

    folder: Path
    coordinator: subprocess.Popen[bytes]
    agents: list[subprocess.Popen[str]]
    delays_s: list[float] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"unix:{self.folder}/api.sock"

    def log(self) -> list[str]:
        return (self.folder / "log").read_text(encoding="utf-8").splitlines()

    def noted(self) -> Noted:
        """What the agents have noted since the last call."""
        total = Noted()
        for process in self.agents:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("tell\n")
            process.stdin.flush()
            found = json.loads(process.stdout.readline())
            for key, value in found.items():
                both = getattr(total, key), value
                setattr(total, key, max(both) if key.endswith("_max") else sum(both))
        return total

    def cpu_s(self) -> float:
        text = Path(f"/proc/{self.coordinator.pid}/stat").read_text(encoding="ascii")
        ticks = text.rpartition(")")[2].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    arguments = _arguments()
    with (
        tempfile.TemporaryDirectory(prefix="wf-scale-") as folder,
        _site(Path(folder), arguments) as site,
    ):
        try:
            rows = asyncio.run(_measure(site, arguments))
        except grpc.aio.AioRpcError as error:
            print(*site.log()[-LOG_LINES:], sep="\n", file=sys.stderr)
            raise SystemExit(f"the coordinator failed: {error.details()}") from error
    if arguments.json:
        print(json.dumps([asdict(row) | {"held": row.held} for row in rows], indent=2))
    else:
        _print(rows, arguments)
    return 0 if all(row.held for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=6000)
    parser.add_argument("--watchers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60, help="of watching (default 60)")
    parser.add_argument("--agents", type=int, default=2, help="processes of agents (default 2)")
    parser.add_argument("--policy", default="fifo-easy")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


@contextlib.contextmanager
def _site(folder: Path, arguments: argparse.Namespace) -> Iterator[Site]:
    agents = list(_agents(folder, arguments))
    coordinator = None
    try:
        for process in agents:
            assert process.stdout is not None
            process.stdout.readline()
        coordinator = _coordinator(folder, arguments)
        yield Site(folder=folder, coordinator=coordinator, agents=agents)
    finally:
        for process in (coordinator, *agents):
            if process is not None:
                process.send_signal(signal.SIGTERM if process is coordinator else signal.SIGKILL)
        for process in (coordinator, *agents):
            if process is not None:
                process.wait(120)


def _agents(folder: Path, arguments: argparse.Namespace) -> Iterator[subprocess.Popen[str]]:
    script = str(Path(__file__).with_name("scale_agents.py"))
    bounds = [arguments.nodes * i // arguments.agents for i in range(arguments.agents + 1)]
    for first, last in itertools.pairwise(bounds):
        yield subprocess.Popen(
            [sys.executable, script, str(folder), str(first), str(last - first), str(JOB_S)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


def _coordinator(folder: Path, arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    budget_w = arguments.nodes * (BASE_UW + CAP_UW_MAX) * BUDGET_SHARE / 1e6
    config = folder / "coordinator.toml"
    lines = [
        f'listen = "unix:{folder}/api.sock"',
        f'state_dir = "{folder}/state"',
        f"budget_w = {budget_w}",
        f'policy = "{arguments.policy}"',
        f"lease_s = {LEASE_S}",
    ]
    for number in range(arguments.nodes):
        lines += ["[[node]]", f'id = "{name(number)}"', f'address = "{address(folder, number)}"']
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("wattfold-coordinator")), "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=(folder / "log").open("wb"),
    )
    assert process.stdout is not None
    select.select([process.stdout], [], [], UP_S)
    if not process.stdout.readline().startswith(b"ready"):
        raise SystemExit((folder / "log").read_text(encoding="utf-8"))
    return process


async def _measure(site: Site, arguments: argparse.Namespace) -> list[Row]:
    async with grpc.aio.insecure_channel(site.address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        up_s = await _all_up(stub, arguments.nodes)
        site.noted()
        silent = _silent(site)
        probing = asyncio.create_task(_probe(stub, site.delays_s))
        times_s = await _submit(stub, arguments.jobs)
        cpu_s, began_s = site.cpu_s(), time.monotonic()
        views = await asyncio.to_thread(_watch, site, arguments)
        busy = (site.cpu_s() - cpu_s) / (time.monotonic() - began_s)
        probing.cancel()
        await asyncio.gather(probing, return_exceptions=True)
        return _rows(site, views, times_s, up_s, busy, _silent(site) - silent)


async def _all_up(stub: Any, nodes: int) -> float:
    began_s = time.monotonic()
    while time.monotonic() < began_s + UP_S:
        answer = await stub.ListNodes(pb.ListNodesRequest(), timeout=60)
        if sum(node.state == pb.NODE_STATE_UP for node in answer.nodes) == nodes:
            return time.monotonic() - began_s
        await asyncio.sleep(1.0)
    raise SystemExit(f"not all nodes were up within {UP_S:.0f} s")


def _silent(site: Site) -> int:
    return sum("node_silent" in line for line in site.log())


async def _probe(stub: Any, delays_s: list[float]) -> None:
    """How long the loop takes to answer what it answers without any work."""
    request = pb.ListProfilesRequest(app="none")
    while True:
        began_s = time.monotonic()
        await stub.ListProfiles(request, timeout=60)
        delays_s.append(time.monotonic() - began_s)
        await asyncio.sleep(PROBE_S)


async def _submit(stub: Any, jobs: int) -> list[float]:
    """Hands jobs of one node in, some at a time; how long each took."""
    numbers = iter(range(jobs))
    times_s: list[float] = []

    async def some() -> None:
        for number in numbers:
            spec = pb.JobSpec(
                argv=["run", f"--part={number}"],
                env={f"VARIABLE_{i}": "x" * 60 for i in range(40)},
                unit=pb.SIZE_UNIT_NODES,
                size_min=1,
                size_max=1,
                time_ns=round(JOB_S * 1e9),
            )
            request = pb.SubmitRequest(spec=spec, idempotency_key=f"bench-{number}")
            began_s = time.monotonic()
            await stub.Submit(request, timeout=120)
            times_s.append(time.monotonic() - began_s)

    await asyncio.gather(*(some() for _ in range(SUBMITTING)))
    return times_s


def _watch(site: Site, arguments: argparse.Namespace) -> list[int]:
    """Runs the watchers; the pictures each has printed."""
    command = str(Path(sys.executable).with_name("wattfold"))
    watchers = [
        subprocess.Popen(
            ["nice", "-n", "19", command, "--coordinator", site.address, "--json", "watch"],
            stdout=subprocess.PIPE,
        )
        for _ in range(arguments.watchers)
    ]
    counts = [0] * len(watchers)
    threads = [
        threading.Thread(target=_count_lines, args=(process.stdout, counts, position))
        for position, process in enumerate(watchers)
    ]
    for thread in threads:
        thread.start()
    threading.Event().wait(arguments.seconds)
    for process in watchers:
        process.terminate()
    for process, thread in zip(watchers, threads, strict=True):
        process.wait(60)
        thread.join(60)
    return counts


def _count_lines(stream: IO[bytes], counts: list[int], position: int) -> None:
    while piece := stream.read1(1 << 20):  # type: ignore[attr-defined]
        counts[position] += piece.count(b"\n")


def _rows(
    site: Site,
    views: list[int],
    times_s: list[float],
    up_s: float,
    busy: float,
    silent: int,
) -> list[Row]:
    noted = site.noted()
    delays_s = sorted(site.delays_s)
    held_up = sum("own_lag" in line for line in site.log())
    return [
        Row(what="nodes called silent", value=silent, unit="", at_most=0),
        Row(what="leases lapsed", value=noted.lapsed, unit="", at_most=0),
        Row(what="longest gap of renewals", value=noted.gap_s_max, unit="s", at_most=GAP_S_MAX),
        Row(what="fewest pictures of a watcher", value=min(views, default=1), unit="", at_least=1),
        Row(what="pictures of all watchers", value=sum(views), unit=""),
        Row(what="delay of the loop, median", value=_ms(statistics.median(delays_s)), unit="ms"),
        Row(what="delay of the loop, 99 %", value=_ms(_at(delays_s, 0.99)), unit="ms"),
        Row(what="delay of the loop, longest", value=_ms(delays_s[-1]), unit="ms"),
        Row(what="times held up above 0.5 s", value=held_up, unit=""),
        Row(what="submission, median", value=_ms(statistics.median(times_s)), unit="ms"),
        Row(what="submission, longest", value=_ms(max(times_s)), unit="ms"),
        Row(what="all nodes up after", value=up_s, unit="s"),
        Row(what="coordinator while watched", value=100 * busy, unit="% of a core"),
        Row(what="renewals", value=noted.renewals, unit=""),
        Row(what="messages of agents", value=noted.messages, unit=""),
        Row(what="launches", value=noted.launches, unit=""),
    ]


def _ms(seconds: float) -> float:
    return seconds * 1e3


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def _print(rows: list[Row], arguments: argparse.Namespace) -> None:
    load = os.getloadavg()[0]
    print(
        f"{arguments.nodes} nodes, {arguments.jobs} jobs, {arguments.watchers} watchers, "
        f"{arguments.policy}; {os.cpu_count()} cpus, load {load:.1f}"
    )
    for row in rows:
        limit = f"at most {row.at_most:g}" if row.at_most is not None else ""
        limit = f"at least {row.at_least:g}" if row.at_least is not None else limit
        verdict = ("met" if row.held else "MISSED") if limit else ""
        print(f"{row.what:<32}{row.value:>12,.1f} {row.unit:<12}{limit:<16}{verdict}")


if __name__ == "__main__":
    raise SystemExit(main())
