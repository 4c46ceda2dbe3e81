"""GPUs of a real agent: emulated GPUs that a cap slows, and devices with one owner."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from system.agent.agent_process import AgentProcess, agent, alive, family, until
from system.agent.conftest import CPUS, EMULATE, emulation_file, need_two_cpus
from system.agent.test_agent_jobs import refused

from wattfold.v1 import node_agent_pb2 as pb

ONE, OTHER = map(str, (CPUS[0], CPUS[-1]))
A, B = "GPU-emulated-0", "GPU-emulated-1"
BURN = ["sh", "-c", "while :; do :; done"]
PLAIN = ("--masks", "affinity", "--throttle", "signals")
CPU_GROUPS = Path("/sys/fs/cgroup/cpu")
SMALL = """gpu_min_w = 30.0
gpu_max_w = 200.0
gpu_idle_w = 10.0
gpu_static_w = 10.0
gpu_full_w = 200.0
gpu_beta = 0.0
"""
"""At 30 W the clock is at 0.15 of its maximum, and all work slows accordingly."""


def inventory(running: AgentProcess) -> pb.Inventory:
    return running.stub.GetInventory(pb.GetInventoryRequest(), timeout=240)


@pytest.fixture
def gpu_agent(tmp_path: Path) -> Iterator[AgentProcess]:
    need_two_cpus()
    if os.geteuid() != 0 or not CPU_GROUPS.is_dir():
        pytest.skip("needs root and the CPU controller of version 1")
    config = Path(emulation_file(tmp_path))
    config.write_text("emulated_gpus = 2\n" + config.read_text() + SMALL)
    flags = ("--masks", "affinity", "--throttle", "cgroup")
    with agent("--config", str(config), *flags, *EMULATE) as running:
        yield running


def cores_allowed(running: AgentProcess, job: str) -> float:
    """CPU seconds per second that the kernel allows a job."""
    (group,) = CPU_GROUPS.glob(f"wattfold/{running.node}-*/{job}")
    quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    return int(quota) / int(period)


def test_emulated_gpus_are_told_as_such_and_their_caps_slow_their_job(
    gpu_agent: AgentProcess,
) -> None:
    told = inventory(gpu_agent)
    assert told.emulated
    assert (list(told.gpus), told.gpu_model) == ([A, B], "V100")
    assert told.gpu_access == pb.GPU_ACCESS_TOLD
    zones = {zone.name: zone for zone in told.zones if zone.kind == pb.ZONE_KIND_GPU}
    assert list(zones) == ["gpu-emulated-0", "gpu-emulated-1"]
    assert {zone.cap_uw for zone in zones.values()} == {30_000_000}, "at their floor without lease"

    gpu_agent.lease()
    gpu_agent.caps(package_0=95, dram_0=35, gpu_emulated_1=200)
    gpu_agent.launch("slow", BURN, ONE, gpus=[A], launch_cpus=1)
    assert cores_allowed(gpu_agent, "slow") == pytest.approx(0.15, abs=0.01)
    gpu_agent.cpu_rate("slow", 0.5)
    assert gpu_agent.cpu_rate("slow", 1.5) < 0.25
    message = gpu_agent.telemetry(
        lambda m: bool(m.jobs and m.jobs[0].gpu_uses and m.jobs[0].gpu_uses[0].busy_percent > 50)
    )
    (use,) = message.jobs[0].gpu_uses
    assert (use.gpu, use.HasField("memory_bytes")) == (A, False)
    assert 0 < use.power_uw <= 31_500_000
    by_name = {zone.name: zone.power_uw for zone in message.zones}
    assert by_name["gpu-emulated-1"] <= 10_500_000, "idle: nobody has it"
    gpu_agent.caps(gpu_emulated_0=200)
    until(lambda: cores_allowed(gpu_agent, "slow") == 1)
    before = gpu_agent.telemetry(lambda m: bool(m.jobs)).jobs[0]
    assert before.gpu_energy_uj >= use.energy_uj > 0
    gpu_agent.signal("slow", signal.SIGKILL)
    assert gpu_agent.ended("slow").gpu_energy_uj >= before.gpu_energy_uj


HOLD = """
import os, signal, sys, time
device = os.open("/dev/zero", os.O_RDONLY)
if os.fork() == 0:
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    open("child", "w").write(str(os.getpid()))
    time.sleep(1000)
