"""A real agent process and a client, for the system tests."""

from __future__ import annotations

import itertools
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
from system.account_install import installation_for
from waiting import DEADLINE_S, wait_until

from wattfold.v1 import common_pb2 as common
from wattfold.v1 import node_agent_pb2 as pb
from wattfold.v1 import node_agent_pb2_grpc

NOBODY = 65534
READY_S = 120.0
UNITS = itertools.count()


class AgentProcess:
    """An agent, its folders below ``root`` and a stub. It does not run until :meth:`start`."""

    def __init__(self, root: Path, *flags: str, uid: int | None = None) -> None:
        self.root = root
        self.node = f"test{os.getpid()}-{next(UNITS)}"
        self.flags = flags
        self.uid = uid
        self.epoch = 1
        self.process: subprocess.Popen[str] | None = None

    @property
    def socket(self) -> str:
        return f"unix:{self.root}/run/agent.sock"

    errors: int | None = None
    """A descriptor for its standard error instead of its log."""
    prefix: tuple[str, ...] = ()
    """Words in front of its command, such as `setpriv`."""
    libraries = ":".join(p for p in sys.path if p)
    """Where its modules are."""
    readable_by: int | None = None
    """An account that must be able to run the agent's installation, as its jobs do."""

    def start(self) -> AgentProcess:
        """Start the agent and wait for its ready line."""
        python, libraries = sys.executable, self.libraries
        reader = self.uid if self.uid is not None else self.readable_by
        if reader is not None:
            installed = installation_for(reader)
            assert installed is not None
            python, libraries = installed.python, installed.libraries
        command = [
            *self.prefix,
            python,
            "-c",
            "from wattfold.nodeagent.app import main; main()",
            "--node-id",
            self.node,
            "--state-dir",
            f"{self.root}/state",
            "--run-dir",
            f"{self.root}/run",
            *self.flags,
        ]
        drop = {} if self.uid is None else {"user": self.uid, "group": self.uid, "extra_groups": []}
        with open(self.root / "log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log if self.errors is None else self.errors,
                text=True,
                cwd=self.root,
                env=os.environ | {"PYTHONPATH": libraries},
                **drop,
            )
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], READY_S)
        line = self.process.stdout.readline() if ready else ""
        assert line.startswith(f"ready node={self.node} "), (line, self.log())
        self.ready = line
        self.connect(line.split("listen=")[1].strip())
        return self

    def connect(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address)
        self.stub = node_agent_pb2_grpc.NodeAgentStub(self.channel)

    def log(self) -> str:
        return (self.root / "log").read_text(encoding="utf-8")

    def stop(self) -> int:
        """Stop the agent in order and return its exit status."""
        assert self.process is not None
        self.channel.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(240)

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.channel.close()
        self.process.kill()
        self.process.wait(240)

    def header(self, request_id: str | None = None) -> common.CommandHeader:
        unique = f"{self.node}-{next(UNITS)}"
        return common.CommandHeader(epoch=self.epoch, request_id=request_id or unique, cause="test")

    def renewal(self, seconds: float) -> pb.RenewLeaseRequest:
        return pb.RenewLeaseRequest(header=self.header(), duration_ns=int(seconds * 1e9))

    def lease(self, seconds: float = 60) -> pb.RenewLeaseResponse:
        return self.stub.RenewLease(self.renewal(seconds), timeout=240)

    def caps(self, **watts: float) -> list[pb.CapResult]:
        """Set caps by zone, ``package_0=40``."""
        caps = [
            pb.ZoneCap(name=name.replace("_", "-"), cap_uw=int(w * 1e6))
            for name, w in watts.items()
        ]
        request = pb.SetCapsRequest(header=self.header(), caps=caps)
        return list(self.stub.SetCaps(request, timeout=240).results)

    def launch_request(
        self, job: str, argv: list[str], cpus: str, **fields: object
    ) -> pb.LaunchRequest:
        values = {
            "mode": common.RESIZE_MODE_MASK,
            "launch_cpus": 2,
            "cwd": str(self.work()),
        } | fields
        return pb.LaunchRequest(header=self.header(), job_id=job, argv=argv, cpus=cpus, **values)

    def launch(self, job: str, argv: list[str], cpus: str, **fields: object) -> pb.LaunchResponse:
        return self.stub.Launch(self.launch_request(job, argv, cpus, **fields), timeout=240)

    def work(self) -> Path:
        path = self.root / "work"
        if not path.exists():
            path.mkdir()
            if self.uid is not None:
                os.chown(path, self.uid, self.uid)
        return path

    def mask(self, job: str, cpus: str, deadline_s: float = 0) -> pb.SetMaskResponse:
        request = pb.SetMaskRequest(
            header=self.header(), job_id=job, cpus=cpus, deadline_ns=int(deadline_s * 1e9)
        )
        return self.stub.SetMask(request, timeout=240)

    def signal(self, job: str, number: int, grace_s: float = 5) -> bool:
        request = pb.SignalRequest(
            header=self.header(), job_id=job, signal=number, grace_ns=int(grace_s * 1e9)
        )
        return self.stub.Signal(request, timeout=240).found

    def processes(self) -> dict[str, pb.ProcessInfo]:
        answer = self.stub.ListProcesses(pb.ListProcessesRequest(), timeout=240)
        return {info.job_id: info for info in answer.processes}

    def telemetry(
        self,
        until: Callable[[pb.Telemetry], bool],
        interval_ms: int = 100,
        deadline_s: float = DEADLINE_S,
    ) -> pb.Telemetry:
        """Return the first message for which ``until`` holds."""
        request = pb.StreamTelemetryRequest(interval_ns=interval_ms * 1_000_000)
        stream = self.stub.StreamTelemetry(request, timeout=deadline_s)
        try:
            for message in stream:
                if until(message):
                    return message
        finally:
            stream.cancel()
        raise AssertionError("the stream ended")

    def ended(self, job: str) -> pb.ProcessInfo:
        """Wait for the end of a job."""
        message = self.telemetry(lambda m: any(e.job_id == job for e in m.ended))
        return next(e for e in message.ended if e.job_id == job)

    def cpu_rate(self, job: str, seconds: float) -> float:
        """CPU seconds per second of a job over about this time, by the agent's own clock."""
        first = self.telemetry(lambda m: bool(m.jobs))
        goal_ns = first.uptime_ns + int(seconds * 1e9)
        last = self.telemetry(lambda m: m.uptime_ns >= goal_ns)
        used = _usage(last, job).cpu_ns - _usage(first, job).cpu_ns
        return used / (last.uptime_ns - first.uptime_ns)


