"""An orderly stop cannot bypass the budget: floors stay, and originals return only on request.

Real agents run on simulated zones, with jobs. The checks read the files of the zones and the
kernel's own quotas, never reports of the agent.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from contract.agent.behaving_trees import mounted, why_no_fuse
from system.agent.agent_process import AgentProcess, alive, until, wait_gone
from system.agent.conftest import CPUS, EMULATE, emulation_file, need_two_cpus
from system.agent.test_agent_guard import cpu_group
from system.agent.test_agent_jobs import BOTH, refused

from wattfold.v1 import node_agent_pb2 as pb

pytestmark = pytest.mark.system
JOB = ["sh", "-c", "sleep 3600 & sleep 3600"]
FLOOR_W = 30
ORIGINALS = {"intel-rapl:0": (95, 114), "intel-rapl:1": (95, 114)}
"""Long-term and short-term limit of each package as set by the firmware, W."""
LONG, SHORT = "constraint_0_power_limit_uw", "constraint_1_power_limit_uw"
BANDWIDTH = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").parent / "cpu.shares"
need_fuse = pytest.mark.skipif(bool(why_no_fuse()), reason=why_no_fuse() or "FUSE works")
need_bandwidth = pytest.mark.skipif(
    os.geteuid() != 0 or not BANDWIDTH.exists(),
    reason="needs root and the CPU bandwidth controller",
)


class Node:
    """A machine whose zones survive every agent, and the agent on it."""

    def __init__(self, root: Path, zones: Path) -> None:
        self.zones = zones
        self.agent = AgentProcess(
            root, "--powercap-root", str(zones), "--floor-w", str(FLOOR_W), "--gpus", "off"
        )
        self.agent.flags += ("--cpus", ",".join(map(str, CPUS)), "--masks", "affinity")

    def limits_w(self, zone: str) -> tuple[int, int]:
        """Long-term and short-term limit of a zone, W."""
        long, short = (int((self.zones / zone / file).read_text()) for file in (LONG, SHORT))
        return long // 1_000_000, short // 1_000_000

    def at_floor(self) -> bool:
        return all(self.limits_w(zone) == (FLOOR_W, FLOOR_W) for zone in ORIGINALS)

    def as_found(self) -> bool:
        return all(self.limits_w(zone) == found for zone, found in ORIGINALS.items())

    def raise_caps(self, lease_s: float = 60) -> None:
        while True:
            self.agent.lease(lease_s)
            statuses = {one.status for one in self.agent.caps(package_0=80, package_1=70)}
            if statuses == {pb.CAP_STATUS_OK}:
                return
            # A short lease may have ended on a busy machine before the caps are set.
            assert pb.CAP_STATUS_NO_LEASE in statuses
            lease_s *= 2

    def guard_pid(self) -> int:
        return int(json.loads((self.agent.root / "state/guard.json").read_text())["pid"])

    def inventory(self) -> pb.Inventory:
        return self.agent.stub.GetInventory(pb.GetInventoryRequest(), timeout=240)

    def leave(self) -> pb.LeaveResponse:
        return self.agent.stub.Leave(pb.LeaveRequest(header=self.agent.header()), timeout=240)


@pytest.fixture
def node() -> Iterator[Node]:
    """Two Xeon E5-2620 as files, and an agent."""
    need_two_cpus()
    with tempfile.TemporaryDirectory(prefix="wattfold-") as folder:
        root = Path(folder)
        with mounted("xeon-e5-2620", root / "zones") as zones:
            found = Node(root, zones)
            found.agent.start()
            try:
                yield found
            finally:
                end(found.agent)


def end(agent: AgentProcess) -> None:
    """Kill the remaining processes of the agent and its jobs."""
    assert agent.process is not None
    if agent.process.poll() is None:
        agent.kill()
    agent.flags += ("--kill-jobs-on-exit",)
    agent.start()
    agent.stop()


def stop(node: Node) -> None:
    assert node.agent.stop() == 0, node.agent.log()


def kill(node: Node) -> None:
    guard = node.guard_pid()
    node.agent.kill()
    wait_gone(guard)


def kill_guard_then_stop(node: Node) -> None:
    os.kill(node.guard_pid(), signal.SIGKILL)
    stop(node)


def kill_guard_then_agent(node: Node) -> None:
    guard = node.guard_pid()
    node.agent.kill()
    with contextlib.suppress(ProcessLookupError):
        os.kill(guard, signal.SIGKILL)
    wait_gone(guard)


def stop_in_the_midst_of_a_stop(node: Node) -> None:
    assert node.agent.process is not None
    guard = node.guard_pid()  # A stop that is already over removes its record.
    node.agent.process.send_signal(signal.SIGTERM)
    node.agent.kill()
    wait_gone(guard)


@need_fuse
def test_a_stop_goes_to_the_floor_and_the_originals_stay_on_disk(node: Node) -> None:
    pid = node.agent.launch("sleeper", JOB, BOTH).pid
    node.raise_caps()
    stop(node)
    assert node.at_floor()
    assert alive(pid)
    record = json.loads((node.agent.root / "state/originals.json").read_text())
    assert record["zones"]["package-0"][f"intel-rapl:0/{LONG}"] == 95_000_000


@need_fuse
@pytest.mark.parametrize(
    "ends",
    [
        (stop, kill, stop),
        (kill, kill_guard_then_stop, stop_in_the_midst_of_a_stop, stop),
        (kill_guard_then_stop, kill, kill, stop_in_the_midst_of_a_stop),
    ],
)
def test_no_order_of_ends_and_restarts_frees_a_watt(
    node: Node, ends: tuple[Callable[[Node], None], ...]
) -> None:
    node.agent.launch("sleeper", JOB, BOTH)
    for end_it in ends:
        node.raise_caps(lease_s=1.0)
        end_it(node)
        until(node.at_floor)
        node.agent.start()
        assert node.at_floor()
    kill_guard_then_agent(node)
    assert node.at_floor()


def both_at_once(node: Node, guard: int) -> None:
    """The agent has no time to start another guard."""
    assert node.agent.process is not None
    node.agent.process.send_signal(signal.SIGSTOP)
    os.kill(guard, signal.SIGKILL)
    node.agent.kill()


def the_guard_after_the_agent(node: Node, guard: int) -> None:
    node.agent.kill()
    assert not node.at_floor()
    os.kill(guard, signal.SIGKILL)


@need_fuse
@pytest.mark.parametrize("kill_them", [both_at_once, the_guard_after_the_agent])
def test_the_keepers_of_jobs_stand_in_for_a_guard_that_is_killed_with_its_agent(
    node: Node, kill_them: Callable[[Node, int], None]
) -> None:
    jobs = [node.agent.launch(name, JOB, str(CPUS[n])).pid for n, name in enumerate(("a", "b"))]
    node.raise_caps(lease_s=3600)
    kill_them(node, node.guard_pid())
    until(node.at_floor)
    assert all(alive(pid) for pid in jobs)
    node.agent.start()
    until(lambda: "the agent and its guard were killed" in node.agent.log())
    node.raise_caps()
    stop(node)


@need_fuse
def test_a_keeper_leaves_a_node_alone_that_has_a_new_agent(node: Node) -> None:
    node.agent.launch("sleeper", JOB, BOTH)
    node.raise_caps()
    node.agent.kill()
    first = node.guard_pid()
    node.agent.start()
    node.raise_caps(lease_s=3600)
    wait_gone(first)
    os.kill(node.guard_pid(), signal.SIGKILL)
    # The agent is alive and has another guard, so its caps stay.
    until(lambda: node.agent.log().count("event=guard_started") == 3)
    assert node.limits_w("intel-rapl:0") == (80, 80)


@need_bandwidth
def test_jobs_under_emulated_caps_stay_slowed_to_the_floor() -> None:
    need_two_cpus()
    with tempfile.TemporaryDirectory(prefix="wattfold-") as folder:
        root = Path(folder)
        agent = AgentProcess(root, "--config", emulation_file(root), *EMULATE)
        agent.flags += ("--masks", "affinity", "--throttle", "cgroup")
        agent.start()
        try:
            agent.lease(60)
            agent.caps(package_0=95, dram_0=35)
            pid = agent.launch("sleeper", JOB, BOTH).pid
            quota = cpu_group(pid) / "cpu.cfs_quota_us"
            until(lambda: int(quota.read_text()) == 100_000)
            assert agent.stop() == 0
            assert alive(pid)
            limit = root / "run/powercap/intel-rapl:0" / LONG
            assert int(limit.read_text()) == 15_000_000
            period_us = int((quota.parent / "cpu.cfs_period_us").read_text())
            assert 0.1 < int(quota.read_text()) / period_us < 0.2
        finally:
            end(agent)


@need_fuse
def test_a_node_with_a_job_is_not_given_back(node: Node) -> None:
    node.agent.launch("sleeper", JOB, BOTH)
    node.raise_caps()
    assert "sleeper" in refused(node.leave, grpc.StatusCode.FAILED_PRECONDITION)
    assert node.limits_w("intel-rapl:0") == (80, 80)
    assert not node.inventory().left


@need_fuse
def test_a_node_that_leaves_gets_its_limits_back_and_is_left_alone(node: Node) -> None:
    assert {z.name: z.original_uw for z in node.inventory().zones}["package-0"] == 114_000_000, (
        "its short-term limit"
    )
    node.raise_caps()
    answer = node.leave()
    assert not answer.failures
    assert {cap.name: cap.cap_uw for cap in answer.caps}["package-0"] == 95_000_000
    assert node.as_found()
    for end_it in (stop, kill, kill_guard_then_stop, kill_guard_then_agent):
        end_it(node)
        node.agent.start()
        assert node.as_found()
        assert node.inventory().left
    (node.zones / "intel-rapl:0" / LONG).write_text("60000000")
    started = node.agent.telemetry(lambda m: m.uptime_ns > 1_500_000_000)
    assert started.drift_count == 0
    assert node.limits_w("intel-rapl:0") == (60, 114)


@need_fuse
def test_what_a_node_that_comes_back_holds_is_its_new_original(node: Node) -> None:
    node.leave()
    (node.zones / "intel-rapl:0" / LONG).write_text("60000000")
    node.agent.lease(60)
    assert node.at_floor()
    found = node.inventory()
    assert not found.left
    assert {z.name: z.original_uw for z in found.zones}["package-0"] == 114_000_000
    node.leave()
    assert node.limits_w("intel-rapl:0") == (60, 114)
    assert node.limits_w("intel-rapl:1") == (95, 114)


def restored(node: Node) -> subprocess.CompletedProcess[str]:
    """Run `wattfold-agent restore` with the options of the agent."""
    agent = node.agent
    command = [sys.executable, "-c", "from wattfold.nodeagent.app import main; main()", "restore"]
    folders = ["--state-dir", f"{agent.root}/state", "--run-dir", f"{agent.root}/run"]
    return subprocess.run(
        [*command, *folders, *agent.flags, "--base-power-w", "50"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@need_fuse
def test_the_word_of_somebody_on_the_node_restores_and_says_what_may_be_drawn(node: Node) -> None:
    refused_text = restored(node)
    assert refused_text.returncode == 1
    assert "another agent uses" in refused_text.stderr
    assert node.at_floor()
    node.raise_caps()
    # The guard of a killed agent waits for the end of the lease, and must not undo the restoration
    # then.
    node.agent.kill()
    done = restored(node)
    assert (done.returncode, done.stderr) == (0, "")
    # Two packages of 114 W by their short-term limits, two memories of 35 W, and 50 W base power.
    assert "this node may draw up to 348 W" in done.stdout
    assert "wattfold node leave" in done.stdout
    assert node.as_found()
    again = restored(node)
    assert again.returncode == 0
    assert "Nothing to restore" in again.stdout
    node.agent.start()
    assert node.at_floor()


@need_fuse
def test_an_older_coordinator_cannot_give_a_node_back(node: Node) -> None:
    node.agent.epoch = 7
    node.raise_caps()
    node.agent.epoch = 6
    refused(node.leave, grpc.StatusCode.ABORTED)
    assert node.limits_w("intel-rapl:0") == (80, 80)


@need_fuse
def test_no_job_is_started_on_a_node_that_was_given_back(node: Node) -> None:
    node.leave()
    text = refused(lambda: node.agent.launch("j", JOB, BOTH), grpc.StatusCode.FAILED_PRECONDITION)
    assert "left" in text


@need_bandwidth
def test_the_guard_knows_the_quota_of_a_job_from_its_start_to_its_end() -> None:
    with tempfile.TemporaryDirectory(prefix="wattfold-") as folder:
        root = Path(folder)
        agent = AgentProcess(root, "--config", emulation_file(root), *EMULATE)
        agent.flags += ("--masks", "affinity", "--throttle", "cgroup")
        agent.start()
        writes = root / "state/guard-writes.json"
        try:
            agent.launch("quick", ["sleep", "1000"], BOTH)
            assert "/quick/cpu" in writes.read_text()
            agent.signal("quick", signal.SIGKILL)
            agent.ended("quick")
            until(lambda: "/quick/cpu" not in writes.read_text())
        finally:
            end(agent)
