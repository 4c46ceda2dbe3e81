"""A real Slurm on the loopback interface: munged, slurmctld and several slurmd.

Everything lives in one folder, and all daemons run in the foreground, so that the rig owns their
PIDs. The rig ends only its own processes. After its end it leaves no process, socket, control group
or file. Every wait has a limit.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "sinfo", "squeue")
CGROUPS = Path("/sys/fs/cgroup")
_UP_S = 60.0
_CALL_S = 60.0
_STOP_S = 20.0
_CONTROLLERS = ("cpuset", "freezer", "memory", "devices", "cpuacct", "cpu", "pids")
_CONF = """
ClusterName=rig
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.sock
CredType=cred/munge
SlurmctldPort={port}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool-%n
SlurmctldPidFile={root}/ctld.pid
SlurmdPidFile={root}/d-%n.pid
SlurmctldLogFile={root}/ctld.log
SlurmdLogFile={root}/d-%n.log
ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity,task/cgroup
PlugStackConfig={root}/plugstack.conf
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType={gather}
MpiDefault=none
ReturnToService=2
KillWait=2
"""
_NODE = (
    "NodeName={name} NodeAddr=127.0.0.1 NodeHostname=localhost Port={port} CPUs={cpus} Boards=1"
    " SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=2000\n"
)
_PARTITION = "PartitionName=main Nodes=ALL Default=YES State=UP\n"
_CGROUP_CONF = """
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainCores=yes
"""


_PACE_S = 0.02


class ClusterError(Exception):
    """Slurm could not be started, or refused a command."""


def missing() -> str:
    """Return why this machine cannot run the rig; empty if it can."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"needs Slurm and MUNGE; without {', '.join(absent)}"
    if os.geteuid() != 0:
        return "needs root"
    needed = "cpuset", "freezer"
    if not all((CGROUPS / name / "cgroup.procs").exists() for name in needed):
        return "needs the cpuset and freezer controllers of cgroup version 1"
    return ""


