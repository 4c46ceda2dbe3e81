"""A node that has left takes no lease while one of its zones cannot be capped."""

from __future__ import annotations

import pytest
from property.agent.emulated_node import EmulatedNode, S
from property.agent.test_power_stateful import PowerLife
from waiting import at_once

from wattfold.nodeagent.core.errors import WrongState
from wattfold.nodeagent.emulation.fixtures import load_fixture


def test_a_node_that_had_left_takes_no_lease_with_a_zone_that_is_away() -> None:
    """The counterexample of a search with new random examples."""
    life = PowerLife()
    life.first_start(name="pl2-below-pl1")
    life.leave()
    life.holds()
    life.a_zone_vanishes(number=0)
    life.holds()
    life.renew(seconds=0.05)
    life.holds()
    life.teardown()


def test_the_lease_is_refused_by_name_and_taken_when_the_zone_is_back() -> None:
    node = EmulatedNode(load_fixture("xeon-e5-2620").machine)
    node.start()
    assert node.leave() == {}
    assert node.power is not None
    folder = node.folders["package-0"]
    node.model.vanish(folder)
    with pytest.raises(WrongState, match=r"dram-0 \(intel-rapl:0:0\) cannot be read"):
        at_once(node.power.renew(S))
    assert node.power.left
    assert not node.saved(), "nothing is changed"
    node.model.appear(folder)
    at_once(node.power.renew(S))
    assert not node.power.left
    assert node.power.at_floor is False
    assert node.model.enforced_uw(folder) == node.power.zones["package-0"].floor_uw  # type: ignore[index]
