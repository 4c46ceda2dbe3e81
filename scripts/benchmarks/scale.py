#!/usr/bin/env python3
"""Check that leases are kept on a large machine during queries, a reload and a restart.

A real coordinator process serves 1,000 simulated agents over gRPC, 6,000 jobs, and four processes
of `wattfold watch --json`. The agents (`scale_agents`) keep leases as real agents do and report
lapsed leases; the coordinator's log names silent nodes. Both are counted from the start of the
coordinator on. The delay of the loop that renews leases is measured from outside, by requests that
the loop answers itself. A request is sent every 0.1 s, whether or not the previous request has been
answered, so that a stall delays all requests due in it. CPU time is that of the coordinator and its
child processes. Agents and coordinator share this machine. The watchers, which would run elsewhere,
have the lowest priority.

Then the coordinator reads its configuration again, unchanged and with a change. It is killed (kill
-9) and started again, while other processes keep cores busy (`--load`).

    scripts/benchmarks/scale.py [--nodes 1000] [--jobs 6000] [--watchers 4] [--seconds 60]
                                [--load 2] [--json]

Targets: no silent node, no lapsed lease, no renewal later than twice its due time (over the
restart: before the lease ends), every watcher served. Exits with status 1 if a target is missed.
Values depend on other load on the machine, so the load is printed.
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
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import grpc.aio
import psutil
from scale_agents import BASE_UW, CAP_UW_MAX, Noted, address, name

from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import coordinator_pb2_grpc

LEASE_S = 10.0
GAP_S_MAX = 2 * LEASE_S / 3
"""A lease is renewed after every third of it."""
UP_S = 300.0
SUBMITTING = 16
PROBE_S = 0.1
BUDGET_SHARE = 0.9
CONFIG = "coordinator.toml"
QUIET_S = 2 * LEASE_S
"""After a reload and a restart: a lease without a renewal has lapsed by then."""
JOB_S = 60.0
LOG_LINES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured value with its target; None = no target."""

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
    """The running processes and their state."""

    folder: Path
    coordinator: subprocess.Popen[bytes]
    agents: list[subprocess.Popen[str]]
    delays_s: list[float] = field(default_factory=list)
    silent_seen: int = 0
    """Log lines about silent nodes that were counted already."""

    @property
    def address(self) -> str:
        return f"unix:{self.folder}/api.sock"

    def log(self) -> list[str]:
        return (self.folder / "log").read_text(encoding="utf-8").splitlines()

    def noted(self) -> Noted:
        """Notes of the agents since the last call."""
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
        """CPU time of the coordinator and its children, including ended children."""
        main = psutil.Process(self.coordinator.pid)
        total_s = 0.0
        for process in (main, *main.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total_s += times.user + times.system
                total_s += times.children_user + times.children_system
        return total_s

    def newly_silent(self) -> int:
        """Number of nodes reported as silent since the last call."""
        found = sum("event=node_silent" in line for line in self.log())
        self.silent_seen, before = found, self.silent_seen
        return found - before


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
    load = "busy processes during reload and restart (default 2)"
    parser.add_argument("--load", type=int, default=2, help=load)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


@contextlib.contextmanager
def _site(folder: Path, arguments: argparse.Namespace) -> Iterator[Site]:
    agents = list(_agents(folder, arguments))
    site = None
    try:
        for process in agents:
            assert process.stdout is not None
            process.stdout.readline()
        _configure(folder, arguments, {})
        site = Site(folder=folder, coordinator=_coordinator(folder), agents=agents)
        yield site
    finally:
        if site is not None:
            site.coordinator.terminate()
        for process in agents:
            process.kill()
            process.wait()
        if site is not None:
            site.coordinator.wait(120)


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


def _configure(folder: Path, arguments: argparse.Namespace, features: dict[str, str]) -> None:
    """Write the configuration. ``features``: features of nodes, by node name."""
    budget_w = arguments.nodes * (BASE_UW + CAP_UW_MAX) * BUDGET_SHARE / 1e6
    lines = [
        f'listen = "unix:{folder}/api.sock"',
        f'state_dir = "{folder}/state"',
        f"budget_w = {budget_w}",
        f'policy = "{arguments.policy}"',
        f"lease_s = {LEASE_S}",
    ]
    for number in range(arguments.nodes):
        node = name(number)
        lines += ["[[node]]", f'id = "{node}"', f'address = "{address(folder, number)}"']
        lines += [f'features = ["{features[node]}"]'] if node in features else []
    (folder / CONFIG).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _coordinator(folder: Path) -> subprocess.Popen[bytes]:
    command = str(Path(sys.executable).with_name("wattfold-coordinator"))
    process = subprocess.Popen(
        [command, "--config", str(folder / CONFIG)],
        stdout=subprocess.PIPE,
        stderr=(folder / "log").open("ab"),
    )
    assert process.stdout is not None
    select.select([process.stdout], [], [], UP_S)
    if not process.stdout.readline().startswith(b"ready"):
        raise SystemExit((folder / "log").read_text(encoding="utf-8"))
    return process


async def _measure(site: Site, arguments: argparse.Namespace) -> list[Row]:
    rows = await _watched(site, arguments)
    with _busy(arguments.load):
        rows += await _reloaded(site, arguments)
        rows += await _restarted(site, arguments)
    return rows


async def _watched(site: Site, arguments: argparse.Namespace) -> list[Row]:
    """From the start on: contact, submissions, watchers."""
    async with _probing(site) as stub:
        up_s = await _all_up(stub, arguments.nodes)
        times_s = await _submit(stub, arguments.jobs)
        cpu_s, began_s = site.cpu_s(), time.monotonic()
        views = await asyncio.to_thread(_watch, site, arguments)
        busy = (site.cpu_s() - cpu_s) / (time.monotonic() - began_s)
    noted = site.noted()
    held_up = sum("own_lag" in line for line in site.log())
    return [
        *_lease_rows(site, noted, "", GAP_S_MAX),
        Row(what="fewest pictures of a watcher", value=min(views, default=1), unit="", at_least=1),
        Row(what="pictures of all watchers", value=sum(views), unit=""),
        *_delay_rows(site, ""),
        Row(what="times held up above 0.5 s", value=held_up, unit=""),
        Row(what="submission, median", value=_ms(statistics.median(times_s)), unit="ms"),
        Row(what="submission, longest", value=_ms(max(times_s)), unit="ms"),
        Row(what="all nodes up after", value=up_s, unit="s"),
        Row(what="all processes while watched", value=100 * busy, unit="% of a core"),
        Row(what="renewals", value=noted.renewals, unit=""),
        Row(what="messages of agents", value=noted.messages, unit=""),
        Row(what="launches", value=noted.launches, unit=""),
    ]


async def _reloaded(site: Site, arguments: argparse.Namespace) -> list[Row]:
    """The configuration is read again: unchanged, then with another feature of a node."""
    rows: list[Row] = []
    changed: dict[str, str] = {name(0): "fast"}
    for what, features in (("reload", {}), ("reload, changed", changed)):
        _configure(site.folder, arguments, features)
        async with _probing(site):
            lines = _reloads(site)
            cpu_s = site.cpu_s()
            site.coordinator.send_signal(signal.SIGHUP)
            while _reloads(site) == lines:
                await asyncio.sleep(PROBE_S)
            await asyncio.sleep(QUIET_S)
            cpu_s = site.cpu_s() - cpu_s
        rows += _lease_rows(site, site.noted(), what, GAP_S_MAX)
        rows += _delay_rows(site, what)
        rows.append(Row(what=f"{what}: CPU, {QUIET_S:.0f} s", value=cpu_s, unit="s"))
    return rows


def _reloads(site: Site) -> int:
    return sum("event=reloaded" in line for line in site.log())


async def _restarted(site: Site, arguments: argparse.Namespace) -> list[Row]:
    """The coordinator is killed and started again at once."""
    began_s = time.monotonic()
    site.coordinator.kill()
    site.coordinator.wait()
    site.coordinator = await asyncio.to_thread(_coordinator, site.folder)
    ready_s = time.monotonic() - began_s
    async with _probing(site) as stub:
        await _all_up(stub, arguments.nodes)
        up_s = time.monotonic() - began_s
        await asyncio.sleep(QUIET_S)
    return [
        *_lease_rows(site, site.noted(), "restart", LEASE_S),
        *_delay_rows(site, "restart"),
        Row(what="restart: ready after", value=ready_s, unit="s"),
        Row(what="restart: all nodes up after", value=up_s, unit="s"),
    ]


@contextlib.contextmanager
def _busy(processes: int) -> Iterator[None]:
    """Processes that each keep a core busy."""
    started = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)
    ]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


