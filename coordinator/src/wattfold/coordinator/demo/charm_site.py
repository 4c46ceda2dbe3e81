"""A small site for trials of Charm++ programs: nodes of one core each, and what runs on them.

With more nodes than cores these are shared in time. The zones are emulated and their caps never
slow a job here: the trial is of processors, not of power.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.units import ns_from_s
from wattfold.coordinator.cli.shared.client import CoordinatorClient
from wattfold.coordinator.demo.layout import emulated_zones
from wattfold.coordinator.demo.mix import environment
from wattfold.coordinator.demo.runner import ENDED, Interruption, RunError, await_nodes
from wattfold.coordinator.demo.site import NodePlan, Site, SitePlan
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

LIMIT_S = 120.0
PACE_S = 0.02
_PLENTY_W = 10_000.0
_HOUR_S = 3600.0
_SETTINGS = "solver_deadline_s = 2.0\nlease_s = 20.0\ntelemetry_interval_s = 0.5\n"
_PROGRAM = "wattfold.shims.charm_load"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the program of a trial is to be: see `wattfold.shims.charm_load`."""

    blocks: int
    block_bytes: int = 4096
    work: int = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadJob:
    """A job with such a program, and the files by which it is steered and read."""

    job_id: str
    out: Path
    stop: Path
    idle: Path

    def steps(self) -> list[tuple[float, int]]:
        """Seconds of the monotonic clock, and steps done by then."""
        if not self.out.exists():
            return []
        lines = [line.split() for line in self.out.read_text(encoding="utf-8").splitlines()]
        return [(float(x[1]), int(x[2])) for x in lines if len(x) == 3 and x[0] == "at"]

    def rate(self, from_s: float, to_s: float) -> float:
        """Steps per second between two times, by the first and the last word in between."""
        seen = [(at_s, count) for at_s, count in self.steps() if from_s <= at_s <= to_s]
        if len(seen) < 2:
            raise RunError(f"job {self.job_id} made no steps in {to_s - from_s:.0f} s")
        return (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0])


