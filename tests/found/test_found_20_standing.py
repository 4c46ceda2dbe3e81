"""The persistent scheduler decides like a new scheduler: single counterexamples.

The property over all policies is `property/core/test_standing.py`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from property.core.test_standing import POLICIES, StandingEvents
from unit.policies.snapshots import W, job, node, snapshot

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies import registry

EVERY = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)


def test_a_starting_job_whose_size_was_ordered_keeps_what_it_has() -> None:
    """The new plan was compared without the sizes ordered by users."""
    machine = StandingEvents()
    machine.begin(budget_w=70)
    machine.choose(every=1, dies=0, others=2)
    job_id = JobId("a")
    machine.submit_whole(again=0, job=job_id, limit_s=0)
    machine.plan_of(job_id, [NodeId("n0"), NodeId("n1")], 5)
    machine.ask(job=job_id, what="resize 1")
    machine.plan_of(job_id, [NodeId("n0")], 5)
    machine.teardown()


@EVERY
def test_nothing_starts_while_nodes_draw_more_than_the_budget(policy: Policy) -> None:
    """At its floor a node adds nothing, so `easy-uniform` started a job and failed."""
    waits = job("a", 1, 3, unit=SizeUnit.NODES, kind=JobKind.MALLEABLE)
    nodes = [node("n0"), node("n1"), node("n2")]
    drawn = [replace(nodes[0], fixed_uw=nodes[0].fixed_uw + 80 * W), *nodes[1:]]
    budget_w = sum(view.fixed_uw for view in nodes) / W
    seen = snapshot(drawn, [waits], budget_w=budget_w)
    assert policy.propose(seen, seen.now_ns, 5.0).assignments == ()


def test_a_policy_that_remembers_says_so() -> None:
    """Only the constraint family does, through the settings named in its description."""
    families = [family for family in registry.DESCRIPTIONS if family.memory]
    assert {family.name for family in families} == {"constraint", "constraint-cp"}
    for family in registry.DESCRIPTIONS:
        assert bool(family.memory) == bool(family.without_memory)
        assert family.defaults().keys() >= family.without_memory.keys()
