#!/usr/bin/env python3
"""Start times of the commands, as multiples of the start of Python, and job starts a second.

Runs `python -c pass` and each command in turns, so that all of them see the same load, and prints
the median times and the ratio of each command to Python. `wattfold queue` asks a coordinator that
this program starts, and a second coordinator with 2,000 held jobs whose names do not fit the width
of the table. The wall time of the coordinator and the agent ends when they print `ready`.
Their CPU time includes their helper processes and their shutdown.

Then it starts jobs of one emulated node, at its agent and through a coordinator: `start_jobs.py`.

    scripts/benchmarks/start.py [--runs 15] [--jobs 200] [--json]

Ends with 1 if `wattfold --help`, `wattfold queue` or the job starts miss their targets.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from start_jobs import Services, StartRow, measure_node, measure_site

from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.v1 import coordinator_pb2 as pb

JOBS = 2000
LONG_QUEUE = f"wattfold queue, {JOBS} jobs"
TARGETS = {"wattfold --help": 6.0, "wattfold queue": 12.0, LONG_QUEUE: 20.0}
"""The long queue takes half a second where Python starts in 25 ms."""
PYTHON = "python -c pass"
COORDINATOR = "wattfold-coordinator, ready"
AGENT = "wattfold-agent, ready"
HELPS = ("submit", "simulate", "compare", "reproduce parm", "certify", "workload describe")
COMMANDS = Path(sys.executable).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The start of one program: medians over the runs."""

    what: str
    runs: int
    wall_ms: float
    cpu_ms: float
    ratio: float
    """Median over the turns of its wall time over that of Python in the same turn."""
    target: float = 0.0
    """Largest allowed ratio; 0 for none."""

    @property
    def held(self) -> bool:
        """Whether the ratio is within the target."""
        return not self.target or self.ratio <= self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One start, in milliseconds."""

    wall_ms: float
    cpu_ms: float


def main() -> int:
    """Entry point."""
    arguments = _arguments()
    # Installed packages have their bytecode; a checkout gets it in the first turn.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory(prefix="wf-start-") as folder:
        rows = measure(Path(folder), environment, arguments.runs)
        runs = max(arguments.runs // 5, 1)
        job_rows = measure_jobs(Path(folder) / "jobs", environment, arguments.jobs, runs)
    if arguments.json:
        print(json.dumps([asdict(row) for row in (*rows, *job_rows)], indent=2))
    else:
        _print(rows)
        _print_jobs(job_rows)
    return exit_status([*rows, *job_rows])


def exit_status(rows: Sequence[Row | StartRow]) -> int:
    """1 if any row misses its target."""
    return 0 if all(row.held for row in rows) else 1


def measure_jobs(folder: Path, environment: dict[str, str], jobs: int, runs: int) -> list[StartRow]:
    """Starts jobs of one node, at its agent and then through a coordinator."""
    if not jobs:
        return []
    folder.mkdir(mode=0o700)
    with _serving(AGENT, folder / "node", environment) as (address, agent):
        rows = asyncio.run(measure_node(address, Services(agent=agent), jobs, runs))
    # An agent obeys one coordinator, so the site has another one.
    with (
        _serving(AGENT, folder / "site", environment) as (node, agent),
        _serving(COORDINATOR, folder / "head", environment, "--node", f"n1={node}") as (site, pid),
    ):
        services = Services(agent=agent, coordinator=pid)
        return rows + asyncio.run(measure_site(site, services, folder, jobs, runs))


def rows_of(timings: dict[str, list[Timing]]) -> list[Row]:
    """Medians of the timings of each program, which were made in turns."""
    base = timings[PYTHON]
    return [
        Row(
            what=what,
            runs=len(found),
            wall_ms=round(statistics.median(one.wall_ms for one in found), 1),
            cpu_ms=round(statistics.median(one.cpu_ms for one in found), 1),
            ratio=round(
                statistics.median(
                    one.wall_ms / other.wall_ms for one, other in zip(found, base, strict=False)
                ),
                2,
            ),
            target=TARGETS.get(what, 0.0),
        )
        for what, found in timings.items()
    ]


def measure(folder: Path, environment: dict[str, str], runs: int) -> list[Row]:
    """Times all programs, in turns."""
    wattfold = str(COMMANDS / "wattfold")
    programs = {PYTHON: [sys.executable, "-c", "pass"], "wattfold --help": [wattfold, "--help"]}
    programs |= {f"wattfold {name} --help": [wattfold, *name.split(), "--help"] for name in HELPS}
    timings: dict[str, list[Timing]] = {PYTHON: [], "wattfold --help": [], "wattfold queue": []}
    with (
        _serving(COORDINATOR, folder / "served", environment) as (address, _),
        _serving(COORDINATOR, folder / "long", environment) as (long_address, _),
    ):
        _submit(long_address)
        programs["wattfold queue"] = [wattfold, "--coordinator", address, "queue"]
        long_queue = [wattfold, "--coordinator", long_address, "queue", "--limit", str(JOBS)]
        programs[LONG_QUEUE] = ["env", "COLUMNS=80", *long_queue]
        for turn in range(runs + 1):
            for what, command in programs.items():
                timing = _until_its_end(command, environment)
                if turn:  # The first turn fills the caches.
                    timings.setdefault(what, []).append(timing)
    for number in range(max(runs // 5, 2)):
        for what, command in _services(folder / str(number)).items():
            timings.setdefault(what, []).append(_until_ready(command, environment))
    return rows_of(timings)


def _services(folder: Path) -> dict[str, list[str]]:
    coordinator = ["--listen", f"unix:{folder}/c.sock", "--state-dir", f"{folder}/state"]
    agent = ["--listen", f"unix:{folder}/a.sock", "--state-dir", f"{folder}/agent"]
    agent += ["--run-dir", f"{folder}/run", "--node-id", "n1", "--emulate"]
    folder.mkdir(mode=0o700)
    return {
        COORDINATOR: [
            str(COMMANDS / "wattfold-coordinator"),
            *coordinator,
            "--budget-w",
            "1000",
        ],
        AGENT: [str(COMMANDS / "wattfold-agent"), *agent],
    }


def _submit(address: str) -> None:
    with CoordinatorClient(address) as client:
        for number in range(JOBS):
            spec = pb.JobSpec(argv=["true"], name=f"Müller: part {number} of a long study")
            client.submit(pb.SubmitRequest(spec=spec, held=True))


def _until_its_end(command: list[str], environment: dict[str, str]) -> Timing:
    began_cpu_s, began_ns = _children_cpu_s(), time.perf_counter_ns()
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
    wall_ms = (time.perf_counter_ns() - began_ns) / 1e6
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
    return Timing(wall_ms=wall_ms, cpu_ms=(_children_cpu_s() - began_cpu_s) * 1e3)


def _until_ready(command: list[str], environment: dict[str, str]) -> Timing:
    began_cpu_s, began_ns = _children_cpu_s(), time.perf_counter_ns()
    with _ready(command, environment):
        wall_ms = (time.perf_counter_ns() - began_ns) / 1e6
    return Timing(wall_ms=wall_ms, cpu_ms=(_children_cpu_s() - began_cpu_s) * 1e3)


@contextlib.contextmanager
def _serving(
    what: str, folder: Path, environment: dict[str, str], *more: str
) -> Iterator[tuple[str, int]]:
    """The address and the PID of a running service in a folder of its own."""
    command = [*_services(folder)[what], *more]
    with _ready(command, environment) as pid:
        yield command[command.index("--listen") + 1], pid


@contextlib.contextmanager
def _ready(command: list[str], environment: dict[str, str]) -> Iterator[int]:
    """The PID of a running service that has printed `ready`; it is stopped at the end."""
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line.startswith("ready"):
                process.kill()
                process.wait()
                log.seek(0)
                raise SystemExit(f"{command[0]} did not start: {log.read()}")
            yield process.pid
        finally:
            process.terminate()
            process.communicate()


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _print(rows: list[Row]) -> None:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{os.cpu_count()} CPUs, load {load}, Python {sys.version.split()[0]}")
    print(f"{'START':<34}{'RUNS':>6}{'WALL MS':>10}{'CPU MS':>9}{'RATIO':>8}  TARGET")
    for row in rows:
        verdict = f"<= {row.target:g}  {'ok' if row.held else 'MISSED'}" if row.target else ""
        figures = f"{row.runs:>6}{row.wall_ms:>10.1f}{row.cpu_ms:>9.1f}{row.ratio:>8.2f}"
        print(f"{row.what:<34}{figures}  {verdict}".rstrip())


def _print_jobs(rows: list[StartRow]) -> None:
    print(f"\n{'STARTS OF /bin/true':<42}{'VALUE':>8}  UNIT  TARGET")
    for row in rows:
        target = f"<= {row.at_most:g}" if row.at_most else ""
        target = f">= {row.at_least:g}" if row.at_least else target
        verdict = f"{target}  {'ok' if row.held else 'MISSED'}" if target else ""
        print(f"{row.what:<42}{row.value:>8.1f}  {row.unit:<6}{verdict}".rstrip())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the start times of the commands.")
    parser.add_argument("--runs", type=int, default=15, help="Runs of each command. Default: 15.")
    parser.add_argument(
        "--jobs", type=int, default=200, help="Jobs in each load; 0 starts none. Default: 200."
    )
    parser.add_argument("--json", action="store_true", help="Print one JSON document.")
    arguments = parser.parse_args()
    if arguments.runs < 1:
        parser.error(f"--runs {arguments.runs}: give at least 1")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
