"""Measure the time of a resize, from the coordinator's command to its confirmation. Not a test.

A real agent with an emulated zone (uncapped) runs a real program in team mode, whose parallel
regions take about 1 ms. The coordinator's own adapter sends it masks of one and two cores in turn.
The measured time starts when the adapter receives the action SetMask and ends with its event
MaskConfirmed. It includes the call over the socket, the agent's checks, the cpuset and the message
to the shim. It also includes the end of the current region, the acknowledgement and the answer. The
benchmark also shows the agent's own wait for the shim. The decision before and the journal (one
synchronised write after) are not included.

The program has the machine's first two cores, which other processes share if there are no more.
Values depend on the machine and its other load, so the load is printed with them.

    scripts/build_shims && python scripts/benchmarks/resize.py [--changes 1000] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import random
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import Epoch, JobId, NodeId, ZoneName
from wattfold.coordinator.adapters.agents.calls import AgentSettings, Hooks
from wattfold.coordinator.adapters.agents.link import AgentLink, Contacts
from wattfold.coordinator.adapters.agents.own_lag import OwnLag
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.adapters.learning.observations import NodeSample
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec, ResizeMode
from wattfold.shims.locate import find_omp_shim

ROOT = Path(__file__).resolve().parents[2]
NODE, JOB = NodeId("bench"), JobId("1")
TARGET_P50_MS = 10.0
DEADLINE_S = 30.0
REGIONS_BETWEEN = 10
"""Regions of 1 ms between two changes on average, so that each change meets a running team."""
CONFIG = """node_id = "bench"
listen = "unix:{home}/a.sock"
state_dir = "{home}/state"
run_dir = "{home}/run"
cpus = "{cpus}"
kill_jobs_on_exit = true
omp_shim = "{shim}"
emulate = true
[emulation]
cpu_share = 1.0
"""


class BenchmarkError(Exception):
    """The measurement cannot be made; the message says why."""


@dataclass(slots=True)
class News:
    """Events posted by the adapter, in order, and the newest telemetry."""

    events: asyncio.Queue[ev.Event] = field(default_factory=asyncio.Queue)
    sample: NodeSample | None = None
    sampled: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, sample: NodeSample) -> None:
        self.sample = sample
        self.sampled.set()

    async def wait(self, kind: type[ev.Event]) -> ev.Event:
        """Return the next event of a kind.

        Earlier events are dropped; failures end the measurement.
        """
        async with asyncio.timeout(DEADLINE_S):
            while True:
                event = await self.events.get()
                if isinstance(event, kind):
                    return event
                if isinstance(
                    event, reports.LaunchFailed | reports.MaskFailed | reports.ProcessEnded
                ):
                    raise BenchmarkError(f"unexpected: {event}")

    async def team(self, size: int) -> None:
        """Wait until the shim has reported a team of this size."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                job = self.sample.jobs.get(JOB) if self.sample else None
                if job is not None and job.regions > 0 and job.team_size == size:
                    return
                self.sampled.clear()
                await self.sampled.wait()


@contextlib.asynccontextmanager
async def started_agent(home: Path, cpus: CpuSet, shim: Path) -> AsyncIterator[Path]:
    """Start an agent process with a log."""
    (home / "agent.toml").write_text(CONFIG.format(home=home, cpus=cpus, shim=shim))
    command = Path(sys.executable).with_name("wattfold-agent")
    log = home / "agent.log"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            command, "--config", home / "agent.toml", stdout=asyncio.subprocess.PIPE, stderr=errors
        )
    try:
        assert process.stdout is not None
        ready = await asyncio.wait_for(process.stdout.readline(), DEADLINE_S)
        if not ready.startswith(b"ready"):
            raise BenchmarkError(f"the agent did not start:\n{log.read_text()}")
        yield log
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


@contextlib.asynccontextmanager
async def contact(address: str, news: News) -> AsyncIterator[AgentLink]:
    """The coordinator's adapter, in contact with the agent."""

    def fenced(error: Exception) -> None:
        raise BenchmarkError(str(error))

    hooks = Hooks(
        coordinator_id="benchmark",
        post=news.events.put_nowait,
        sampled=news.take,
        heard=lambda *_: None,
        gone=lambda _: None,
        epoch=lambda: Epoch(1),
        fenced=fenced,
        step_key=lambda _: b"",
        launch_data=lambda _: LaunchData(),
    )
    settings = AgentSettings(telemetry_interval_s=0.2)
    clock = Clock()
    link = AgentLink(NODE, address, "", hooks, settings, clock, OwnLag(clock.now_ns), Contacts())
    running = asyncio.create_task(link.run())
    try:
        yield link
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await link.close()


async def uncap(link: AgentLink, news: News) -> None:
    """Take a lease for the whole measurement and set all caps to their maximum."""
    connected = await news.wait(reports.NodeConnected)
    assert isinstance(connected, reports.NodeConnected)
    caps = tuple((ZoneName(z.name), z.cap_uw_max) for z in connected.spec.zones if z.can_cap)
    hour_ns = 3_600_000_000_000
    link.commands.perform(
        act.RenewLease(node_id=NODE, duration_ns=hour_ns, request_id="lease", cause="b")
    )
    await news.wait(reports.LeaseRenewed)
    link.commands.perform(act.SetCaps(node_id=NODE, caps=caps, request_id="caps", cause="b"))
    await news.wait(reports.CapsAnswered)


