"""Agents on emulated machines of fixtures, from the view of other programs and processes."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from contract.agent.behaving_trees import mounted, why_no_fuse
from system.agent.agent_process import AgentProcess, until

from wattfold.v1 import node_agent_pb2 as pb

pytestmark = pytest.mark.skipif(bool(why_no_fuse()), reason=why_no_fuse() or "FUSE works")
LONG = "intel-rapl:0/constraint_0_power_limit_uw"
IN_NAMESPACE = """
mount -t tmpfs none /sys/class && mkdir /sys/class/powercap &&
mount --bind "$1" /sys/class/powercap && shift && exec "$@"
"""


@pytest.fixture
def machine():
    """An agent on two Xeon E5-2620. The agent and the machine are ended after the test."""
    with tempfile.TemporaryDirectory(prefix="wattfold-") as folder:
        agent = AgentProcess(
            Path(folder), "--emulate", "xeon-e5-2620", "--masks", "affinity", "--kill-jobs-on-exit"
        )
        agent.flags += ("--restore-on-stop",)
        agent.start()
        try:
            yield agent
        finally:
            if agent.process is None or agent.process.poll() is not None:
                agent.start()
            assert agent.stop() == 0, agent.log()
            assert not os.path.ismount(tree(agent))


def tree(agent: AgentProcess) -> Path:
    return agent.root / "run/powercap"


def limit_uw(agent: AgentProcess, file: str = LONG) -> int:
    return int((tree(agent) / file).read_text())


def by_other_programs(root: Path, *command: str) -> str:
    """Return the output of a program that sees the tree at /sys/class/powercap, in its own
    namespace.
    """
    if os.geteuid() != 0 or shutil.which(command[0]) is None:
        pytest.skip(f"needs root and {command[0]} of powercap-utils")
    run = ["unshare", "-m", "sh", "-c", IN_NAMESPACE, "sh", str(root), *command]
    return subprocess.run(run, capture_output=True, text=True, check=True, timeout=240).stdout


def test_powercap_utils_read_it_as_they_read_hardware(tmp_path):
    with mounted("sapphire-rapids-2s", tmp_path / "powercap") as root:
        info = by_other_programs(root, "powercap-info", "-p", "intel-rapl")
        rapl = by_other_programs(root, "rapl-info")
    for text in (info, rapl):
        assert [line.strip() for line in text.splitlines() if "name: p" in line] == [
            "name: package-0",
            "name: psys",
            "name: package-1",
        ]
        assert "power_limit_uw: 350000000" in text
        assert "max_energy_range_uj: 4294967295000000" in text


def test_what_another_program_sets_is_set(tmp_path):
    with mounted("xeon-8260-4s", tmp_path / "powercap") as root:
        arguments = ("-p", "intel-rapl", "-z", "0", "-c", "0", "-l", "100060000")
        by_other_programs(root, "powercap-set", *arguments)
        assert (root / LONG).read_text() == "100000000\n"


def test_an_agent_caps_it_and_restores_it(machine):
    found = machine.stub.GetInventory(pb.GetInventoryRequest())
    assert found.emulated
    assert [zone.name for zone in found.zones] == ["dram-0", "dram-1", "package-0", "package-1"]
    assert limit_uw(machine) == 25_000_000
    machine.lease()
    assert machine.caps(package_0=60.06)[0].enforced_uw == 60_000_000
    assert limit_uw(machine) == 60_000_000
    assert "power_limit_uw: 60000000" in by_other_programs(tree(machine), "rapl-info")
    message = machine.telemetry(lambda m: len(m.zones) == 4 and all(z.valid for z in m.zones))
    assert {z.name: z.cap_uw for z in message.zones}["package-0"] == 60_000_000


def test_the_machine_outlives_a_killed_agent_and_its_guard_acts(machine):
    machine.lease(2.0)
    machine.caps(package_0=70)
    machine.kill()
    # On a busy machine the lease may have ended.
    assert limit_uw(machine) in (70_000_000, 25_000_000)
    until(lambda: limit_uw(machine) == 25_000_000)
    machine.start()
    assert limit_uw(machine) == 25_000_000
    assert "emulated_machine_adopted" in machine.log()
    record = json.loads((machine.root / "state/originals.json").read_text())
    assert record["zones"]["package-0"]["intel-rapl:0/constraint_0_power_limit_uw"] == 95_000_000


def test_kills_one_after_another_do_not_lose_the_originals(machine):
    for cap_w in (40, 60, 80):
        machine.lease()
        assert machine.caps(package_0=cap_w)[0].enforced_uw == cap_w * 1_000_000
        machine.kill()
        machine.start()
        assert limit_uw(machine) == 25_000_000
    originals = json.loads((machine.root / "state/originals.json").read_text())["zones"]
    expected = {name: dict(values) for name, values in originals.items()}
    assert expected["package-0"]["intel-rapl:0/constraint_1_power_limit_uw"] == 114_000_000
    assert machine.stop() == 0
    assert not (machine.root / "state/originals.json").exists()
    assert "failed=0" in machine.log()


def test_another_writer_is_noticed(machine):
    machine.lease()
    machine.caps(package_1=50)
    (tree(machine) / "intel-rapl:1/constraint_0_power_limit_uw").write_text("95000000")
    machine.telemetry(lambda m: m.drift_count > 0)
    assert limit_uw(machine, "intel-rapl:1/constraint_0_power_limit_uw") == 50_000_000


def test_a_machine_that_cannot_be_served_ends_the_agent_with_a_reason(tmp_path):
    fixture = tmp_path / "machine.toml"
    fixture.write_text("title = ")
    broken = AgentProcess(tmp_path, "--emulate", str(fixture))
    with pytest.raises(AssertionError):
        broken.start()
    assert broken.process is not None
    assert broken.process.wait(240) == 2
    assert "machine.toml" in broken.log()
