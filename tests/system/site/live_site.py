"""A real site for the system tests: coordinator and agents as processes.

It extends the site of the demonstration with functions for tests only: killing and stopping single
parts, reading the kernel's data on jobs, and checking the record of committed power at the end.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import grpc
import psutil
from system.site.processes import processes_of
from waiting import DEADLINE_S, wait_until

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.units import uw_from_w
from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.demo.site import DemoSite, NodePlan, SitePlan
from wattfold.v1 import common_pb2, node_agent_pb2_grpc
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import node_agent_pb2 as agent_pb

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "build/shims/examples"
SHIM = ROOT / "build/shims/libwattfold_omp.so"
CPUS = CpuSet.of(sorted(os.sched_getaffinity(0))[:2])
MARK = "WATTFOLD_TEST_SITE"
ENDED = {
    pb.JOB_STATE_COMPLETED,
    pb.JOB_STATE_FAILED,
    pb.JOB_STATE_CANCELLED,
    pb.JOB_STATE_LOST,
    pb.JOB_STATE_TIMED_OUT,
}

BASE_W, FLOOR_W, PACKAGE_W, DRAM_W = 10.0, 9.0, 45.0, 5.0
IDLE_W = BASE_W + FLOOR_W + DRAM_W
"""Charge of a node without jobs."""
FLOORS_W = BASE_W + FLOOR_W + 2.0
"""Charge of a node whose lease has ended."""

_NODE = """base_power_w = {base}
floor_w = {floor}
dram_floor_w = 2
package_idle_w = 8
emulate = true
{more}
[emulation]
a = 1.5
b = 4.0
c = 8.0
f_low_ghz = 1.2
f_high_ghz = 2.6
package_min_w = {floor}
package_max_w = {package}
dram_min_w = 2
dram_max_w = {dram}
dram_idle_w = 1
dram_dynamic_w = 3
cpu_share = {share}
window_ms = 100
throttle = "{throttle}"
"""
_COORDINATOR = """lease_s = {lease}
telemetry_interval_s = 0.2
solver_deadline_s = 5.0
term_grace_s = 2.0
{more}
[parm]
resize_interval_s = 0.0
{parm}
"""

T = TypeVar("T")


def site_plan(
    nodes: int = 2,
    budget_w: float = 1000.0,
    policy: str = "parm-wse",
    *,
    lease_s: float = 3.0,
    cpu_share: float = 0.4,
    coordinator: str = "",
    parm: str = "",
    agent: str = "",
    unlike: Sequence[str] = (),
    throttle: str = "auto",
    restore_on_stop: bool = False,
) -> SitePlan:
    """Nodes that share this machine's cores in time, all with emulated zones.

    ``unlike``: settings of single nodes in addition to those of all nodes.
    """
    plans = [
        NodePlan(
            node_id=f"n{index}",
            cpus=CPUS,
            settings=_NODE.format(
                base=BASE_W,
                floor=FLOOR_W,
                package=PACKAGE_W,
                dram=DRAM_W,
                share=cpu_share,
                more="\n".join((agent, *unlike[index : index + 1])),
                throttle=throttle,
            ),
        )
        for index in range(nodes)
    ]
    return SitePlan(
        restore_on_stop=restore_on_stop,
        nodes=tuple(plans),
        budget_w=budget_w,
        policy=policy,
        coordinator_settings=_COORDINATOR.format(lease=lease_s, more=coordinator, parm=parm),
        omp_shim=SHIM,
    )


class LiveSite(DemoSite):
    """A running site with a client. At its end the record is checked against the budget."""

    def __init__(self, plan: SitePlan, logs: Path) -> None:
        super().__init__(plan, logs)
        self.work = logs / "jobs"
        self.lowered: list[tuple[float, float]] = []
        """(from, until) in Unix seconds: periods in which a lowered budget is not yet required."""
        # Commands have the mark of the newest site, its services that of their own.
        self.environment[MARK] = os.environ[MARK] = str(self.folder)

    def __enter__(self) -> LiveSite:
        self.work.mkdir(parents=True)
        super().__enter__()
        try:
            self.client = CoordinatorClient(self.address)
            wait_until("all nodes up", lambda: all(map(_up, self.client.list_nodes().nodes)))
        except BaseException:
            # `__exit__` is not called after a failed `__enter__`.
            self.stop()
            raise
        return self

    def stop(self) -> None:
        if hasattr(self, "client"):
            self.client.close()
        super().stop()
        # Jobs of agents that were killed and not started again.
        while left := _marked(str(self.folder)):
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=DEADLINE_S)

    # Parts of the site.

    @property
    def coordinator(self) -> subprocess.Popen[bytes]:
        assert self._coordinator is not None
        return self._coordinator

    def restart_coordinator(self) -> None:
        """Start the coordinator after its end, and replace the client's connection."""
        self.client.close()
        self.coordinator.stdout.close()  # type: ignore[union-attr]
        self.start_coordinator()
        self.client = CoordinatorClient(self.address)

    def agent(self, index: int) -> subprocess.Popen[bytes]:
        return self._agents[index]

    def kill_agent(self, index: int) -> None:
        """kill -9."""
        self._agents[index].kill()
        self._agents[index].wait()
        self._agents[index].stdout.close()  # type: ignore[union-attr]

    def agent_socket(self, index: int) -> Path:
        return Path(self._agent_address(self.plan.nodes[index]).removeprefix("unix:"))

    @property
    def coordinator_socket(self) -> Path:
        return Path(self.address.removeprefix("unix:"))

    def limits_uw(self, index: int) -> dict[str, int]:
        """Limits in force in the emulated zones of a node, by zone."""
        root = self.folder / self.plan.nodes[index].node_id / "powercap"
        zones = {"package": root / "intel-rapl:0", "dram": root / "intel-rapl:0/intel-rapl:0:0"}
        limits = {name: zone / "constraint_0_power_limit_uw" for name, zone in zones.items()}
        # A file is empty for a moment during a write, unlike the files of the kernel.
        return {name: int(wait_until(name, file.read_text)) for name, file in limits.items()}

    def processes(self) -> list[int]:
        """All processes of this site, jobs included."""
        return processes_of(self.folder)

    # Jobs.

    def submit(self, argv: Sequence[str], key: str = "", held: bool = False, **spec: Any) -> str:
        """Submit a job; by default one rigid core and files in the site's folder."""
        values = {
            "cwd": str(self.work),
            "env": {"PATH": os.environ["PATH"], MARK: str(self.folder)},
            "kind": pb.JOB_KIND_RIGID,
            "size_min": 1,
            "size_max": max(spec.get("size_min", 1), 1),
            "mode": common_pb2.RESIZE_MODE_MASK,
        } | spec
        request = pb.SubmitRequest(
            spec=pb.JobSpec(argv=list(argv), **values), idempotency_key=key, held=held
        )
        return self.client.submit(request)

    def job(self, job_id: str) -> pb.Job:
        return self.client.list_jobs([job_id], include_ended=True).jobs[0]

    def in_state(self, job_id: str, *states: pb.JobState) -> pb.Job:
        """Wait until the job is in one of these states."""
        return wait_until(
            f"job {job_id} in {[pb.JobState.Name(state) for state in states]}",
            lambda: _if(self.job(job_id), lambda job: job.state in states),
        )

    def running(self, job_id: str) -> pb.Job:
        return self.in_state(job_id, pb.JOB_STATE_RUNNING)

    def ended(self, job_id: str) -> pb.Job:
        return self.in_state(job_id, *ENDED)

    def cancel_all(self) -> None:
        """Cancel all jobs and wait for their ends."""
        for job in self.client.list_jobs().jobs:
            self.client.cancel(job.job_id)
        wait_until("no jobs left", lambda: not self.client.list_jobs().jobs)

    def pid(self, job_id: str) -> int:
        """The first process of a running job, as reported by the agents."""
        return wait_until(f"a process of job {job_id}", lambda: self._pids().get(job_id, 0))

    def _pids(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for index in range(len(self.plan.nodes)):
            with grpc.insecure_channel(f"unix:{self.agent_socket(index)}") as channel:
                stub = node_agent_pb2_grpc.NodeAgentStub(channel)
                answer = stub.ListProcesses(agent_pb.ListProcessesRequest(), timeout=240)
            running = agent_pb.PROCESS_STATE_RUNNING
            found |= {p.job_id: p.pid for p in answer.processes if p.state == running}
        return found

    def node(self, index: int) -> pb.Node:
        node_id = self.plan.nodes[index].node_id
        return next(n for n in self.client.list_nodes().nodes if n.node_id == node_id)

    # The command line, and the record.

    def wattfold(
        self,
        *arguments: str,
        cwd: Path | None = None,
        check: int | None = 0,
        stdin: Path = Path(os.devnull),
    ) -> subprocess.CompletedProcess[str]:
        """Run the real command against this site; its exit code must be ``check``."""
        words = ("--coordinator", self.address, *arguments)
        done = run_command("wattfold", *words, cwd=cwd or self.work, stdin=stdin)
        assert check is None or done.returncode == check, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    def shown(self, job_id: str) -> dict[str, Any]:
        """The job in `wattfold show --json`."""
        answer: dict[str, Any] = json.loads(self.wattfold("--json", "show", job_id).stdout)
        return answer

    def recorded(self) -> list[dict[str, Any]]:
        """The record so far, without a line truncated by kill -9."""
        lines = self.record.read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in lines[:-1] if line]

    def check_record(self) -> None:
        """Check that the budget was kept at every line, and that no core was held twice."""
        lines = self.recorded()
        assert lines
        for line in lines:
            excused = any(since <= line["time_s"] <= until for since, until in self.lowered)
            assert excused or line["committed_w"] <= line["budget_w"] + 1e-6, line
            assert excused or line["measured_w"] <= line["budget_w"] + 1e-6, line
            seen: set[tuple[str, int]] = set()
            for held in line["held"].values():
                cores = {(node, cpu) for node, cpus in held["cores"].items() for cpu in cpus}
                assert not seen & cores, line
                seen |= cores


