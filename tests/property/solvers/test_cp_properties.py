"""CP-SAT on small queues: valid plans, never worse than the incumbent, and correct proofs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from property.solvers.small_queues import best, first, queues

from wattfold.coordinator.solvers.cp.calls import repaired, whole
from wattfold.coordinator.solvers.cp.limits import Limits, Repairs
from wattfold.coordinator.solvers.lists.feasibility import faults
from wattfold.coordinator.solvers.lists.problem import QueueProblem

pytest.importorskip("ortools", reason="OR-Tools (wattfold[cp]) is not installed")

AMPLE = Limits(deterministic=100.0, conflicts=1_000_000, wall_s=60.0)


@settings(max_examples=examples(60))
@given(problem=queues())
def test_the_model_finds_the_best_plan_of_all(problem: QueueProblem) -> None:
    incumbent = first(problem)
    assert faults(problem, incumbent) == []
    answer = whole(problem, incumbent, 1, AMPLE)
    assert (answer.status, answer.proven) == ("OPTIMAL", True)
    plan = answer.plan or incumbent
    assert faults(problem, plan) == []
    assert plan.objective == pytest.approx(best(problem).objective)


@settings(max_examples=examples(40))
@given(problem=queues(), seed=st.integers(0, 3), shift_ns=st.integers(1, 10**8))
def test_repairs_hold_and_are_the_same_again(
    problem: QueueProblem, seed: int, shift_ns: int
) -> None:
    # Times without a common step: the grid rounds them.
    odd = replace(
        problem,
        running=tuple(one._replace(end_ns=one.end_ns + shift_ns) for one in problem.running),
        now_ns=problem.now_ns + shift_ns // 3,
    )
    incumbent = first(odd)
    repairs = Repairs(rounds=3, free=2)
    answer = repaired(odd, incumbent, seed, AMPLE, repairs)
    assert answer == repaired(odd, incumbent, seed, AMPLE, repairs)
    assert not answer.proven
    if answer.plan is not None:
        assert faults(odd, answer.plan) == []
        assert answer.plan.objective < incumbent.objective