@contextlib.asynccontextmanager
async def _probing(site: Site) -> AsyncIterator[Any]:
    """A stub of the coordinator, whose loop is probed in the background."""
    site.delays_s.clear()
    async with grpc.aio.insecure_channel(site.address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        probing = asyncio.create_task(_probe(stub, site.delays_s))
        try:
            yield stub
            if probing.done():
                await probing  # A refused probe fails the benchmark, with its reason.
        finally:
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)


async def _all_up(stub: Any, nodes: int) -> float:
    began_s = time.monotonic()
    while time.monotonic() < began_s + UP_S:
        answer = await stub.ListNodes(pb.ListNodesRequest(), timeout=60)
        if sum(node.state == pb.NODE_STATE_UP for node in answer.nodes) == nodes:
            return time.monotonic() - began_s
        await asyncio.sleep(1.0)
    raise SystemExit(f"not all nodes were up within {UP_S:.0f} s")


async def _probe(stub: Any, delays_s: list[float]) -> None:
    """Measure the delay of the loop for requests that need no work.

    A delay counts from the due time of a request, so delays of this process are included.
    """
    request = pb.ListProfilesRequest(app="none")

    async def ask(due_s: float) -> None:
        try:
            await stub.ListProfiles(request, timeout=60)
        finally:
            delays_s.append(time.monotonic() - due_s)  # At the end: of unanswered requests, too.

    async with asyncio.TaskGroup() as asking:
        due_s = time.monotonic()
        while True:
            asking.create_task(ask(due_s))
            due_s += PROBE_S
            await asyncio.sleep(max(due_s - time.monotonic(), 0))


