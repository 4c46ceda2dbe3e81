"""Equipartition in the service: starts, shrinks, power levels, and reasons for waiting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.policies.snapshots import S, W, caps_w, faults, held, job, node, reasons, sizes, snapshot
from unit.policies.training_jobs import gpu_node

from wattfold.coordinator.core.model.jobs.spec import JobKind, ResizeMode
from wattfold.coordinator.core.model.plan import JobView, Plan, Snapshot
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.equipartition.policy import Equipartition
from wattfold.coordinator.policies.equipartition.settings import EquipartitionSettings

NODES: dict[str, Any] = {"unit": SizeUnit.NODES}
RESTART: dict[str, Any] = {**NODES, "mode": ResizeMode.RESTART}

DUE = Equipartition(EquipartitionSettings(due=True))


def planned(seen: Snapshot, policy: Equipartition | None = None) -> Plan:
    plan = (policy or Equipartition()).propose(seen, seen.now_ns, 1.0)
    assert faults(plan, seen) == []
    return plan


def running(name: str, least: int, most: int, *cores: str, **fields: Any) -> JobView:
    return job(name, least, most, current=held(name, *cores), started_s=0, **fields)


def test_who_comes_makes_the_others_smaller_down_to_equal_parts() -> None:
    seen = snapshot(
        [node("n0", 8)],
        [running("a", 1, 8, "n0:0-7"), job("b", 1, 8, submitted_s=1)],
        now_s=2,
    )
    assert sizes(planned(seen)) == {"a": 4, "b": 4}


def test_what_somebody_does_not_take_the_others_share() -> None:
    jobs = [
        running("a", 1, 2, "n0:0-1"),
        running("b", 1, 8, "n0:2-7"),
        job("c", 1, 8, submitted_s=1),
    ]
    assert sizes(planned(snapshot([node("n0", 8)], jobs, now_s=2))) == {"a": 2, "b": 3, "c": 3}


def test_a_least_size_that_does_not_fit_waits_and_a_later_one_that_does_starts() -> None:
    jobs = [
        running("a", 6, 8, "n0:0-7"),
        job("b", 4, 8, submitted_s=1),
        job("c", 2, 8, submitted_s=2),
    ]
    plan = planned(snapshot([node("n0", 8)], jobs, now_s=3))
    assert sizes(plan) == {"a": 6, "c": 2}
    assert "next to the minimum sizes of other jobs" in reasons(plan)["b"]


def test_in_order_nobody_starts_before_one_that_came_earlier() -> None:
    jobs = [
        running("a", 6, 8, "n0:0-7"),
        job("b", 4, 8, submitted_s=1),
        job("c", 2, 8, submitted_s=2),
    ]
    plan = planned(
        snapshot([node("n0", 8)], jobs, now_s=3), Equipartition(EquipartitionSettings(order="fifo"))
    )
    assert sizes(plan) == {"a": 8}
    assert reasons(plan)["c"] == "an earlier job must start first"


def test_a_job_that_asks_for_more_than_there_is_is_told_so() -> None:
    plan = planned(snapshot([node("n0", 4)], [job("a", 5, 8)]))
    assert [(waiting.job_id, waiting.never) for waiting in plan.waiting] == [("a", True)]


def test_a_job_that_cannot_change_keeps_its_size() -> None:
    jobs = [
        running("a", 6, 6, "n0:0-5", kind=JobKind.RIGID),
        job("b", 1, 8, submitted_s=1),
    ]
    assert sizes(planned(snapshot([node("n0", 8)], jobs, now_s=2))) == {"a": 6, "b": 2}


def dear(view: JobView, cost_s: float) -> JobView:
    return replace(view, resize_ns=round(cost_s * S))


@pytest.mark.parametrize(
    ("cost_s", "policy", "grown"),
    [
        (5, Equipartition(), 8),
        (80, Equipartition(), 4),
        (80, Equipartition(EquipartitionSettings(costs="ignore")), 8),
    ],
)
def test_a_job_grows_only_where_that_saves_more_than_it_costs(
    cost_s: float, policy: Equipartition, grown: int
) -> None:
    # On all eight cores the job would have taken 100 s, and half of it is done.
    one = running("a", 1, 8, "n0:0-3", time_s=100, done=0.5)
    seen = snapshot([node("n0", 8)], [dear(one, cost_s)], now_s=2)
    assert sizes(planned(seen, policy)) == {"a": grown}


def test_what_is_not_worth_a_change_goes_to_the_others() -> None:
    jobs = [
        dear(running("a", 1, 12, "n0:0-3", time_s=100, done=0.99), 50),
        dear(running("b", 1, 12, "n0:4-7", time_s=100), 1),
    ]
    assert sizes(planned(snapshot([node("n0", 12)], jobs, now_s=2))) == {"a": 4, "b": 8}


def test_it_gives_up_what_others_need_whatever_that_costs() -> None:
    jobs = [dear(running("a", 1, 8, "n0:0-7", time_s=100), 1000), job("b", 1, 8, submitted_s=1)]
    assert sizes(planned(snapshot([node("n0", 8)], jobs, now_s=2))) == {"a": 4, "b": 4}


def restartable(view: JobView) -> JobView:
    return replace(view, nodes_may_change=True)


def test_whole_nodes_are_shared_by_jobs_that_start_again_at_another_size() -> None:
    nodes = [node(f"n{i}") for i in range(4)]
    first = restartable(running("a", 1, 4, "n0", "n1", "n2", "n3", **RESTART))
    second = restartable(job("b", 1, 4, submitted_s=1, **RESTART))
    seen = snapshot(nodes, [first, second], now_s=2)
    plan = Equipartition().propose(seen, seen.now_ns, 1.0)
    assert sizes(plan) == {"a": 2, "b": 2}
    assert len({share.node_id for one in plan.assignments for share in one.shares}) == 4


def test_a_job_on_cores_does_not_go_where_one_on_whole_nodes_is() -> None:
    nodes = [node("n0"), node("n1")]
    whole = running("a", 1, 1, "n0", kind=JobKind.RIGID, **NODES)
    seen = snapshot(nodes, [whole, job("b", 1, 4, submitted_s=1)], now_s=2)
    plan = planned(seen)
    assert sizes(plan) == {"a": 1, "b": 4}
    assert {share.node_id for one in plan.assignments for share in one.shares} == {"n0", "n1"}


def test_a_job_on_whole_nodes_leaves_one_for_a_job_on_cores() -> None:
    nodes = [node("n0"), node("n1")]
    whole = restartable(running("a", 1, 2, "n0", "n1", **RESTART))
    seen = snapshot(nodes, [whole, job("b", 1, 4, submitted_s=1)], now_s=2)
    plan = Equipartition().propose(seen, seen.now_ns, 1.0)
    assert sizes(plan) == {"a": 1}
    assert list(reasons(plan)) == ["b"]


def test_all_have_one_level_that_the_budget_feeds() -> None:
    nodes = [node(f"n{i}", 4, base_w=20, floor_w=20, max_w=60) for i in range(2)]
    jobs = [job("a", 1, 1, **NODES), job("b", 1, 1, submitted_s=1, **NODES)]
    fixed_w = sum(n.fixed_uw for n in nodes) / W
    plan = planned(snapshot(nodes, jobs, budget_w=fixed_w + 50, now_s=2))
    assert caps_w(plan) == {"a": 45.0, "b": 45.0}


def test_fewer_nodes_at_the_greatest_level_instead() -> None:
    nodes = [node(f"n{i}", 4, base_w=20, floor_w=20, max_w=60) for i in range(2)]
    jobs = [job("a", 1, 1, **NODES), job("b", 1, 1, submitted_s=1, **NODES)]
    fixed_w = sum(n.fixed_uw for n in nodes) / W
    seen = snapshot(nodes, jobs, budget_w=fixed_w + 50, now_s=2)
    assert caps_w(planned(seen, Equipartition(EquipartitionSettings(power="fewer")))) == {"a": 60.0}
    none = replace(seen, budget_uw=round((fixed_w + 39) * W))
    assert list(reasons(planned(none, Equipartition(EquipartitionSettings(power="fewer"))))) == [
        "a",
        "b",
    ]


def test_a_due_date_is_met_before_the_rest_is_shared() -> None:
    urgent = job("b", 1, 8, submitted_s=1, time_s=100, due_ns=115 * S)
    seen = snapshot([node("n0", 8)], [job("a", 1, 8, time_s=100), urgent], now_s=2)
    assert sizes(planned(seen)) == {"a": 4, "b": 4}
    found = sizes(planned(seen, Equipartition(EquipartitionSettings(due=True))))
    assert found["b"] > found["a"] >= 1
    # At its due date no size meets the due date any more.
    assert sizes(
        planned(replace(seen, now_ns=115 * S), Equipartition(EquipartitionSettings(due=True)))
    ) == {
        "a": 4,
        "b": 4,
    }


@pytest.mark.parametrize(("done", "size"), [(0.0, 8), (0.5, 6)])
def test_what_is_done_need_not_be_done_before_a_due_date(done: float, size: int) -> None:
    # It needs 8 of 9 cores, or 4 plus half of the cores beyond the other job's minimum.
    urgent = running("b", 1, 8, "n0:0-3", time_s=100, due_ns=102 * S, done=done)
    other = job("a", 1, 8, time_s=100, submitted_s=1)
    found = sizes(planned(snapshot([node("n0", 9)], [urgent, other], now_s=2), DUE))
    assert found["b"] == size


def test_one_that_lacks_more_than_cores_holds_up_nobody() -> None:
    jobs = [job("a", 1, 4, gpus=1), job("b", 1, 4, submitted_s=1)]
    assert sizes(planned(snapshot([node("n0")], jobs, now_s=2))) == {"b": 4}


def test_a_job_that_takes_gpus_with_its_nodes_has_its_least() -> None:
    """The watts of its GPUs are not shared with other jobs. Without GPUs it takes all nodes."""
    site = [gpu_node("v0"), gpu_node("v1")]
    for gpus, size in ((1, 1), (0, 2)):
        one = job("a", 1, 2, kind=JobKind.MOLDABLE, gpus=gpus, **NODES)
        assert sizes(planned(snapshot(site, [one]))) == {"a": size}


def test_where_no_node_is_whole_a_job_on_cores_starts_all_the_same() -> None:
    jobs = [
        running("a", 1, 4, "n0:0-3"),
        job("w", 1, 1, submitted_s=1, **NODES),
        job("c", 1, 4, submitted_s=1.5),
    ]
    plan = planned(snapshot([node("n0")], jobs, now_s=2))
    assert sizes(plan) == {"a": 2, "c": 2}
    assert list(reasons(plan)) == ["w"]


@pytest.mark.parametrize(("resized_s", "size"), [(0, 8), (95, 4)])
def test_a_job_that_was_resized_lately_grows_no_more_yet(resized_s: float, size: int) -> None:
    one = running("a", 1, 8, "n0:0-3", resized_s=resized_s)
    seen = snapshot([node("n0", 8)], [one], now_s=100)
    assert sizes(planned(seen, Equipartition(EquipartitionSettings(interval_s=20)))) == {"a": size}


def test_weights_share_what_is_left_over() -> None:
    jobs = [job("a", 1, 8, priority=3.0), job("b", 1, 8, submitted_s=1, priority=1.0)]
    seen = snapshot([node("n0", 10)], jobs, now_s=2)
    assert sizes(planned(seen, Equipartition(EquipartitionSettings(weights="priority")))) == {
        "a": 7,
        "b": 3,
    }
