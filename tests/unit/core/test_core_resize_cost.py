"""Costs of resizes, learned from agents' reports per application and resize mode."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.core.stage import S, Stage, job_spec, on

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.jobs import resize_cost
from wattfold.coordinator.core.model.jobs.resize_cost import (
    KEPT_MAX,
    UNSEEN_NS,
    Costs,
    ResizeCost,
    cost_key,
    known_of,
    learn_again,
    learn_stall,
)
from wattfold.coordinator.core.model.jobs.spec import ResizeMode
from wattfold.coordinator.models.pass_model import SizeUnit

MS = S // 1000


def running(mode: ResizeMode) -> Stage:
    """A job of this mode on two of the four cores of a node, about to shrink to one core."""
    stage = Stage()
    stage.up("n0")
    stage.submit("a", job_spec(mode=mode))
    stage.plan(on("a", "n0:0-1", cap_w=10))
    stage.launched("n0", "a")
    stage.plan(on("a", "n0:0", cap_w=10))
    return stage


def followed(stage: Stage, **told: Any) -> None:
    stage.send(
        reports.MaskConfirmed(
            node_id=NodeId("n0"), job_id=JobId("a"), cpus=CpuSet.parse("0"), confined=False, **told
        )
    )


def expected_ns(stage: Stage) -> int:
    (view,) = stage.core.snapshot(stage.now_ns).jobs
    return view.resize_ns


@pytest.mark.parametrize("mode", list(ResizeMode))
def test_what_was_never_seen_has_a_cost_of_its_way(mode: ResizeMode) -> None:
    assert resize_cost.expected_ns({}, job_spec(mode=mode)) == UNSEEN_NS.get(mode, 0)


@pytest.mark.parametrize("mode", [ResizeMode.MAP, ResizeMode.REBUILD])
def test_the_stall_of_a_new_map_is_learnt(mode: ResizeMode) -> None:
    stage = running(mode)
    followed(stage, took_ns=90 * MS, stalled_ns=30 * MS, moved_bytes=5000)
    assert expected_ns(stage) == 30 * MS
    (cost,) = stage.core.state.restarts.values()
    assert (cost.count, cost.took_ns, cost.moved_bytes) == (1, 90 * MS, 5000)


def test_cores_without_a_new_map_say_nothing_of_it() -> None:
    stage = running(ResizeMode.MAP)
    followed(stage, took_ns=90 * MS)
    assert expected_ns(stage) == UNSEEN_NS[ResizeMode.MAP]


def test_on_cores_alone_a_program_works_on_until_it_has_followed() -> None:
    stage = running(ResizeMode.TEAM)
    followed(stage, took_ns=2 * MS)
    assert expected_ns(stage) == 0
    (cost,) = stage.core.state.restarts.values()
    assert (cost.count, cost.stall_ns, cost.took_ns) == (1, 0, 2 * MS)


def test_a_change_that_was_not_followed_is_not_learnt_from() -> None:
    stage = running(ResizeMode.TEAM)
    followed(stage)
    assert stage.core.state.restarts == {}


def test_ways_and_applications_are_kept_apart() -> None:
    costs: Costs = {}
    restart, by_map = job_spec(mode=ResizeMode.RESTART), job_spec(mode=ResizeMode.MAP)
    learn_stall(costs, restart, stall_ns=9 * S, took_ns=9 * S)
    learn_again(costs, restart, 3 * S)
    learn_stall(costs, by_map, stall_ns=MS, took_ns=2 * MS, moved_bytes=7)
    assert [(unit, mode) for unit, mode, _ in known_of(costs, restart.app)] == [
        (SizeUnit.CORES, ResizeMode.MAP),
        (SizeUnit.CORES, ResizeMode.RESTART),
    ]
    assert known_of(costs, "other") == []
    assert costs[cost_key(restart.app, SizeUnit.CORES, ResizeMode.RESTART)].again_ns == 3 * S


@given(st.lists(st.tuples(st.integers(1, 10**10), st.integers(-1, 10**9)), min_size=1, max_size=40))
def test_a_mean_lies_between_what_was_seen(seen: list[tuple[int, int]]) -> None:
    cost = ResizeCost()
    for stall_ns, moved in seen:
        cost = cost.stalled(stall_ns, stall_ns, moved)
    stalls, known = [one for one, _ in seen], [moved for _, moved in seen if moved >= 0]
    assert min(stalls) <= cost.stall_ns <= max(stalls)
    assert (cost.count, cost.moved_count) == (len(seen), len(known))
    if known:
        assert min(known) <= cost.moved_bytes <= max(known)


def test_no_more_than_so_many_are_kept_and_the_oldest_goes_first() -> None:
    costs: Costs = {f"app{number}/cores": ResizeCost() for number in range(KEPT_MAX)}
    learn_stall(costs, job_spec(mode=ResizeMode.MAP), stall_ns=1, took_ns=1)
    assert len(costs) == KEPT_MAX
    assert "app0/cores" not in costs


def test_a_profile_that_is_forgotten_takes_its_costs_along() -> None:
    stage = running(ResizeMode.MAP)
    followed(stage, took_ns=90 * MS, stalled_ns=30 * MS)
    stage.send(ev.ProfileDropped(app="app"))
    assert stage.core.state.restarts == {}


def test_states_and_events_of_before_are_read() -> None:
    stage = running(ResizeMode.MAP)
    followed(stage, took_ns=90 * MS, stalled_ns=30 * MS, moved_bytes=5000)
    assert codec.load_state(codec.dump_state(stage.core.state)) == stage.core.state
    old = json.loads(codec.dump_state(stage.core.state))
    old["restarts"] = {
        "app/nodes": {"count": 2, "stall_ns": 8 * S, "again_ns": S, "again_count": 1}
    }
    read = codec.load_state(json.dumps(old)).restarts["app/nodes"]
    assert (read.stall_ns, read.moved_bytes, read.took_ns) == (8 * S, 0, 0)
    body = {"node_id": "n0", "job_id": "a", "cpus": "0", "confined": False}
    event = codec.load_event("MaskConfirmed", json.dumps(body))
    assert isinstance(event, reports.MaskConfirmed)
    assert (event.took_ns, event.stalled_ns, event.moved_bytes) == (0, -1, -1)
