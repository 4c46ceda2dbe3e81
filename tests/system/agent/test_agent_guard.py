"""A killed agent: its guard ends the lease, unless a new agent is in charge."""

import json
import os
import select
import signal
import tempfile
import time
from pathlib import Path

import pytest
from system.agent.agent_process import AgentProcess, alive, until, wait_gone
from system.agent.conftest import EMULATE, emulation_file, need_two_cpus
from system.agent.test_agent_jobs import BOTH, BURN

PACKAGE = "run/powercap/intel-rapl:0"
LIMIT = "constraint_0_power_limit_uw"


@pytest.fixture
def killable():
    """An agent that a test may kill."""
    need_two_cpus()
    with tempfile.TemporaryDirectory(prefix="wattfold-") as folder:
        root = Path(folder)
        running = AgentProcess(root, "--config", emulation_file(root), *EMULATE)
        running.flags += ("--masks", "affinity", "--throttle", "signals")
        yield running.start()
        if running.process.poll() is None:
            running.stop()


def limits(running: AgentProcess) -> list[int]:
    """Package and DRAM limit, microwatts."""
    package = running.root / PACKAGE
    return [_number(zone / LIMIT) for zone in (package, package / "intel-rapl:0:0")]


def _number(path: Path) -> int:
    """Read a file of the tree. These are plain files: a writer leaves them empty for a moment."""
    found = [""]

    def filled() -> bool:
        found[0] = path.read_text()
        return found[0] != ""

    until(filled)
    return int(found[0])


def guard_pid(running: AgentProcess) -> int:
    return int(json.loads((running.root / "state/guard.json").read_text())["pid"])


def lapse(running: AgentProcess) -> dict[str, object] | None:
    path = running.root / "state/guard-lapse.json"
    return json.loads(path.read_text()) if path.exists() else None


def test_the_guard_of_a_killed_agent_goes_to_the_floor_when_the_lease_ends(killable):
    pid = guard_pid(killable)
    asked_ns = time.monotonic_ns()
    killable.lease(2.0)
    killable.caps(package_0=60, dram_0=20)
    killable.kill()
    found = limits(killable)
    # The lease ends no earlier than this: values read before it must be the caps.
    while time.monotonic_ns() < asked_ns + 2_000_000_000:
        assert found == [60_000_000, 20_000_000]
        select.select([], [], [], 0.01)
        found = limits(killable)
    assert wait_gone(pid)
    assert limits(killable) == [15_000_000, 8_000_000]
    record = lapse(killable)
    assert record["late_ns"] >= 0
    assert record["failed"] == []
    killable.start()
    assert "event=guard_set_floors" in killable.log()
    assert lapse(killable) is None
    assert killable.stop() == 0
    assert limits(killable) == [15_000_000, 8_000_000]


def test_a_new_agent_relieves_the_guard_of_the_killed_one(killable):
    old = guard_pid(killable)
    killable.lease(1.0)
    end_ns = time.monotonic_ns() + 1_000_000_000
    killable.caps(package_0=60)
    killable.kill()
    killable.start()
    assert wait_gone(old)
    assert guard_pid(killable) != old
    killable.lease(60)
    killable.caps(package_0=50, dram_0=20)
    until(lambda: time.monotonic_ns() > end_ns)
    killable.telemetry(lambda m: m.uptime_ns > 1_500_000_000)
    assert limits(killable) == [50_000_000, 20_000_000]


def test_a_killed_guard_is_replaced_and_the_new_one_knows_everything(killable):
    asked_ns = time.monotonic_ns()
    killable.lease(3)
    killable.caps(package_0=60)
    old = guard_pid(killable)
    os.kill(old, signal.SIGKILL)
    until(lambda: guard_pid(killable) != old)
    new = guard_pid(killable)
    assert "event=guard_ended" in killable.log()
    until(lambda: killable.log().count("event=guard_started") == 2)
    killable.kill()
    assert wait_gone(new)
    # It did not treat the lease as ended.
    assert time.monotonic_ns() >= asked_ns + 3_000_000_000
    assert limits(killable) == [15_000_000, 8_000_000]


def stop_under_caps(running: AgentProcess) -> None:
    """Stops an agent before its lease ends, of a second where the machine is fast enough."""
    lease_s = 1.0
    while True:
        running.lease(lease_s)
        running.caps(package_0=60, dram_0=20)
        running.process.send_signal(signal.SIGSTOP)
        until(lambda: Path(f"/proc/{running.process.pid}/stat").read_text().split()[2] == "T")
        if limits(running) == [60_000_000, 20_000_000]:
            return
        running.process.send_signal(signal.SIGCONT)
        lease_s *= 2


def test_a_stopped_agent_does_not_outlive_its_lease(killable):
    stop_under_caps(killable)
    try:
        until(lambda: lapse(killable) is not None)
        assert limits(killable) == [15_000_000, 8_000_000]
    finally:
        killable.process.send_signal(signal.SIGCONT)
    killable.telemetry(lambda m: m.at_floor)
    killable.lease(60)
    assert killable.caps(package_0=60)[0].enforced_uw == 60_000_000


def test_an_orderly_stop_leaves_no_guard_and_the_floors(killable):
    pid = guard_pid(killable)
    killable.lease(0.5)
    killable.caps(package_0=60)
    assert killable.stop() == 0
    assert not alive(pid)
    assert limits(killable) == [15_000_000, 8_000_000]
    assert lapse(killable) is None
    assert not (killable.root / "state/guard.json").exists()


def test_signals_to_agent_and_guard_together_are_an_orderly_stop(killable):
    pid = guard_pid(killable)
    os.kill(pid, signal.SIGTERM)
    os.kill(pid, signal.SIGINT)
    assert killable.stop() == 0
    assert not alive(pid)
    assert limits(killable) == [15_000_000, 8_000_000]


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/sys/fs/cgroup/cpu/cpu.shares").exists(),
    reason="needs root and the CPU bandwidth controller",
)
def test_emulated_quotas_fall_to_the_floor():
    need_two_cpus()
    with tempfile.TemporaryDirectory(prefix="wattfold-") as folder:
        root = Path(folder)
        config = ("--config", emulation_file(root), *EMULATE)
        running = AgentProcess(root, *config, "--masks", "affinity", "--throttle", "cgroup")
        running.flags += ("--kill-jobs-on-exit",)
        running.start()
        running.lease(60)
        running.caps(package_0=95, dram_0=35)
        pid = running.launch("burn", BURN, BOTH).pid
        quota = cpu_group(pid) / "cpu.cfs_quota_us"
        until(lambda: int(quota.read_text()) == 100_000)
        guard = guard_pid(running)
        running.lease(0.5)
        running.kill()
        assert wait_gone(guard)
        # 15 W of at most 50.76 W leave 8 % of the speed on both cores.
        period_us = int((quota.parent / "cpu.cfs_period_us").read_text())
        assert 0.1 < int(quota.read_text()) / period_us < 0.2
        assert lapse(running)["failed"] == []
        running.start()
        assert int(quota.read_text()) / period_us < 0.2
        assert running.stop() == 0
        assert not alive(pid)


def cpu_group(pid: int) -> Path:
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return Path("/sys/fs/cgroup/cpu") / path.lstrip("/")
    raise AssertionError("no cpu controller")
