"""Texts of processor maps, and destinations of objects."""

import platform
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.contract.processor_map import (
    COST,
    MapError,
    MapOrder,
    MapRefusedError,
    MapState,
    parse_order,
    parse_state,
    refusal,
)
from wattfold.shims.charm_map import Departures, MapKeeper, Place, Seat, balance, node_of_job

MAPS = st.lists(st.sampled_from([0, 1]), min_size=1, max_size=12).filter(any).map(bytes)
NUMBERS = st.integers(0, 2**22)


@given(MAPS, st.integers(1, 2**63 - 1))
def test_an_order_is_read_as_it_was_written(pe_map, number):
    order = MapOrder(id=number, map=pe_map)
    assert parse_order(order.text(), len(pe_map)) == order


def pes_on(count):
    return st.lists(st.integers(0, 9), min_size=count, max_size=count).map(tuple)


@given(MAPS, NUMBERS, NUMBERS, st.data())
def test_a_state_is_read_as_it_was_written(pe_map, wanted, in_force, data):
    row = st.lists(NUMBERS, min_size=len(pe_map), max_size=len(pe_map)).map(tuple)
    state = MapState(
        wanted=wanted,
        in_force=in_force,
        map=pe_map,
        objects=data.draw(row),
        pids=data.draw(row),
        nodes=data.draw(st.just(()) | pes_on(len(pe_map))),
        stalled_ns=data.draw(st.just(-1) | NUMBERS),
        moved_bytes=data.draw(st.just(-1) | NUMBERS),
    )
    assert parse_state(state.text(cost=True)) == state
    # A reader that does not ask for the cost may predate this field.
    assert b"=" not in state.text()
    assert parse_state(state.text()) == replace(state, stalled_ns=-1, moved_bytes=-1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"WFMAP2 1 1 1 1 1",
        b"WFMAP1",
        b"WFMAP1 1 1 1 1",
        b"WFMAP1 1 1 11 1,2 3",
        b"WFMAP1 1 1 1 -1 3",
        b"WFMAP1 1 1 1 1 3 1,2",
        b"WFMAP1 1 1 1 1 3 1 1",
        b"WFMAP1 1 1 2 1 3",
        b"WFMAP1 1 1 1 1 3 stalled=x",
        b"WFMAP1 1 1 1 1 3 moved=-1",
        b"WFMAP1 stalled=1 moved=1",
        b"WFMAP1 1 1 0 1 3",
        b"WFMAP1 1 99999999999999999999999 1 1 3",
    ],
)
def test_what_is_no_state_is_refused(data):
    with pytest.raises(MapError):
        parse_state(data)


def test_a_refusal_keeps_its_reason():
    with pytest.raises(MapRefusedError, match=r"^no PE left$"):
        parse_state(refusal("no PE left"))


@given(st.data(), MAPS)
def test_objects_go_evenly_to_the_map_with_the_fewest_moves(data, pe_map):
    places = data.draw(st.lists(st.integers(0, len(pe_map) - 1), max_size=60))
    targets = balance(places, pe_map)
    counts = Counter(targets)
    enabled = [pe for pe, use in enumerate(pe_map) if use]
    assert set(counts) <= set(enabled)
    assert max(counts[pe] for pe in enabled) - min(counts[pe] for pe in enabled) <= 1
    before = Counter(places)
    kept = sum(old == new for old, new in zip(places, targets, strict=True))
    assert kept == sum(min(before[pe], counts[pe]) for pe in enabled)
    assert balance(targets, pe_map) == targets


def place(pe, pid):
    import platform

    return Place(array=0, index=pe, pe=pe, pid=pid, host=platform.node())


def test_the_last_map_before_a_step_counts_and_none_is_called_applied_early():
    keeper = MapKeeper(2)
    assert not keeper.pending
    keeper.order(b"WFMAP1 7 10")
    first = keeper.wanted
    keeper.order(b"WFMAP1 8 01")
    keeper.applied(first, [place(0, 11), place(0, 11)])
    state = parse_state(keeper.say())
    assert (state.wanted, state.in_force, state.map) == (8, 7, b"\1\0")
    assert (state.objects, state.pids) == ((2, 0), (11, 0))
    assert keeper.pending


def test_what_a_map_has_cost_is_told_who_asks_until_the_next_one():
    keeper = MapKeeper(1)
    keeper.applied(keeper.wanted, [place(0, 11)], stalled_ns=31, moved_bytes=4096)
    asked, unasked = parse_state(keeper.answer(COST)), parse_state(keeper.answer(b""))
    assert (asked.stalled_ns, asked.moved_bytes) == (31, 4096)
    assert (unasked.stalled_ns, unasked.moved_bytes) == (-1, -1)
    keeper.applied(keeper.wanted, [place(0, 11)])
    assert keeper.answer(COST) == keeper.say()


class FakeCharm:
    """Packs departing objects, as the runtime does."""

    def arrayElemLeave(self, array, index):  # noqa: N802 - charm4py's name
        return b"x" * (array + index)


def test_bytes_of_chares_that_leave_are_counted():
    charm, departures = FakeCharm(), Departures()
    departures.watch(charm)
    assert departures.total == 0
    assert charm.arrayElemLeave(40, 2) == b"x" * 42
    assert charm.arrayElemLeave(0, 8) == b"x" * 8
    assert departures.total == 50


def test_where_they_cannot_be_seen_that_is_said():
    departures = Departures()
    departures.watch(object())
    assert departures.total == -1


def test_a_wrong_map_changes_nothing():
    keeper = MapKeeper(2)
    for data in (b"", b"WFMAP1 1 111", b"WFMAP1 0 11", b"WFMAP1 1 00"):
        with pytest.raises(MapRefusedError):
            parse_state(keeper.order(data))
    assert not keeper.pending


def test_processes_of_other_hosts_are_not_told():
    keeper = MapKeeper(2)
    keeper.applied(keeper.wanted, [Place(array=0, index=0, pe=1, pid=5, host="elsewhere?")])
    assert parse_state(keeper.say()).pids == (0, 0)


def test_a_program_over_nodes_says_where_its_pes_are():
    here = platform.node()
    seats = [Seat(pe=pe, pid=50 + pe, host=here, node=1 + pe // 2) for pe in range(4)]
    state = parse_state(MapKeeper(4, seats).say())
    assert (state.nodes, state.pids) == ((1, 1, 2, 2), (50, 51, 52, 53))
    alone = [Seat(pe=0, pid=50, host="elsewhere", node=0)]
    state = parse_state(MapKeeper(1, alone).say())
    assert (state.nodes, state.pids) == ((), (0,))


@pytest.mark.parametrize(
    ("told", "node"),
    [
        ({}, 0),
        ({"WATTFOLD_RANKS": "1", "WATTFOLD_RANK": "0"}, 0),
        ({"WATTFOLD_RANKS": "3", "WATTFOLD_RANK": "0"}, 1),
        ({"WATTFOLD_RANKS": "3", "WATTFOLD_RANK": "2"}, 3),
        ({"WATTFOLD_RANKS": "3", "WATTFOLD_RANK": "x"}, 0),
    ],
)
def test_which_node_a_process_is_on(told, node):
    assert node_of_job(told) == node
