"""A small site for trials of Charm++ programs: nodes of one core each, and their jobs.

If there are more nodes than cores, the nodes share the cores in time. The zones are emulated and
their caps never slow a job: the trial is about processors, not about power.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import psutil

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.units import ns_from_s
from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.demo.layout import emulated_zones
from wattfold.coordinator.demo.mix import environment
from wattfold.coordinator.demo.runner import ENDED, Interruption, RunError, await_nodes
from wattfold.coordinator.demo.site import DemoSite, NodePlan, SitePlan
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
    """Parameters of the program of a trial: see `wattfold.shims.charm_load`."""

    blocks: int
    block_bytes: int = 4096
    work: int = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadJob:
    """A job with this program, and the files that control it and contain its output."""

    job_id: str
    out: Path
    stop: Path
    idle: Path

    def steps(self) -> list[tuple[float, int]]:
        """Return times of the monotonic clock in seconds, with the number of completed steps."""
        if not self.out.exists():
            return []
        lines = [line.split() for line in self.out.read_text(encoding="utf-8").splitlines()]
        return [(float(x[1]), int(x[2])) for x in lines if len(x) == 3 and x[0] == "at"]

    def rate(self, from_s: float, to_s: float) -> float:
        """Return the steps per second between two times, from the first and the last report."""
        seen = [(at_s, count) for at_s, count in self.steps() if from_s <= at_s <= to_s]
        if len(seen) < 2:
            raise RunError(f"job {self.job_id} made no steps in {to_s - from_s:.0f} s")
        return (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0])


class LoadSite:
    """A site of nodes with one core each, which ends with the `with` block."""

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
        self._site = DemoSite(plan, folder)
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
        """Submit a job with minimum and maximum nodes (``sizes``) that runs until stopped."""
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
        return LoadJob(job_id=job_id, out=out, stop=stop, idle=idle)

    def run(self, name: str, argv: Sequence[str]) -> str:
        """Submit a job with any command on one node. Return its number."""
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
        """Return the coordinator's record of the job. Raises RunError if the job failed."""
        (found,) = self.client.list_jobs([job.job_id]).jobs
        if found.state in ENDED and found.state != pb.JOB_STATE_COMPLETED:
            raise RunError(
                f"job {job.job_id} ended with {found.exit_code}: {found.message or job.out}"
            )
        return found

    def until(self, what: str, look: Callable[[], T | None]) -> T:
        """Return the first true result of ``look``. Raises RunError after a time limit."""
        end_s = time.monotonic() + LIMIT_S
        while not (found := look()):
            self._interruption.check()
            if time.monotonic() > end_s:
                raise RunError(f"not within {LIMIT_S:.0f} s: {what}")
            self._pace.wait(PACE_S)
        return found

    def watch(self, every_s: float, for_s: float, look: Callable[[float], object]) -> None:
        """Call ``look`` at equal intervals with the seconds since the start."""
        began_s, count = time.monotonic(), 0
        while (passed_s := time.monotonic() - began_s) < for_s:
            self._interruption.check()
            look(passed_s)
            count += 1
            self._pace.wait(max(began_s + count * every_s - time.monotonic(), 0.0))

    def on(self, job: LoadJob, nodes: int) -> pb.Job:
        """Wait until a job is on ``nodes`` nodes, confirmed by its program, and makes steps."""

        def there() -> pb.Job | None:
            found = self.job(job)
            holds = len(held_nodes(found)) == nodes == found.processor_map.count("1")
            return found if holds and found.map_applied and job.steps() else None

        return self.until(f"job {job.job_id} on {nodes} nodes", there)

    def end(self, *jobs: LoadJob) -> None:
        """Stop programs, and wait until their jobs have ended."""
        for job in jobs:
            job.stop.touch()
        for job in jobs:
            self.until("its end", lambda job=job: self.job(job).state in ENDED)  # type: ignore[misc]

    def processors(self, job: LoadJob, node_id: str) -> list[int]:
        """Processes of its PEs on a node."""
        place = f"ipc://{self._site.folder}/{node_id}/"
        found = []
        for process in psutil.process_iter():
            # It may have ended, or belong to another account.
            with suppress(psutil.Error):
                given = process.environ()
                here = given.get("WATTFOLD_SHIM_ENDPOINT", "").startswith(place)
                # charmrun sets NETSTART for the processes that it starts.
                if here and given.get("WATTFOLD_JOB_ID") == job.job_id and "NETSTART" in given:
                    found.append(process.pid)
        return found


def held_nodes(job: pb.Job) -> list[str]:
    """Return the nodes on which a job holds cores."""
    return [share.node_id for share in job.shares if share.cpus and not share.resident]


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process in seconds; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    except OSError:
        return 0.0


def program_file() -> str:
    """Return the path of the trial program. Raises RunError if it is not installed."""
    found = importlib.util.find_spec(_PROGRAM)
    if found is None or found.origin is None or importlib.util.find_spec("charm4py") is None:
        raise RunError("trials of Charm++ programs need charm4py: pip install 'wattfold[charm]'")
    return found.origin
