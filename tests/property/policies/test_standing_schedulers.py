"""A scheduler that was told of every change decides as one made anew, and as one on a pool."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from property.policies.worlds import World

from wattfold.coordinator.core.plan import Plan
from wattfold.coordinator.policies.fifo_easy import FifoEasy
from wattfold.coordinator.policies.rounds import Rounds, planned
from wattfold.coordinator.policies.scheduler import Scheduled

POLICIES = [FifoEasy(), FifoEasy(backfill=False), FifoEasy(size="min")]
NS = 1_000_000_000


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.name}-{policy.size}")
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9), counted=st.booleans())
def test_continued_decides_as_made_anew(policy: Scheduled, seed: int, counted: bool) -> None:
    world = World(random.Random(seed), counted)
    rounds = Rounds(policy.scheduler())
    said: dict[str, tuple[str, bool]] = {}
    for _ in range(14):
        world.step()
        now_ns = world.snapshot.now_ns
        rounds.tell(*world.news())
        plan = rounds.plan(now_ns)
        whole = planned(policy, world.snapshot, now_ns)
        assert given_by(plan) == given_by(whole)
        said.update({w.job_id: (w.reason, w.never) for w in plan.waiting})
        assert {w.job_id: said[w.job_id] for w in whole.waiting} == {
            w.job_id: (w.reason, w.never) for w in whole.waiting
        }
        world.take(plan)


def given_by(plan: Plan) -> dict[str, object]:
    return {assignment.job_id: assignment for assignment in plan.assignments}
