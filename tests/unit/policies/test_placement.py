"""Allocation and release of cores."""

from __future__ import annotations

from unit.policies.snapshots import held, job, node

from wattfold.contract.ids import NodeId
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.resources.resizing import resize_in_place
from wattfold.coordinator.policies.resources.room import Room

N0 = NodeId("n0")


def test_the_node_that_is_filled_best_is_taken() -> None:
    room = Room([node("n0", 8), node("n1", 4), node("n2", 4)], 0)
    shares = room.find(job("a", 3, 3).spec, 3)
    assert shares is not None
    assert (shares[0].node_id, str(shares[0].cpus)) == ("n1", "0-2")


def test_whole_nodes_are_empty_ones() -> None:
    room = Room([node("n0", blocked="0"), node("n1"), node("n2")], 0)
    spec = job("a", 2, 2, unit=SizeUnit.NODES).spec
    shares = room.find(spec, 2)
    assert shares is not None
    assert [s.node_id for s in shares] == ["n1", "n2"]
    assert room.find(spec, 3) is None


def test_an_exclusive_job_needs_an_empty_node_and_gives_back_what_is_not_blocked() -> None:
    spec = job("a", 1, 1, exclusive=True).spec
    assert Room([node("n0", blocked="3")], 0).find(spec, 1) is None
    room = Room([node("n0", blocked="3")], 100)
    shares = held("a", "n0:0").shares
    room.take(shares, 30, alone=True)
    assert (str(room.free[N0]), room.power_uw) == ("", 70)
    room.give_back(shares, 30, alone=True)
    assert (str(room.free[N0]), room.power_uw) == ("0-2", 100)


def test_a_copy_is_independent() -> None:
    room = Room([node("n0")], 10)
    twin = room.copy()
    twin.take(held("a", "n0:0-1").shares, 3)
    assert (str(room.free[N0]), room.power_uw) == ("0-3", 10)
    assert (str(twin.free[N0]), twin.power_uw) == ("2-3", 7)
    twin.give_back(held("a", "n0:0-3").shares, 3, alone=True)
    assert str(twin.free[N0]) == "0-3"


def test_growing_takes_what_shrinking_left() -> None:
    room = Room([node("n0", 8)], 0)
    a = job("a", 1, 8, current=held("a", "n0:0-3"))
    b = job("b", 1, 8, current=held("b", "n0:4-5"))
    shares = resize_in_place([(b, 6), (a, 2)], room)
    assert {name: str(s[0].cpus) for name, s in shares.items()} == {"a": "0-1", "b": "2-7"}
    assert str(room.free[N0]) == ""


def test_growing_stops_where_nothing_is_free() -> None:
    room = Room([node("n0", 4, blocked="2")], 0)
    a = job("a", 1, 8, current=held("a", "n0:0-1"))
    assert str(resize_in_place([(a, 4)], room)["a"][0].cpus) == "0-1,3"
