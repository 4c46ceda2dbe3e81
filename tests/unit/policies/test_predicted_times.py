"""Policies of the service use predicted run times; reservations use users' estimates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.policies.snapshots import S, held, job, node, snapshot

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.fifo.easy_uniform import EasyUniform
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.resources.estimates import (
    asked_ns,
    duration_ns,
    estimate,
    longest_ns,
)
from wattfold.coordinator.policies.slowdown_driven.policy import SlowdownDriven

H = 3600.0
KIND = node("n0").spec.kind


def whole(name: str, nodes: int, time_s: float, planned_s: float = 0, **fields: Any) -> JobView:
    kinds: dict[str, Any] = {"unit": SizeUnit.NODES, "kind": JobKind.RIGID, **fields}
    view = job(name, nodes, nodes, time_s=time_s, **kinds)
    return replace(view, planned_ns=round(planned_s * S))


def plan(policy: Policy, seen: Snapshot) -> Plan:
    return policy.propose(seen, seen.now_ns, 5.0)


def started(policy: Policy, seen: Snapshot) -> set[str]:
    had = {view.job_id for view in seen.jobs if view.current is not None}
    return {one.job_id for one in plan(policy, seen).assignments} - had


def site(planned_s: float) -> Snapshot:
    """n0 is busy for an hour and the next job needs both nodes; the last requests a node for ten
    hours.
    """
    jobs = [
        whole("busy", 1, H, current=held("busy", "n0", total_s=H), started_s=0),
        whole("wide", 2, H, submitted_s=1),
        whole("narrow", 1, 10 * H, planned_s, submitted_s=2),
    ]
    return snapshot([node("n0"), node("n1")], jobs, now_s=10)


@pytest.mark.parametrize("policy", [FifoEasy(), EasyUniform(), SlowdownDriven()], ids=str)
def test_a_job_predicted_short_goes_before_the_first(policy: Policy) -> None:
    assert started(policy, site(0)) == set()
    assert started(policy, site(H / 2)) == {"narrow"}
    assert started(policy, site(2 * H)) == set()


@pytest.mark.parametrize("policy", [FifoEasy(), EasyUniform(), SlowdownDriven()], ids=str)
def test_a_short_prediction_does_not_bring_a_job_before_a_window(policy: Policy) -> None:
    window = Reservation(
        name="r",
        nodes=(NodeId("n0"),),
        start_ns=round(2 * H * S),
        end_ns=round(3 * H * S),
        maintenance=True,
    )
    for time_s, starts in ((10 * H, set()), (H, {"a"})):
        seen = snapshot([node("n0")], [whole("a", 1, time_s, planned_s=60)])
        assert started(policy, replace(seen, reservations=(window,))) == starts


def test_estimates_say_whose_they_are() -> None:
    view = whole("a", 2, H, planned_s=60)
    assert duration_ns(view, (KIND,), 2, KIND.most_uw) == 60 * S
    assert asked_ns(view, (KIND,), 2, KIND.most_uw) == H * S
    assert longest_ns(view, (KIND,)) >= H * S
    assert estimate(view, KIND).source == "default profile with a prediction of 60 s"
    assert (
        estimate(whole("a", 2, H), KIND).source
        == "default profile with the user's estimate of 3600 s"
    )
