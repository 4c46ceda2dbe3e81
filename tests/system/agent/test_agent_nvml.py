"""An agent with NVML GPUs: the real Python package on a library written for the test."""

from __future__ import annotations

import shutil
import signal
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from system.agent.agent_process import AgentProcess, agent, until
from system.agent.conftest import CPUS

from wattfold.v1 import node_agent_pb2 as pb

SOURCE = Path(__file__).with_name("nvml.c")
GPU = struct.Struct("=IIII")
LIMIT, PERSISTENT, LOAD, HANGS = range(4)
RSS_MAX = 80 << 20


@dataclass(frozen=True)
class Machine:
    """Two GPUs, each with limit, persistence mode, load (mW), and whether it hangs."""

    state: Path

    def __getitem__(self, index: int) -> tuple[int, ...]:
        return GPU.unpack_from(self.state.read_bytes(), index * GPU.size)

    def put(self, index: int, field: int, value: int) -> None:
        with self.state.open("r+b") as file:
            file.seek(index * GPU.size + 4 * field)
            file.write(struct.pack("=I", value))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    pytest.importorskip("pynvml")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SOURCE], check=True)
    made = Machine(tmp_path / "gpus")
    made.state.write_bytes(GPU.pack(300_000, 0, 150_000, 0) * 2)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("NVML_STATE", str(made.state))
    yield made
    for index in (0, 1):
        made.put(index, HANGS, 0)


@pytest.fixture
def nvml_agent(machine: Machine, tmp_path: Path) -> Iterator[AgentProcess]:
    (tmp_path / "powercap").mkdir()
    flags = ("--powercap-root", str(tmp_path / "powercap"), "--cpus", str(CPUS[0]))
    with agent(*flags, "--masks", "affinity", "--job-groups", "off") as running:
        yield running


def rss_bytes(pid: int) -> int:
    """Resident memory of a process, from its status."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) << 10


def test_gpus_are_told_capped_measured_and_given(
    machine: Machine, nvml_agent: AgentProcess
) -> None:
    told = nvml_agent.stub.GetInventory(pb.GetInventoryRequest(), timeout=240)
    assert (list(told.gpus), told.gpu_model) == (["GPU-test-0", "GPU-test-1"], "V100")
    assert [machine[i][LIMIT] for i in (0, 1)] == [100_000, 100_000], "the floor"
    assert machine[0][PERSISTENT] == 1
    nvml_agent.lease()
    (result,) = nvml_agent.caps(gpu_test_0=200)
    assert (result.status, result.enforced_uw) == (pb.CAP_STATUS_OK, 200_000_000)
    assert machine[0][LIMIT] == 200_000
    seen = 'printf "%s|%s" "$CUDA_VISIBLE_DEVICES" "${ROCR_VISIBLE_DEVICES-none}"; exec sleep 100'
    nvml_agent.launch("j", ["sh", "-c", seen], str(CPUS[0]), gpus=["GPU-test-0"], launch_cpus=1)
    message = nvml_agent.telemetry(lambda m: bool(m.jobs) and m.jobs[0].gpu_energy_uj > 100_000_000)
    (use,) = message.jobs[0].gpu_uses
    assert (use.busy_percent, use.memory_bytes) == (83, 5 << 30)
    assert 100_000_000 < use.power_uw <= 151_000_000
    assert (nvml_agent.work() / "wattfold-j.out").read_text() == "GPU-test-0|none"
    assert nvml_agent.process is not None
    assert rss_bytes(nvml_agent.process.pid) < RSS_MAX
    nvml_agent.signal("j", signal.SIGKILL)
    assert nvml_agent.ended("j").gpu_energy_uj > 100_000_000


def test_a_driver_that_hangs_holds_up_nobody_and_its_gpu_is_charged_the_most(
    machine: Machine, nvml_agent: AgentProcess
) -> None:
    nvml_agent.lease(60)
    assert nvml_agent.caps(gpu_test_1=250)[0].enforced_uw == 250_000_000
    machine.put(1, HANGS, 1)
    sick, well = nvml_agent.caps(gpu_test_1=120, gpu_test_0=180)
    assert (well.status, well.enforced_uw) == (pb.CAP_STATUS_OK, 180_000_000)
    assert (sick.status, sick.enforced_uw) == (pb.CAP_STATUS_DEVICE_ERROR, 250_000_000)
    assert "its driver has not answered for" in sick.message
    assert nvml_agent.lease(60).remaining_ns > 0
    until(lambda: "device_not_responding" in nvml_agent.log())
    assert nvml_agent.telemetry(lambda m: bool(m.zones)).zones[1].cap_uw == 250_000_000
    machine.put(1, HANGS, 0)
    # The last command takes effect as soon as possible.
    until(lambda: machine[1][LIMIT] == 120_000)
    assert machine[0][LIMIT] == 180_000
