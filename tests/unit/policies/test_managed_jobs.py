"""Policies and jobs that a resource manager started: who gives them caps, and within the budget."""

from __future__ import annotations

import pytest
from unit.core.test_core_managed_jobs import Guest, job

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.resource_manager.settings import recapping
from wattfold.coordinator.core.model.plan import Snapshot
from wattfold.coordinator.core.power.charge import assigned_on_uw
from wattfold.coordinator.policies import registry

FLOOR_UW = 10_000_000


def snapshot(budget_w: float) -> Snapshot:
    site = Guest(budget_w, "n0", "n1")
    site.slurm(job(7), job(8, cores=6, nodes=(NodeId("n0"), NodeId("n1"))))
    site.adopt("slurm-7", "2-3")
    return site.core.snapshot(site.now_ns)


@pytest.mark.parametrize("budget_w", [200.0, 70.0, 41.0])
@pytest.mark.parametrize("name", recapping())
def test_the_caps_of_running_jobs_follow_the_budget(name: str, budget_w: float) -> None:
    entry = registry.find(name)
    assert entry is not None
    seen = snapshot(budget_w)
    plan = entry.service({}).propose(seen, 0, 5.0)
    specs = {view.spec.node_id: view.spec for view in seen.nodes}
    assert {one.job_id for one in plan.assignments} == {"slurm-7", "slurm-8"}
    needed_uw = sum(assigned_on_uw(one, specs, 0) for one in plan.assignments)
    assert needed_uw <= seen.spendable_uw
    if budget_w > 100:
        assert all(one.cap_uw == 5 * FLOOR_UW for one in plan.assignments)


def test_the_other_policies_are_those_that_leave_such_jobs_at_their_floors() -> None:
    seen, found = snapshot(200.0), []
    for name in registry.service_names():
        entry = registry.find(name)
        assert entry is not None
        policy = entry.service({})
        plan = policy.propose(seen, 0, 5.0)
        raised = all(one.cap_uw > FLOOR_UW for one in plan.assignments)
        if raised and policy.chooses_caps:
            found.append(name)
    assert sorted(found) == sorted(recapping())