def _usage(message: pb.Telemetry, job: str) -> pb.JobUsage:
    return next(usage for usage in message.jobs if usage.job_id == job)


@contextmanager
def agent(*flags: str, uid: int | None = None) -> Iterator[AgentProcess]:
    """A started agent in its own folder. It and its jobs are ended after the test."""
    with tempfile.TemporaryDirectory(prefix="wattfold-") as folder:
        root = Path(folder)
        if uid is not None:
            os.chown(root, uid, uid)
        root.chmod(0o755)
        running = AgentProcess(root, *flags, "--kill-jobs-on-exit", uid=uid)
        running.start()
        try:
            yield running
        finally:
            assert running.stop() == 0, running.log()


def allowed_cpus(pid: int) -> set[str]:
    """The masks of all threads of all processes below a process, as the kernel shows them."""
    found = set()
    for member in family(pid):
        for status in Path(f"/proc/{member}/task").glob("*/status"):
            text = status.read_text()
            found.add(text.split("Cpus_allowed_list:")[1].split()[0])
    return found


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    members = [pid]
    for member in members:
        for children in Path(f"/proc/{member}/task").glob("*/children"):
            members.extend(int(text) for text in children.read_text().split())
    return members


def name_of(pid: int) -> str:
    """The name that a process has for itself; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    except OSError:
        return ""


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_gone(pid: int, deadline_s: float = DEADLINE_S) -> bool:
    """Wait for the end of a process that is not our child."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], deadline_s)[0])
    finally:
        os.close(fd)


def until(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Waits for something that tells nobody when it happens."""
    wait_until("what is waited for", condition, deadline_s)
