"""Causes of committed power, and alarms."""

from __future__ import annotations

from typing import Any

import pytest
from unit.cli.fake_budgets import NOW_S, W

from wattfold.coordinator.cli.web.alarms import ALARMS_MAX, alarms
from wattfold.coordinator.cli.web.causes import CAUSES, causes
from wattfold.v1 import coordinator_pb2 as pb


def node(name: str = "n1", cap_w: int = 40, committed_w: int = 50, **fields: Any) -> pb.Node:
    made = pb.Node(
        node_id=name,
        state=pb.NODE_STATE_UP,
        duty=pb.NODE_DUTY_SERVING,
        base_power_uw=10 * W,
        committed_uw=committed_w * W,
    )
    made.zones.add(name="package-0", cap_uw=cap_w * W, floor_uw=15 * W, cap_uw_max=90 * W)
    made.MergeFrom(pb.Node(**fields))
    return made


def view(*nodes: pb.Node, jobs: tuple[pb.Job, ...] = (), **power: Any) -> pb.ClusterView:
    return pb.ClusterView(time_s=NOW_S, power=pb.Power(**power), nodes=nodes, jobs=jobs)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (node(job_ids=["1"]), {"base": 10, "idle": 15, "jobs": 25}),
        (node(), {"base": 10, "idle": 40}),
        (node(committed_w=80), {"base": 10, "idle": 40, "changing": 30}),
        (node(job_ids=["1"], committed_w=80), {"base": 10, "idle": 15, "jobs": 25, "changing": 30}),
        (node(job_ids=["1"], committed_w=20), {"base": 10, "idle": 10}),
        (node(state=pb.NODE_STATE_SILENT), {"away": 50}),
        (node(duty=pb.NODE_DUTY_DRAINING), {"away": 50}),
    ],
)
def test_causes_add_up_to_the_charge(given: pb.Node, parts: dict[str, float]) -> None:
    found = causes(view(given))
    assert {cause: value for cause, value in found.items() if value} == parts
    assert sum(found.values()) == given.committed_uw / W
    assert tuple(found) == CAUSES


def test_accepted_power_outside_is_no_cause() -> None:
    assert causes(view(outside_uw=9 * W, outside_accepted_uw=4 * W))["outside"] == 5


def test_a_calm_site_has_no_alarm() -> None:
    assert alarms(view(node(), node("n2", job_ids=["1"]))) == []


def test_a_silent_node_counts_down_to_the_end_of_its_lease() -> None:
    silent = node(state=pb.NODE_STATE_SILENT, lease_ends_at_s=NOW_S + 7)
    (found,) = alarms(view(silent))
    assert (found.level, found.node, found.until_s) == ("alarm", "n1", NOW_S + 7)
    assert "50.0 W" in found.detail


def test_urgent_alarms_come_first() -> None:
    confined = pb.Job(job_id="7", state=pb.JOB_STATE_RUNNING, confined=True)
    residual = pb.Job(job_id="8", state=pb.JOB_STATE_RUNNING, residual_alarm=True)
    found = alarms(view(node(state=pb.NODE_STATE_DOWN), jobs=(confined, residual)))
    assert [(alarm.level, alarm.job or alarm.node) for alarm in found] == [
        ("alarm", "n1"),
        ("warning", "8"),
        ("notice", "7"),
    ]


def test_a_lowered_budget_counts_down_to_its_deadline() -> None:
    due = NOW_S + 30
    (falls,) = alarms(view(pending_budget_uw=5 * W, pending_deadline_s=due))
    assert (falls.level, falls.until_s, falls.until) == ("notice", due, "deadline")
    (over,) = alarms(view(over_uw=W, pending_budget_uw=5 * W, pending_deadline_s=due))
    assert (over.level, over.until_s) == ("warning", due)
    (late,) = alarms(view(over_uw=W, over_reason="n1 does not answer"))
    assert (late.level, late.detail) == ("alarm", "n1 does not answer")


def test_alarms_are_limited() -> None:
    nodes = [node(f"n{n}", state=pb.NODE_STATE_REFUSED) for n in range(ALARMS_MAX + 20)]
    assert len(alarms(view(*nodes))) == ALARMS_MAX