time.sleep(1000)
"""
TRY = "for d in zero full null; do (: < /dev/$d) 2>/dev/null && printf 'yes ' || printf 'no '; done"


def holding_agent(folder: Path, *flags: str) -> tuple[str, ...]:
    config = Path(emulation_file(folder))
    top = 'gpus = ["0", "1"]\ngpu_devices = ["/dev/zero", "/dev/full"]\n'
    config.write_text(top + config.read_text())
    return ("--config", str(config), *PLAIN, *flags, *EMULATE)


def shown(running: AgentProcess, job: str) -> str:
    assert running.ended(job).exit_code == 0
    return (running.work() / f"wattfold-{job}.out").read_text()


@pytest.mark.parametrize(
    ("root", "mechanism", "file"),
    [
        ("/sys/fs/cgroup", pb.GPU_ACCESS_CGROUP_V1, "devices/devices.deny"),
        ("/sys/fs/cgroup/unified", pb.GPU_ACCESS_CGROUP_V2, "cgroup.controllers"),
        ("/sys/fs/cgroup", pb.GPU_ACCESS_CGROUP_V2, "cgroup.controllers"),
    ],
)
def test_a_device_has_one_owner_and_goes_on_when_nothing_of_that_is_alive(
    tmp_path: Path, root: str, mechanism: int, file: str
) -> None:
    need_two_cpus()
    if os.geteuid() != 0 or not (Path(root) / file).exists():
        pytest.skip(f"needs root and {root}/{file}")
    flags = ("--gpu-access", "cgroup", "--cgroup-root", root)
    with agent(*holding_agent(tmp_path, *flags)) as running:
        assert inventory(running).gpu_access == mechanism
        for name, gpus, answers in (("one", ["1"], "no yes yes "), ("none", [], "no no yes ")):
            running.launch(name, ["sh", "-c", TRY], ONE, gpus=gpus)
            assert shown(running, name) == answers
        running.launch("a", [sys.executable, "-c", HOLD], ONE, gpus=["0"])
        note = running.work() / "child"
        until(lambda: note.exists() and bool(note.read_text()))
        child = int(note.read_text())
        held = [pid for pid in family(running.processes()["a"].pid) if holds_zero(pid)]
        assert held
        running.signal("a", signal.SIGTERM, grace_s=0.2)
        told = ""
        while not told:
            gone = not any(alive(pid) for pid in {*held, child})
            try:
                running.launch("b", ["sh", "-c", TRY], OTHER, gpus=["0"])
            except grpc.RpcError as error:
                if "GPU 0 is held by job a" not in error.details():
                    raise
                continue
            assert gone or not any(alive(pid) for pid in {*held, child}), "two owners at once"
            told = shown(running, "b")
        assert told == "yes no yes "


def holds_zero(pid: int) -> bool:
    """Whether a process has the device open."""
    try:
        return any(os.readlink(fd) == "/dev/zero" for fd in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def test_without_groups_jobs_are_told_only(tmp_path: Path) -> None:
    need_two_cpus()
    flags = ("--gpu-access", "off", "--gpu-names", "index", "--gpu-model", "T4")
    with agent(*holding_agent(tmp_path, *flags)) as running:
        told = inventory(running)
        assert (told.gpu_access, told.gpu_model) == (pb.GPU_ACCESS_TOLD, "T4")
        show = ["sh", "-c", f"printf '%s|%s|' $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER; {TRY}"]
        running.launch("j", show, ONE, gpus=["1"])
        assert shown(running, "j") == "1|PCI_BUS_ID|yes yes yes "
        again = refused(
            lambda: running.launch("k", ["true"], OTHER, gpus=["2"]),
            grpc.StatusCode.INVALID_ARGUMENT,
        )
        assert "it has: 0, 1" in again
