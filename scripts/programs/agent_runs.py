"""Runs of programs under a real agent, on emulated zones (uncapped), with changing cores.

The agent receives the commands of a coordinator: launch, masks, forget. Runs end by themselves, or
count as hung after their time limit.
"""

from __future__ import annotations

import os
import random
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from wattfold.shims.certify_run import STDOUT
from wattfold.v1 import common_pb2 as common
from wattfold.v1 import node_agent_pb2 as pb
from wattfold.v1 import node_agent_pb2_grpc as pb_grpc

READY_S = 30.0
CALL_S = 30.0
LEASE_NS = 3_600 * 10**9
MODES = {"mask": common.RESIZE_MODE_MASK, "team": common.RESIZE_MODE_TEAM}
CONFIG = """node_id = "trial"
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


class TrialError(Exception):
    """A trial cannot be made; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The end of a run. ``hung``: the run was ended after its time limit."""

    exit_code: int
    seconds: float
    hung: bool
    masks: int
    confined: int
    """Masks that the shim did not acknowledge in time (mode team)."""
    outputs: Mapping[str, bytes] = field(repr=False)
    errors: str

    @property
    def bad_end(self) -> str:
        """Description of a wrong end; empty if the run ended correctly."""
        last = self.errors.strip().splitlines()[-1:] or ["no message"]
        if self.hung:
            return f"it hung ({self.seconds:.0f} s)"
        return f"exit code {self.exit_code}: {last[0][:100]}" if self.exit_code else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A program to run and the outputs to keep."""

    argv: tuple[str, ...]
    folder: Path
    """Every run gets a copy."""
    outputs: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    mode: str = "mask"
    cpus: tuple[int, ...]
    limit_s: float = 600.0


class TrialAgent:
    """A client of a running agent."""

    def __init__(self, home: Path, cpus: tuple[int, int]) -> None:
        self.home = home
        self.cpus = cpus
        self._calls = 0
        self._jobs = 0
        # The generated stub has no types.
        stub: Any = pb_grpc.NodeAgentStub
        self._channel = grpc.insecure_channel(f"unix:{home}/a.sock")
        self._stub = stub(self._channel)

    def call(self, method: str, request: Any) -> Any:
        """Make one call; a command gets its header. Raises TrialError."""
        if "header" in request.DESCRIPTOR.fields_by_name:
            self._calls += 1
            header = common.CommandHeader(epoch=1, request_id=f"t{self._calls}", cause="trial")
            request.header.CopyFrom(header)
        try:
            return getattr(self._stub, method)(request, timeout=CALL_S, wait_for_ready=True)
        except grpc.RpcError as error:
            raise TrialError(f"{method}: {error.details()}") from error

    def uncap(self) -> None:
        """Set all caps to their maximum."""
        self.renew()
        zones = self.call("GetInventory", pb.GetInventoryRequest()).zones
        caps = [pb.ZoneCap(name=z.name, cap_uw=z.cap_uw_max) for z in zones if z.can_cap]
        answer = self.call("SetCaps", pb.SetCapsRequest(caps=caps))
        for result in answer.results:
            if result.status != pb.CAP_STATUS_OK:
                raise TrialError(f"the cap of {result.name} could not be set: {result.message}")

    def renew(self) -> None:
        """Take a lease for one run."""
        self.call("RenewLease", pb.RenewLeaseRequest(duration_ns=LEASE_NS))

    def run(self, order: Order, steer: Callable[[Steering], None]) -> Run:
        """Run a program while ``steer`` changes its cores; wait for its end."""
        self.renew()
        self._jobs += 1
        job = f"trial-{self._jobs}"
        folder = self.home / job
        shutil.copytree(order.folder, folder)
        started_s = time.monotonic()
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP", "WATTFOLD"))}
        launched = self.call(
            "Launch",
            pb.LaunchRequest(
                job_id=job,
                argv=order.argv,
                env={**environment, **order.environment},
                cwd=str(folder),
                stdout_path="trial.out",
                stderr_path="trial.err",
                cpus=_text(order.cpus),
                mode=MODES[order.mode],
                launch_cpus=len(order.cpus),
                ranks=1,
            ),
        )
        with _end_of(launched.pid) as ended:
            steering = Steering(self, job, folder, ended, started_s, order.limit_s)
            steer(steering)
            hung = not ended(max(0.0, started_s + order.limit_s - time.monotonic()))
        if hung:
            self.call("Signal", pb.SignalRequest(job_id=job, signal=9))
        found = self._ended(job)
        self.call("ForgetProcess", pb.ForgetProcessRequest(job_id=job))
        files = {name: folder / name for name in order.outputs}
        outputs = {name: path.read_bytes() for name, path in files.items() if path.is_file()}
        run = Run(
            exit_code=found.exit_code or (128 + found.signal if found.signal else 0),
            seconds=found.elapsed_ns / 1e9,
            hung=hung,
            masks=steering.masks,
            confined=steering.confined,
            outputs=outputs or {STDOUT: (folder / "trial.out").read_bytes()},
            errors=(folder / "trial.err").read_bytes()[-4000:].decode(errors="replace"),
        )
        shutil.rmtree(folder)
        return run

    def _ended(self, job: str) -> pb.ProcessInfo:
        for message in self._stub.StreamTelemetry(
            pb.StreamTelemetryRequest(interval_ns=20_000_000), timeout=CALL_S
        ):
            for info in message.ended:
                if info.job_id == job:
                    return info
        raise TrialError(f"the agent did not tell the end of {job}")

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()


