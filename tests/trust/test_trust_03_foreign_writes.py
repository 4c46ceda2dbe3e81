"""Changes of a zone by another program are detected and undone, not only of long-term limits.

A real agent runs on simulated zones; the checks read their files. If a setting cannot be restored,
the agent reports this with the maximum possible power.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from contract.agent.behaving_trees import mounted, why_no_fuse
from system.agent.agent_process import AgentProcess, until
from system.agent.conftest import CPUS, need_two_cpus

from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.devices.zone_search import discover
from wattfold.nodeagent.emulation.fixtures import load_fixture
from wattfold.nodeagent.emulation.memory_files import MemoryFiles
from wattfold.nodeagent.emulation.tree_model import TreeModel
from wattfold.v1 import node_agent_pb2 as pb

need_fuse = pytest.mark.skipif(bool(why_no_fuse()), reason=why_no_fuse() or "FUSE works")
MSR, MMIO, OTHER = "intel-rapl:0", "intel-rapl-mmio:0", "intel-rapl:a"
LONG, SHORT = "constraint_0_power_limit_uw", "constraint_1_power_limit_uw"
WINDOW, SHORT_WINDOW = "constraint_0_time_window_us", "constraint_1_time_window_us"
CAP_UW = 60_000_000


@pytest.fixture(scope="module")
def tree() -> Iterator[tuple[AgentProcess, Path]]:
    """A package with two interfaces and a package with one interface, capped at 60 W."""
    need_two_cpus()
    with tempfile.TemporaryDirectory(prefix="wattfold-") as folder:
        root = Path(folder)
        with mounted("client-mmio", root / "zones") as zones:
            agent = AgentProcess(root, "--powercap-root", str(zones), "--gpus", "off")
            agent.flags += ("--cpus", ",".join(map(str, CPUS)), "--masks", "affinity")
            agent.start()
            agent.lease(600)
            results = agent.caps(package_0=60, package_10=60)
            assert [r.status for r in results] == [pb.CAP_STATUS_OK] * 2
            yield agent, zones
            assert agent.stop() == 0


@need_fuse
@pytest.mark.system
@pytest.mark.parametrize("folder", [MSR, MMIO, OTHER])
@pytest.mark.parametrize(
    ("file", "foreign"),
    [(SHORT, 250_000_000), (LONG, 90_000_000), (WINDOW, 55_967_744), (SHORT_WINDOW, 499_712)],
)
def test_a_foreign_write_is_undone(
    tree: tuple[AgentProcess, Path], folder: str, file: str, foreign: int
) -> None:
    agent, zones = tree
    path = zones / folder / file
    before = int(path.read_text())
    drifts = agent.telemetry(lambda m: True).drift_count
    path.write_text(str(foreign))
    assert int(path.read_text()) == foreign
    # A rewritten window is the next window that the register holds, never a longer window.
    until(lambda: before * 3 // 4 <= int(path.read_text()) <= before)
    assert agent.telemetry(lambda m: m.drift_count > drifts).drift_count == drifts + 1


@need_fuse
@pytest.mark.system
@pytest.mark.parametrize("folder", [MSR, MMIO, OTHER])
def test_a_zone_that_was_switched_off_is_switched_on(
    tree: tuple[AgentProcess, Path], folder: str
) -> None:
    _, zones = tree
    switch = zones / folder / "enabled"
    switch.write_text("0")
    until(lambda: switch.read_text().strip() == "1")


class Machine:
    """The same zones in memory with one cap set. Writes can be made to fail."""

    def __init__(self) -> None:
        self.model = TreeModel(load_fixture("client-mmio").machine)
        self.zone = discover(MemoryFiles(self.model), RangeSetting())[1]
        self.zone.saved(self.zone.snapshot())

    def fail(self, file: str, times: int) -> None:
        self.model.fail_next(OTHER, file, 61, times)


def test_a_refused_short_term_limit_is_what_is_reported_until_it_is_set() -> None:
    machine = Machine()
    machine.zone.write_cap_uw(90_000_000)
    machine.fail(SHORT, times=1)
    assert machine.zone.write_cap_uw(CAP_UW) == 90_000_000
    assert list(machine.zone.owed()) == [f"{OTHER}/{SHORT}"]
    machine.zone.retry_owed(CAP_UW)
    assert machine.zone.owed() == {}
    assert machine.zone.read_cap_uw() == CAP_UW


def test_a_refused_window_is_told_and_the_window_that_holds_is_reported() -> None:
    machine = Machine()
    machine.zone.write_cap_uw(CAP_UW)
    machine.model.set_window(OTHER, "long_term", 27_983_872)
    look = machine.zone.look()
    assert [(c.key, c.held, c.found) for c in look.changes] == [
        (f"{OTHER}/{WINDOW}", 999_424, 27_983_872)
    ]
    assert machine.zone.window_ns == 27_983_872_000
    machine.fail(WINDOW, times=1)
    assert machine.zone.write_cap_uw(CAP_UW) == CAP_UW
    assert list(machine.zone.owed()) == [f"{OTHER}/{WINDOW}"]
    machine.zone.retry_owed(CAP_UW)
    assert machine.zone.look().changes == ()
    assert machine.zone.window_ns == 999_424_000


def test_a_switch_that_fails_once_is_owed() -> None:
    machine = Machine()
    machine.zone.write_cap_uw(CAP_UW)
    machine.model.zones[OTHER].enabled = False
    assert [c.key for c in machine.zone.look().changes] == [f"{OTHER}/enabled"]
    machine.model.zones[OTHER].enabled = True
    assert machine.zone.look().changes == ()