def _up(node: pb.Node) -> bool:
    return node.state == pb.NODE_STATE_UP


def _if(value: T, condition: Callable[[T], bool]) -> T | None:
    return value if condition(value) else None


def run_command(
    command: str,
    *arguments: str,
    cwd: Path | None = None,
    timeout_s: float = DEADLINE_S,
    stdin: Path = Path(os.devnull),
) -> subprocess.CompletedProcess[str]:
    """Run a command of this installation, with a plain environment."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WATTFOLD_")}
    with stdin.open("rb") as given:
        return subprocess.run(
            [str(Path(sys.executable).with_name(command)), *arguments],
            stdin=given,
            cwd=cwd,
            env=environment | {"NO_COLOR": "1", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


def thread_masks(pid: int) -> dict[int, CpuSet]:
    """The cores on which the kernel lets every thread of a process run."""
    found: dict[int, CpuSet] = {}
    for task in _tasks(pid):
        with _gone_is_fine():
            text = (task / "status").read_text()
            found[int(task.name)] = CpuSet.parse(text.split("Cpus_allowed_list:")[1].split()[0])
    return found


def thread_run_ns(pid: int) -> dict[int, int]:
    """The CPU time every thread of a process has used."""
    found: dict[int, int] = {}
    for task in _tasks(pid):
        with _gone_is_fine():
            found[int(task.name)] = int((task / "schedstat").read_text().split()[0])
    return found


def _tasks(pid: int) -> Iterable[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def _gone_is_fine() -> Any:
    import contextlib

    return contextlib.suppress(FileNotFoundError, ProcessLookupError)


def wait_pid_gone(pid: int, deadline_s: float = DEADLINE_S) -> None:
    """Wait for the end of a process that is not our child."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([fd], [], [], deadline_s)[0], f"process {pid} is still there"
    finally:
        os.close(fd)


@functools.cache
def built() -> bool:
    """Whether the example programs exist."""
    return SHIM.exists() and os.access(EXAMPLES / "compute", os.X_OK)


def uw(watts: float) -> int:
    return uw_from_w(watts)


SIGSTOP, SIGCONT = signal.SIGSTOP, signal.SIGCONT


def _marked(folder: str) -> list[psutil.Process]:
    """Processes of jobs of a site, found by their environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            told = process.environ()
            ours = told.get(MARK) == folder and "WATTFOLD_JOB_ID" in told
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