@dataclass(slots=True)
class Steering:
    """A running program and its cores."""

    agent: TrialAgent
    job: str
    folder: Path
    _end: Callable[[float], bool]
    started_s: float
    limit_s: float
    masks: int = 0
    confined: int = 0

    def over(self, seconds: float) -> bool:
        """Wait for at most this time. Return whether the program has ended or its time is up."""
        return self._end(seconds) or time.monotonic() > self.started_s + self.limit_s

    def mask(self, cpus: tuple[int, ...]) -> None:
        """Change its cores. Ignores a program that has just ended."""
        try:
            request = pb.SetMaskRequest(job_id=self.job, cpus=_text(cpus))
            answer = self.agent.call("SetMask", request)
        except TrialError:
            if self._end(1.0):
                return
            raise
        self.masks += 1
        self.confined += answer.shim == pb.SHIM_STATE_CONFINED

    def at_random(self, chance: random.Random, masks_max: int) -> None:
        """Set random cores after random delays, until the end or for at most this number of
        changes.
        """
        both = self.agent.cpus
        sets = [both[:1], both[1:], both]
        now = both
        while self.masks < masks_max and not self.over(0.001 * 2 ** chance.uniform(0, 6)):
            now = chance.choice([cpus for cpus in sets if cpus != now])
            self.mask(now)
        self.mask(both)


def alone(_: Steering) -> None:
    """Leave a program alone."""


@contextmanager
def started_agent(shim: Path) -> Iterator[TrialAgent]:
    """An agent on two cores of this machine, in its own folder."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise TrialError("two cores are needed")
    with tempfile.TemporaryDirectory(prefix="wf-") as name:
        home = Path(name)
        (home / "agent.toml").write_text(
            CONFIG.format(home=home, cpus=_text(tuple(cores)), shim=shim)
        )
        command = [
            Path(sys.executable).with_name("wattfold-agent"),
            "--config",
            home / "agent.toml",
        ]
        with (home / "agent.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        try:
            assert process.stdout is not None
            ready = select.select([process.stdout], [], [], READY_S)[0]
            if not ready or not process.stdout.readline().startswith(b"ready"):
                raise TrialError(f"the agent did not start:\n{(home / 'agent.log').read_text()}")
            agent = TrialAgent(home, (cores[0], cores[1]))
            agent.uncap()
            yield agent
            agent.close()
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(READY_S)
            process.kill()
            process.wait()


@contextmanager
def _end_of(pid: int) -> Iterator[Callable[[float], bool]]:
    """Wait for the end of a process that is not our child."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        yield lambda _: True
        return
    try:
        yield lambda seconds: bool(select.select([fd], [], [], seconds)[0])
    finally:
        os.close(fd)


def _text(cpus: tuple[int, ...]) -> str:
    return ",".join(map(str, cpus))
