"""A cap that is read back correctly is compared with the measured power once it has settled."""

import dataclasses

from property.agent.emulated_node import EmulatedNode, S

from wattfold.nodeagent.core.caps import CapStatus
from wattfold.nodeagent.emulation.fixtures import load_fixture


def node_that_holds_at_least(held_uw: int) -> EmulatedNode:
    """A package under full load whose firmware accepts lower limits but does not enforce them."""
    machine = load_fixture("pl2-below-pl1").machine
    zone = machine.zones[0]
    clipped = [dataclasses.replace(c, clip_uw_min=held_uw) for c in zone.constraints]
    zone = dataclasses.replace(zone, constraints=tuple(clipped))
    node = EmulatedNode(
        dataclasses.replace(machine, zones=(zone,), load=1.0, package_uw_min=20_000_000)
    )
    node.start()
    node.renew(3600 * S)
    return node


def cap(node: EmulatedNode, cap_uw: int):
    (outcome,) = node.set_caps({"package-0": cap_uw})
    return outcome


def test_a_cap_that_is_not_held_is_found_once_and_said():
    node = node_that_holds_at_least(60_000_000)
    assert cap(node, 30_000_000).status is CapStatus.OK
    node.pass_time(40)
    assert node.power is not None
    state = node.power.zones["package-0"]
    assert node.power.not_held_count == 1
    assert abs(state.over_uw - 60_000_000) < 2_000_000
    outcome = cap(node, 80_000_000)
    assert "drew 60.0 W" in outcome.message
    assert "under the previous cap" in outcome.message
    node.pass_time(60)
    assert state.over_uw == 0
    assert node.power.not_held_count == 1
    assert cap(node, 90_000_000).message == ""


def test_a_cap_that_is_held_is_not_doubted():
    node = node_that_holds_at_least(0)
    for cap_uw in (150_000_000, 40_000_000, 90_000_000):
        cap(node, cap_uw)
        node.pass_time(40)
    assert node.power is not None
    assert node.power.not_held_count == 0


def test_it_is_not_judged_before_it_has_settled():
    node = node_that_holds_at_least(0)
    cap(node, 200_000_000)
    node.pass_time(40)
    cap(node, 30_000_000)
    node.pass_time(15)
    assert node.power is not None
    assert node.power.not_held_count == 0