async def _submit(stub: Any, jobs: int) -> list[float]:
    """Submit jobs of one node, several at a time. Return the time of each submission."""
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
    """Run the watchers. Return the number of views that each has printed."""
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


def _lease_rows(site: Site, noted: Noted, what: str, gap_s_max: float) -> list[Row]:
    """``what`` names the part of the run, empty = the first."""
    part = f"{what}: " if what else ""
    silent, gap_s = site.newly_silent(), noted.gap_s_max
    return [
        Row(what=f"{part}nodes called silent", value=silent, unit="", at_most=0),
        Row(what=f"{part}leases lapsed", value=noted.lapsed, unit="", at_most=0),
        Row(what=f"{part}longest gap of renewals", value=gap_s, unit="s", at_most=gap_s_max),
    ]


def _delay_rows(site: Site, what: str) -> list[Row]:
    part = f"{what}: " if what else ""
    delays_s = sorted(site.delays_s)
    return [
        Row(what=f"{part}loop delay, median", value=_ms(statistics.median(delays_s)), unit="ms"),
        Row(what=f"{part}loop delay, 99 %", value=_ms(_at(delays_s, 0.99)), unit="ms"),
        Row(what=f"{part}loop delay, longest", value=_ms(delays_s[-1]), unit="ms"),
    ]


def _ms(seconds: float) -> float:
    return seconds * 1e3


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def _print(rows: list[Row], arguments: argparse.Namespace) -> None:
    load = os.getloadavg()[0]
    print(
        f"{arguments.nodes} nodes, {arguments.jobs} jobs, {arguments.watchers} watchers, "
        f"{arguments.policy}; {os.cpu_count()} cpus, load {load:.1f}, "
        f"{arguments.load} busy processes during reload and restart"
    )
    for row in rows:
        limit = f"at most {row.at_most:g}" if row.at_most is not None else ""
        limit = f"at least {row.at_least:g}" if row.at_least is not None else limit
        verdict = ("met" if row.held else "MISSED") if limit else ""
        print(f"{row.what:<42}{row.value:>12,.1f} {row.unit:<12}{limit:<16}{verdict}")


if __name__ == "__main__":
    raise SystemExit(main())