class LoadSite:
    """So many nodes of one core, ended with the `with` block."""

    def __init__(
        self, nodes: int, folder: Path, interruption: Interruption, policy: str = "equipartition"
    ) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self._plans = tuple(
            NodePlan(
                node_id=f"n{index}",
                cpus=CpuSet.of([cores[index % len(cores)]]),
                settings=emulated_zones(1.0),
            )
            for index in range(nodes)
        )
        plan = SitePlan(
            nodes=self._plans, budget_w=_PLENTY_W, policy=policy, coordinator_settings=_SETTINGS
        )
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._interruption = folder, interruption
        self._site = Site(plan, folder)
        self._pace = threading.Event()

    def __enter__(self) -> LoadSite:
        self._site.__enter__()
        try:
            self.client = CoordinatorClient(self._site.address)
            await_nodes(self.client, len(self._plans), self._interruption)
        except BaseException:
            self._site.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        self._site.__exit__(kind, error, trace)

    def submit(self, name: str, sizes: tuple[int, int], load: Load) -> LoadJob:
        """Submits a job on least to greatest so many nodes, which goes on until it is stopped."""
        label = f"{name}-{uuid.uuid4().hex[:6]}"
        out, stop, idle = (self._folder / f"{label}.{end}" for end in ("out", "stop", "idle"))
        options = {"blocks": load.blocks, "bytes": load.block_bytes, "work": load.work}
        words = [f"--{key}={value}" for key, value in options.items()]
        spec = pb.JobSpec(
            name=name,
            app=name,
            argv=[
                *(sys.executable, "-m", "wattfold.shims.charm_start", "--charm4py"),
                *(program_file(), *words, f"--stop={stop}", f"--idle={idle}"),
            ],
            env=environment(),
            cwd=str(self._folder),
            stdout_path=str(out),
            stderr_path=str(out.with_suffix(".err")),
            kind=pb.JOB_KIND_MALLEABLE,
            unit=pb.SIZE_UNIT_NODES,
            size_min=sizes[0],
            size_max=sizes[1],
            mode=common_pb2.RESIZE_MODE_MAP,
            time_ns=ns_from_s(_HOUR_S),
        )
        key = uuid.uuid4().hex
        job_id = self.client.submit(pb.SubmitRequest(spec=spec, idempotency_key=key))
        # Of a job on several nodes each writes a file of its own; the program is on the first.
        several = sizes[1] > 1
        return LoadJob(
            job_id=job_id,
            out=out.with_name(out.name + ".0") if several else out,
            stop=stop,
            idle=idle,
        )

    def run(self, name: str, argv: Sequence[str]) -> str:
        """Submits a job of any command on one node; its number."""
        spec = pb.JobSpec(
            name=name,
            argv=argv,
            env=environment(),
            cwd=str(self._folder),
            kind=pb.JOB_KIND_RIGID,
            unit=pb.SIZE_UNIT_NODES,
            size_min=1,
            size_max=1,
        )
        request = pb.SubmitRequest(spec=spec, idempotency_key=uuid.uuid4().hex)
        return self.client.submit(request)

    def job(self, job: LoadJob) -> pb.Job:
        """What the coordinator knows of it. Raises RunError where it has failed."""
        (found,) = self.client.list_jobs([job.job_id]).jobs
        if found.state in ENDED and found.state != pb.JOB_STATE_COMPLETED:
            raise RunError(
                f"job {job.job_id} ended with {found.exit_code}: {found.message or job.out}"
            )
        return found

    def until(self, what: str, look: Callable[[], T | None]) -> T:
        """The first true answer. Raises RunError if none comes in time."""
        end_s = time.monotonic() + LIMIT_S
        while not (found := look()):
            self._interruption.check()
            if time.monotonic() > end_s:
                raise RunError(f"not within {LIMIT_S:.0f} s: {what}")
            self._pace.wait(PACE_S)
        return found

    def watch(self, every_s: float, for_s: float, look: Callable[[float], object]) -> None:
        """Looks again and again at equal intervals, told how long that has been going on."""
        began_s, count = time.monotonic(), 0
        while (passed_s := time.monotonic() - began_s) < for_s:
            self._interruption.check()
            look(passed_s)
            count += 1
            self._pace.wait(max(began_s + count * every_s - time.monotonic(), 0.0))

    def on(self, job: LoadJob, nodes: int) -> pb.Job:
        """Waits until a job is on so many nodes, by its program's word, and makes steps there."""

        def there() -> pb.Job | None:
            found = self.job(job)
            holds = len(held_nodes(found)) == nodes == found.processor_map.count("1")
            return found if holds and found.map_applied and job.steps() else None

        return self.until(f"job {job.job_id} on {nodes} nodes", there)

    def end(self, *jobs: LoadJob) -> None:
        """Has programs end, and waits until their jobs have."""
        for job in jobs:
            job.stop.touch()
        for job in jobs:
            self.until("its end", lambda job=job: self.job(job).state in ENDED)  # type: ignore[misc]

    def processors(self, job: LoadJob, node_id: str) -> list[int]:
        """Processes of its PEs on a node."""
        mark = f"WATTFOLD_JOB_ID={job.job_id}".encode()
        place = f"WATTFOLD_SHIM_ENDPOINT=ipc://{self._site.folder}/{node_id}/".encode()
        found = []
        for path in Path("/proc").iterdir():
            if not path.name.isdecimal():
                continue
            try:
                told = (path / "environ").read_bytes().split(b"\0")
            except OSError:
                continue  # It has ended, or is somebody else's.
            here = any(word.startswith(place) for word in told)
            # Set by charmrun for what it has started.
            if mark in told and here and any(word.startswith(b"NETSTART=") for word in told):
                found.append(int(path.name))
        return found


def held_nodes(job: pb.Job) -> list[str]:
    """The nodes of which a job holds cores."""
    return [share.node_id for share in job.shares if share.cpus and not share.resident]


def cpu_s(pid: int) -> float:
    """CPU time that a process has used, seconds; 0 of one that has ended."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    except OSError:
        return 0.0


def program_file() -> str:
    """Where the program of the trials is. Raises RunError where it is not installed."""
    found = importlib.util.find_spec(_PROGRAM)
    if found is None or found.origin is None or importlib.util.find_spec("charm4py") is None:
        raise RunError("trials of Charm++ programs need charm4py: pip install 'wattfold[charm]'")
    return found.origin
