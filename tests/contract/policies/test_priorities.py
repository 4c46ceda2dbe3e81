"""Priorities, which fair share changes, under every policy of the service."""

from __future__ import annotations

from dataclasses import replace

from contract.policies.test_every_policy import every_policy, proposed
from unit.policies.snapshots import S, job, node, snapshot

from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies import registry


@every_policy
def test_of_equal_jobs_the_one_with_the_higher_priority_starts(
    entry: registry.RegisteredPolicy,
) -> None:
    """Fair share is a factor of priorities, so it works under every policy that uses them."""
    policy = entry.service({})
    for first in ("a", "b"):
        jobs = [
            replace(
                job(name, 1, 1, time_s=100, unit=SizeUnit.NODES, kind=JobKind.RIGID),
                submitted_ns=number * S,
            )
            for number, name in enumerate("ab")
        ]
        low = 0 if first == "b" else 1
        jobs[low] = replace(jobs[low], spec=replace(jobs[low].spec, priority=0.25))
        seen = replace(snapshot([node("n0")], jobs, budget_w=500), now_ns=100 * S)
        plan = proposed(policy, seen)
        assert [one.job_id for one in plan.assignments] == [first]