async def launch(link: AgentLink, news: News, program: Path, cpus: CpuSet, home: Path) -> None:
    """Start the program on all cores and wait until its shim reports its team."""
    spec = JobSpec(
        name="compute",
        app="compute",
        argv=(str(program), "1000000000"),
        cwd=str(home),
        kind=JobKind.MALLEABLE,
        size_min=1,
        size_max=len(cpus),
        mode=ResizeMode.TEAM,
    )
    link.commands.perform(
        act.Launch(
            node_id=NODE,
            job_id=JOB,
            spec=spec,
            cpus=cpus,
            launch_cpus=len(cpus),
            rank=0,
            ranks=1,
            request_id="launch",
            cause="b",
        )
    )
    await news.wait(reports.JobLaunched)
    await news.team(len(cpus))


async def change(link: AgentLink, news: News, number: int, cpus: CpuSet) -> float:
    """Make one change and return its milliseconds. Raises BenchmarkError if the shim was late."""
    action = act.SetMask(
        node_id=NODE, job_id=JOB, cpus=cpus, request_id=f"mask-{number}", cause="b"
    )
    start_ns = time.perf_counter_ns()
    link.commands.perform(action)
    confirmed = await news.wait(reports.MaskConfirmed)
    taken_ms = (time.perf_counter_ns() - start_ns) / 1e6
    assert isinstance(confirmed, reports.MaskConfirmed)
    if confirmed.confined or confirmed.cpus != cpus:
        raise BenchmarkError(f"change {number} to {cpus}: {confirmed}")
    return taken_ms


async def measure(changes: int, seed: int) -> dict[str, list[float]]:
    """Milliseconds by direction: the whole change, and the agent's wait for the shim."""
    shim, program = find_omp_shim(), ROOT / "build/shims/examples/compute"
    if shim is None or not program.exists():
        raise BenchmarkError("no shim or program found; run scripts/build_shims first")
    cpus = CpuSet.of(sorted(os.sched_getaffinity(0))[:2])
    if len(cpus) < 2:
        raise BenchmarkError("two cores are needed")
    one = CpuSet.of(list(cpus)[:1])
    chance = random.Random(seed)
    taken: dict[str, list[float]] = {"shrink": [], "grow": []}
    with tempfile.TemporaryDirectory(prefix="wf-") as name:
        home, news = Path(name), News()
        async with (
            started_agent(home, cpus, shim) as log,
            contact(f"unix:{home}/a.sock", news) as link,
        ):
            await uncap(link, news)
            await launch(link, news, program, cpus, home)
            for number in range(changes):
                shrink = number % 2 == 0
                taken_ms = await change(link, news, number, one if shrink else cpus)
                taken["shrink" if shrink else "grow"].append(taken_ms)
                # A pause that is out of step with the regions and with the agent's own timers.
                await asyncio.sleep(chance.uniform(0, 2 * REGIONS_BETWEEN) / 1000)
        shim_ms = [int(ns) / 1e6 for ns in re.findall(r" shim_ns=(\d+)", log.read_text())]
    if len(shim_ms) != changes:
        raise BenchmarkError(f"the agent logged {len(shim_ms)} of {changes} changes")
    return taken | {"agent to shim, shrink": shim_ms[::2], "agent to shim, grow": shim_ms[1::2]}


def figures(values: list[float]) -> dict[str, float]:
    """Percentiles by nearest rank, milliseconds."""
    ordered = sorted(values)

    def at(percent: int) -> float:
        return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)]

    return {
        "count": len(ordered),
        "p50_ms": at(50),
        "p90_ms": at(90),
        "p99_ms": at(99),
        "max_ms": ordered[-1],
    }


def show(rows: dict[str, dict[str, float]], machine: dict[str, object]) -> bool:
    """Print the table and return whether the target is met."""
    print(f"{machine['cpus']} cores, load before {machine['load_before']}, {machine['kernel']}")
    print(f"{'change of mask':<24}{'count':>7}{'p50 ms':>9}{'p90 ms':>9}{'p99 ms':>9}{'max ms':>9}")
    for name, row in rows.items():
        cells = "".join(f"{row[k]:9.2f}" for k in ("p50_ms", "p90_ms", "p99_ms", "max_ms"))
        print(f"{name:<24}{row['count']:>7}{cells}")
    worst = max(rows[way]["p50_ms"] for way in ("shrink", "grow"))
    met = worst < TARGET_P50_MS
    verdict = "met" if met else "NOT met"
    print(f"target: p50 below {TARGET_P50_MS:g} ms both ways: {verdict} ({worst:.2f} ms)")
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--changes", type=int, default=1000, help="changes in all (default 1000)")
    parser.add_argument("--seed", type=int, default=1, help="of the pauses between changes")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    machine: dict[str, object] = {
        "cpus": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "kernel": f"{platform.system()} {platform.release()}",
    }
    try:
        taken = asyncio.run(measure(max(options.changes, 2), options.seed))
    except (BenchmarkError, TimeoutError, OSError) as error:
        parser.exit(1, f"resize: {error or 'no answer in time'}\n")
    rows = {name: figures(values) for name, values in taken.items()}
    met = show(rows, machine)
    if options.json is not None:
        report = {"machine": machine, "target_p50_ms": TARGET_P50_MS, "changes": rows}
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