@dataclass(kw_only=True)
class SlurmCluster:
    """A running Slurm with nodes ``nodes`` below ``root``."""

    root: Path
    nodes: tuple[str, ...]
    cpus: int
    gather: str = "jobacct_gather/none"
    """JobAcctGatherType."""
    more: str = ""
    """Further lines of slurm.conf."""
    lua: str = ""
    """job_submit.lua; empty = none."""
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    commands: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """The environment for commands of Slurm."""
        outer = {n: v for n, v in os.environ.items() if not n.startswith(("SLURM_", "SBATCH_"))}
        return outer | {"SLURM_CONF": f"{self.root}/slurm.conf"}

    def start(self) -> None:
        """Start all daemons, and wait until all nodes are idle."""
        self._write_files()
        key, root = self.root / "munge.key", self.root
        munged = ["munged", "-F", "--force", f"--socket={root}/munge.sock", f"--key-file={key}"]
        munged += [f"--pid-file={root}/munge.pid", f"--log-file={root}/munge.log"]
        self._spawn("munged", [*munged, f"--seed-file={root}/munge.seed"])
        await_true("munged listens", (root / "munge.sock").exists, _UP_S)
        self.start_controller()
        for name in self.nodes:
            self._spawn(name, ["slurmd", "-D", "-N", name])
        await_true("the controller answers", self.is_up, _UP_S)
        await_true("all nodes are idle", lambda: self.states() == {"idle"}, _UP_S)

    def start_controller(self, *, clear: bool = True) -> None:
        """Start slurmctld. ``clear``: without the state of an earlier slurmctld."""
        self._spawn("slurmctld", ["slurmctld", "-D", "-c" if clear else "-i"])

    def stop(self) -> None:
        """End all jobs and daemons, and remove the control groups."""
        try:
            for command in self.commands:
                _end(command)
            if "slurmctld" in self.daemons:
                self.cancel_all()
        finally:
            for name in ("slurmctld", *self.nodes, "munged"):
                if name in self.daemons:
                    _end(self.daemons.pop(name))
            self._clear_groups()

    def _clear_groups(self) -> None:
        for group in self._groups():
            for pid in _processes(group):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        await_true("no step is left", lambda: not any(map(_processes, self._groups())), _STOP_S)
        await_true("the control groups are removed", self._remove_groups, _STOP_S)

    def cancel_all(self) -> None:
        """Cancel all jobs, and wait until Slurm knows none."""

        def is_empty() -> bool:
            jobs = self.call("squeue", "-h", "-o", "%A").split()
            if jobs:
                self.call("scancel", *jobs, check=False)
            return not jobs

        await_true("all jobs have ended", is_empty, _STOP_S)

    def call(self, *command: str, check: bool = True, uid: int | None = None) -> str:
        """Run a command of Slurm, and return its output."""
        done = self.begin(*command, uid=uid)
        try:
            out, _ = done.communicate(timeout=_CALL_S)
        finally:
            if done.poll() is None:
                done.kill()
                done.wait()
        if check and done.returncode:
            raise ClusterError(f"{' '.join(command)} failed ({done.returncode}): {out.strip()}")
        return out

    def begin(self, *command: str, uid: int | None = None) -> subprocess.Popen[str]:
        """Start a command of Slurm, with its output in a pipe."""
        drop: dict[str, Any] = {}
        if uid is not None:
            drop = {"user": uid, "group": uid, "extra_groups": []}
        begun: subprocess.Popen[str] = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.root / "work",
            env=self.environment,
            **drop,
        )
        self.commands.append(begun)
        return begun

    def states(self) -> set[str]:
        """Return the states of all nodes."""
        return set(self.call("sinfo", "-h", "-N", "-o", "%t", check=False).split())

    def log(self, name: str) -> str:
        """Return the log of a daemon: ``ctld``, or the name of a node."""
        path = self.root / (f"{name}.log" if name == "ctld" else f"d-{name}.log")
        return path.read_text(errors="replace") if path.exists() else ""

    def plugstack(self, text: str) -> None:
        """Set the plugins of Slurm's steps."""
        (self.root / "plugstack.conf").write_text(text)

    def is_up(self) -> bool:
        """Whether the controller answers."""
        return "is UP" in self.call("scontrol", "ping", check=False)

    def _spawn(self, name: str, command: Sequence[str]) -> None:
        with open(self.root / f"{name}.out", "ab") as out:
            self.daemons[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.environment
            )

    def _write_files(self) -> None:
        for name in ("state", "work", *(f"spool-{node}" for node in self.nodes)):
            (self.root / name).mkdir()
        (self.root / "work").chmod(0o777)
        key = self.root / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        ports = _free_ports(1 + len(self.nodes))
        conf = _CONF.format(root=self.root, port=ports[0], gather=self.gather)
        for name, port in zip(self.nodes, ports[1:], strict=True):
            conf += _NODE.format(name=name, port=port, cpus=self.cpus)
        (self.root / "slurm.conf").write_text(conf + _PARTITION + self.more)
        if self.lua:
            (self.root / "job_submit.lua").write_text(self.lua)
        (self.root / "cgroup.conf").write_text(_CGROUP_CONF)
        if not (self.root / "plugstack.conf").exists():
            self.plugstack("")

    def _groups(self) -> list[Path]:
        """Return all control groups of the nodes, innermost first."""
        tops = [CGROUPS / kind / f"slurm_{node}" for kind in _CONTROLLERS for node in self.nodes]
        found = [Path(folder) for top in tops for folder, _, _ in os.walk(top)]
        return sorted(found, key=lambda group: len(group.parts), reverse=True)

    def _remove_groups(self) -> bool:
        for group in self._groups():
            with contextlib.suppress(OSError):
                group.rmdir()
        return not self._groups()


@contextmanager
def slurm_cluster(
    nodes: int = 1, cpus: int = 2, word: str = "", **settings: Any
) -> Iterator[SlurmCluster]:
    """A started cluster in its own folder, which ends with the block.

    ``word`` begins the names of the nodes, which must be unique on this machine. Default: random.
    """
    with tempfile.TemporaryDirectory(prefix="wattfold-slurm-") as folder:
        root = Path(folder)
        # Steps of other accounts pass through it.
        root.chmod(0o755)
        first = word or f"w{secrets.token_hex(3)}"
        names = tuple(f"{first}n{number}" for number in range(nodes))
        cluster = SlurmCluster(root=root, nodes=names, cpus=cpus, **settings)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


def await_true(what: str, look: Callable[[], bool], limit_s: float) -> None:
    """Wait until a condition of other processes holds. Raises ClusterError after the limit."""
    pace, until_s = threading.Event(), time.monotonic() + limit_s
    while not look():
        if time.monotonic() > until_s:
            raise ClusterError(f"not within {limit_s:.0f} s: {what}")
        pace.wait(_PACE_S)


def _end(process: subprocess.Popen[Any]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def _processes(group: Path) -> list[int]:
    """Return the living processes of a control group."""
    try:
        return [int(word) for word in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []
