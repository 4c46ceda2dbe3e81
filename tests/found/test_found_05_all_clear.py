"""A sum above the budget is shown with its causes, and its end is logged."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from unit.core.stage import PACKAGE, S, Stage, W

from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.adapters.budget_alarm import BudgetAlarm
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.site_messages import power_message
from wattfold.coordinator.adapters.learning.observations import NodeSample, Observations, ZoneSample
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.devices.zone_search import discover
from wattfold.nodeagent.emulation.fixtures import load_fixture
from wattfold.nodeagent.emulation.memory_files import MemoryFiles
from wattfold.nodeagent.emulation.tree_model import TreeModel
from wattfold.nodeagent.service.power.originals import Originals
from wattfold.nodeagent.service.power.zone_state import new_state
from wattfold.v1 import coordinator_pb2 as pb

N0, N1 = NodeId("n0"), NodeId("n1")
Said = list[str]


class Watched:
    """A site of two nodes whose alarm is updated after every event."""

    def __init__(self, caplog: pytest.LogCaptureFixture, budget_w: float) -> None:
        self.stage = Stage(budget_w)
        self.stage.up("n0", "n1")
        self._alarm = BudgetAlarm(lambda: self.stage.now_ns)
        self._caplog = caplog
        caplog.set_level(logging.WARNING)

    def said(self) -> Said:
        for _ in range(3):
            self._alarm.look(self.stage.core.state)
        lines = [record.message for record in self._caplog.records]
        self._caplog.clear()
        return lines

    def power(self) -> pb.Power:
        return power_message(self.stage.core.state, Observations(), Clock(), "test")


def test_a_lowered_budget_is_late_from_its_deadline_and_over_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    site = Watched(caplog, 100)
    stage = site.stage
    stage.run_job("a", "n0:0-3", cap_w=50)
    stage.budget(60, deadline_s=5)
    assert site.said() == []
    assert site.power().over_uw == 20 * W
    stage.caps_lost("n0")
    stage.silent("n0")
    stage.after(6)
    (late,) = site.said()
    assert late.startswith("event=budget_late over_w=20.0 budget_w=60.0 committed_w=80.0")
    cause = "nodes that do not answer and may still have a lease (n0) may draw 40.0 W above"
    assert cause in late
    assert cause in site.power().over_reason
    stage.after(1)
    assert site.said() == [], "neither again nor an end"
    stage.after(20)
    stage.after(2)
    (ended,) = site.said()
    assert ended.startswith("event=over_budget_ended budget_w=60.0 committed_w=40.0")
    assert (site.power().over_uw, site.power().over_reason) == (0, "")


def test_released_nodes_are_named_as_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    site = Watched(caplog, 100)
    stage = site.stage
    stage.order("n1", NodeOrder.LEAVE)
    stage.left("n1")
    stage.budget(50, deadline_s=1)  # As a journal of an earlier version may contain it.
    stage.after(2)
    (late,) = site.said()
    assert "event=budget_late" in late
    assert "released nodes with their original limits (n1) may draw 40.0 W above" in late
    assert "does not confirm" not in late
    for _ in range(5):
        stage.after(1)
        assert site.said() == []


def test_zones_that_break_their_word_are_named(caplog: pytest.LogCaptureFixture) -> None:
    site = Watched(caplog, 60)
    site.stage.send(reports.CapsNotHeld(node_id=N1, powers_uw=((PACKAGE, 55 * W),)))
    (over,) = site.said()
    assert over.startswith("event=over_budget over_w=25.0 budget_w=60.0 committed_w=85.0")
    assert "nodes that draw more than their caps (n1) may draw 45.0 W above" in over
    site.stage.send(reports.CapsNotHeld(node_id=N1, powers_uw=()))
    assert site.said() == [], "what was drawn counts for some windows more"
    site.stage.after(10)
    assert [line.split()[0] for line in site.said()] == ["event=over_budget_ended"]


class NoRecords:
    def read(self, name: str) -> dict[str, Any] | None:
        return None

    def write(self, name: str, record: dict[str, Any]) -> None:
        raise AssertionError

    def remove(self, name: str) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("long_w", "short_w", "charged_w"),
    [(100, 140, 140), (100, 80, 100), (100, 4000, 120), (4000, 140, 140)],
)
def test_a_node_that_left_is_charged_with_the_higher_of_its_limits(
    long_w: int, short_w: int, charged_w: int
) -> None:
    """4,000 W stands for "unlimited": then the highest known limit of the zone counts."""
    machine = load_fixture("sapphire-rapids-2s").machine
    model = TreeModel(machine)
    zones = discover(
        MemoryFiles(model), RangeSetting(package_uw_min=60 * W, package_uw_max=120 * W)
    )
    state = next(new_state(zone) for zone in zones if zone.name == "package-0")
    model.set_limit(state.zone.folder, "long_term", long_w * W)
    model.set_limit(state.zone.folder, "short_term", short_w * W)
    assert Originals(NoRecords(), "boot").original_uw(state) == charged_w * W


def test_a_returned_node_that_had_left_counts_with_them() -> None:
    stage = Stage(200)
    stage.up("n0", "n1")
    stage.order("n1", NodeOrder.LEAVE)
    stage.left("n1")
    stage.silent("n1")
    stage.order("n1", NodeOrder.FORGET_UNPOWERED)
    spec = stage.core.state.nodes[N1].spec
    assert spec is not None
    held = reports.ZoneReading(zone=PACKAGE, cap_uw=50 * W, original_uw=70 * W)
    stage.send(reports.NodeConnected(spec=spec, caps=(held,), processes=(), left=True))
    assert power_message(stage.core.state, Observations(), Clock(), "").outside_uw == 80 * W


def sample(power_w: float, at_ns: int) -> NodeSample:
    zone = ZoneSample(
        power_uw=round(power_w * W), energy_uj=1, energy_at_ns=at_ns, cap_uw=50 * W, valid=True
    )
    return NodeSample(
        node_id=N1,
        taken_ns=at_ns,
        base_power_uw=10 * W,
        zones={ZoneName("package-0"): zone},
        jobs={},
        drift_count=0,
    )


def test_what_a_silent_node_drew_last_is_remembered() -> None:
    seen = Observations()
    seen.take(sample(20, S))
    assert not seen.last
    seen.drop(N1)
    assert seen.last[N1] == (S, 30 * W)
    seen.take(sample(25, 2 * S))
    assert not seen.last, "it is heard again"
