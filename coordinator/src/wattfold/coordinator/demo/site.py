"""A small site on this machine: agents and a coordinator as separate processes.

Everything lives in one private folder and ends with the `with` block, even after an error: first
the coordinator, then the agents, which end their jobs. Afterwards no process enforces the budget.
So the agents either restore the original limits (``restore_on_stop``) or leave their nodes at the
floors.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from wattfold.contract.cpuset import CpuSet

READY_S = 60.0
STOP_S = 20.0


class SiteError(Exception):
    """The site could not be started; the message names the part and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """An agent: the name of its node, its cores, and further lines of its configuration (TOML)."""

    node_id: str
    cpus: CpuSet
    settings: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePlan:
    """The parts to start. ``coordinator_settings`` are further lines of its configuration."""

    nodes: tuple[NodePlan, ...]
    budget_w: float
    policy: str
    coordinator_settings: str = ""
    omp_shim: Path | None = None
    restore_on_stop: bool = False
    kill_jobs: bool = True
    """Whether jobs end with their agent."""


class DemoSite:
    """Starts a site, ends it on exit."""

    def __init__(self, plan: SitePlan, logs: Path) -> None:
        self.plan = plan
        self.logs = logs
        # Socket paths are limited to 107 bytes: a short folder, not one below the logs.
        self.folder = Path(tempfile.mkdtemp(prefix="wf-"))
        self.state_dir = self.folder / "head"
        self.record = logs / "record.jsonl"
        self.environment: dict[str, str] = {}
        """Variables of the services, in addition to those of this process."""
        self._agents: list[subprocess.Popen[bytes]] = []
        self._coordinator: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> DemoSite:
        self.logs.mkdir(parents=True, exist_ok=True)
        self.record.unlink(missing_ok=True)
        try:
            for node in self.plan.nodes:
                self._agents.append(self._start_agent(node))
            for process, node in zip(self._agents, self.plan.nodes, strict=True):
                _await_ready(process, f"agent {node.node_id}", self.logs / f"{node.node_id}.log")
            self.start_coordinator()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """The address of the coordinator."""
        return f"unix:{self.state_dir / 'c.sock'}"

    def start_coordinator(self, *more: str) -> None:
        """Starts the coordinator, again after it was killed. ``more``: further arguments."""
        config = self.folder / "coordinator.toml"
        config.write_text(self._coordinator_config(), encoding="utf-8")
        log = self.logs / "coordinator.log"
        arguments = ["--config", str(config), "--record", str(self.record), "--verbose", *more]
        self._coordinator = _start("wattfold-coordinator", arguments, log, self.environment)
        _await_ready(self._coordinator, "coordinator", log)

    def kill_coordinator(self) -> None:
        """Kill the coordinator with SIGKILL, as in a crash."""
        assert self._coordinator is not None
        self._coordinator.kill()
        self._coordinator.wait()

    def stop_agent(self, index: int) -> None:
        """Stop an agent, as the shutdown of its node does."""
        _end([self._agents[index]])

    def start_agent(self, index: int) -> None:
        """Start an agent that was stopped, with its earlier configuration."""
        node = self.plan.nodes[index]
        log = self.logs / f"{node.node_id}.log"
        config = str(self.folder / f"{node.node_id}.toml")
        self._agents[index] = _start("wattfold-agent", ["--config", config], log, self.environment)
        _await_ready(self._agents[index], f"agent {node.node_id}", log)

    def stop(self) -> None:
        """End all started processes; safe to call twice, and during Ctrl-C."""
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            if self._coordinator is not None:
                _end([self._coordinator])
            _end(self._agents)
        finally:
            signal.signal(signal.SIGINT, before)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _coordinator_config(self) -> str:
        nodes = "".join(
            f'[[node]]\nid = "{n.node_id}"\naddress = "{self._agent_address(n)}"\n'
            for n in self.plan.nodes
        )
        return (
            f'listen = "{self.address}"\n'
            f'state_dir = "{self.state_dir}"\n'
            f"budget_w = {self.plan.budget_w}\n"
            f'policy = "{self.plan.policy}"\n'
            f"{self.plan.coordinator_settings}\n{nodes}"
        )

    def _agent_address(self, node: NodePlan) -> str:
        return f"unix:{self.folder / node.node_id / 'a.sock'}"

    def _start_agent(self, node: NodePlan) -> subprocess.Popen[bytes]:
        home = self.folder / node.node_id
        home.mkdir(mode=0o700, exist_ok=True)
        config = self.folder / f"{node.node_id}.toml"
        shim = f'omp_shim = "{self.plan.omp_shim}"\n' if self.plan.omp_shim else ""
        config.write_text(
            f'node_id = "{node.node_id}"\n'
            f'listen = "{self._agent_address(node)}"\n'
            f'state_dir = "{home / "state"}"\n'
            f'run_dir = "{home}"\n'
            f'cpus = "{node.cpus}"\n'
            f"kill_jobs_on_exit = {str(self.plan.kill_jobs).lower()}\n"
            f"restore_on_stop = {str(self.plan.restore_on_stop).lower()}\n"
            f"{shim}{node.settings}",
            encoding="utf-8",
        )
        log = self.logs / f"{node.node_id}.log"
        return _start("wattfold-agent", ["--config", str(config)], log, self.environment)


def _start(
    command: str,
    arguments: Sequence[str],
    log: Path,
    environment: dict[str, str],
) -> subprocess.Popen[bytes]:
    """Start a command of this installation in a session of its own, which Ctrl-C does not reach."""
    program = Path(sys.executable).with_name(command)
    with log.open("ab") as errors:
        return subprocess.Popen(
            [str(program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=os.environ | environment,
            start_new_session=True,
        )


def _await_ready(process: subprocess.Popen[bytes], what: str, log: Path) -> None:
    """Wait for the line of a service that reports its readiness."""
    assert process.stdout is not None
    line = _first_line(process.stdout, time.monotonic() + READY_S)
    if not line.startswith(b"ready"):
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:])
        raise SiteError(f"{what} did not start (log: {log}):\n{tail}")


def _first_line(stream: IO[bytes], until_s: float) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        left_s = until_s - time.monotonic()
        if left_s <= 0 or not select.select([stream], [], [], left_s)[0]:
            return line
        chunk = os.read(stream.fileno(), 4096)
        if not chunk:
            return line
        line += chunk
    return line


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    until_s = time.monotonic() + STOP_S
    for process in processes:
        try:
            process.wait(max(until_s - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
