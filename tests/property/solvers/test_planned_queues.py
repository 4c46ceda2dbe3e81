"""Plans of a queue: valid, never worse than a plain rule, and equal for equal arguments."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from property.solvers.queues import problems

from wattfold.coordinator.solvers.lists import orders, planner
from wattfold.coordinator.solvers.lists.arrays import arrays_of, plan_of
from wattfold.coordinator.solvers.lists.feasibility import faults
from wattfold.coordinator.solvers.lists.planner import PlannerEffort, baselines, planned
from wattfold.coordinator.solvers.lists.problem import QueuePlan, QueueProblem
from wattfold.coordinator.solvers.lists.reference import ReferenceLists

EFFORTS = st.builds(
    PlannerEffort,
    depth=st.sampled_from((0, 1, 10)),
    evaluations=st.sampled_from((0, 3, 12)),
    seed=st.integers(0, 3),
)


@settings(max_examples=examples(100))
@given(problems(), EFFORTS)
def test_plans_hold_and_no_plain_rule_has_a_better_one(
    problem: QueueProblem, effort: PlannerEffort
) -> None:
    plan = planned(problem, effort, lists_of=ReferenceLists)
    assert faults(problem, plan) == []
    arrays = arrays_of(problem)
    rules = baselines(ReferenceLists(arrays), arrays)
    assert {rule.maker for rule in rules} == {"pbs-fifo", "pbs-walltime"}
    for rule in rules:
        assert faults(problem, plan_of(arrays, rule.schedule, rule.maker)) == []
        assert plan.objective <= rule.objective


@settings(max_examples=examples(40))
@given(problems(), EFFORTS, st.randoms(use_true_random=False))
def test_equal_arguments_give_equal_plans(
    problem: QueueProblem, effort: PlannerEffort, chance: object
) -> None:
    last = list(range(len(problem.jobs)))
    chance.shuffle(last)  # type: ignore[attr-defined]
    last = last[: len(last) // 2]
    first = planned(problem, effort, last, lists_of=ReferenceLists)
    assert planned(problem, effort, last, lists_of=ReferenceLists) == first
    assert faults(problem, first) == []


@settings(max_examples=examples(40))
@given(problems(), EFFORTS)
def test_compiled_plans_are_those_of_numpy(problem: QueueProblem, effort: PlannerEffort) -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    from wattfold.coordinator.solvers.lists import compiled

    assert planned(problem, effort, lists_of=compiled.CompiledLists) == planned(
        problem, effort, lists_of=ReferenceLists
    )


@settings(max_examples=examples(40))
@given(problems(), st.integers(0, 3))
def test_a_longer_search_is_never_worse(problem: QueueProblem, seed: int) -> None:
    found = [
        planned(
            problem, PlannerEffort(evaluations=count, seed=seed), lists_of=ReferenceLists
        ).objective
        for count in (0, 2, 10)
    ]
    assert found == sorted(found, reverse=True)


class Told:
    """An improver with a fixed answer."""

    name = "told"

    def __init__(self, plan: QueuePlan | None) -> None:
        self.plan = plan

    def improve(
        self, problem: QueueProblem, incumbent: QueuePlan, seed: int, limit_s: float
    ) -> QueuePlan | None:
        return self.plan


@settings(max_examples=examples(60))
@given(problems(), st.integers(-3, 3), st.booleans())
def test_what_improves_a_plan_is_checked(
    problem: QueueProblem, later_ns: int, searched: bool
) -> None:
    """A wrong objective, an invalid plan, or a plan without improvement is rejected."""
    plan = planned(problem, PlannerEffort(evaluations=0), lists_of=ReferenceLists)
    better = (
        planned(problem, PlannerEffort(evaluations=20), lists_of=ReferenceLists)
        if searched
        else plan
    )
    moved = tuple(start + later_ns if start >= 0 else start for start in better.starts_ns)
    said = replace(better, starts_ns=moved, objective=better.objective - 1.0, maker="told")
    for answer in (said, replace(said, objective=better.objective), None):
        effort = PlannerEffort(evaluations=0, improver=Told(answer))
        found = planned(problem, effort, lists_of=ReferenceLists)
        assert faults(problem, found) == []
        assert found.objective <= plan.objective
        assert found.maker != "told" or found == answer
    if better.objective < plan.objective:
        effort = PlannerEffort(evaluations=0, improver=Told(replace(better, maker="told")))
        assert planned(problem, effort, lists_of=ReferenceLists).maker == "told"


@settings(max_examples=examples(30))
@given(problems(jobs_max=9))
def test_of_a_long_queue_numpy_plans_the_first_by_area(problem: QueueProblem) -> None:
    plan = planned(problem, PlannerEffort(evaluations=2, numpy_jobs=4), lists_of=ReferenceLists)
    assert faults(problem, plan) == []
    area = orders.weighted_area(arrays_of(problem))
    assert all(not plan.nodes[job] for job in area[4:].tolist())


def test_areas_go_by_time_wait_and_the_largest_share() -> None:
    from wattfold.coordinator.solvers.lists.problem import Option, ProblemJob, ProblemNode, Shape

    shapes = (Shape(1, (1, 0)), Shape(1, (1, 1)), Shape(4, (1, 0)))
    jobs = (
        ProblemJob(0, 2, (Option(10),), 0, 10),  # Half of all cores: 0.5 x 10 x 10.
        ProblemJob(1, 1, (Option(10),), 0, 10),  # All GPUs: 1 x 10 x 10.
        ProblemJob(2, 0, (Option(10),), 0, 10),  # An eighth of the cores.
        ProblemJob(3, 0, (Option(10),), 0, 90),  # Its queue expects to wait.
        ProblemJob(4, 1, (Option(10),), 0, 10, weight=9.0),
        ProblemJob(5, 0, (Option(10),), 0, 10, rank_ns=1),  # It is predicted to be short.
    )
    problem = QueueProblem(now_ns=0, nodes=(ProblemNode((8, 1)),), shapes=shapes, jobs=jobs)
    arrays = arrays_of(problem)
    assert orders.weighted_area(arrays).tolist() == [5, 4, 2, 0, 1, 3]
    assert orders.by_submission(arrays).tolist() == [4, 0, 1, 2, 3, 5]
    brief = jobs[3]._replace(options=(Option(5),))
    arrays = arrays_of(replace(problem, jobs=(*jobs[:3], brief, *jobs[4:])))
    assert orders.by_walltime(arrays).tolist() == [4, 3, 0, 1, 2, 5]


@given(st.data())
def test_new_jobs_come_before_the_first_that_is_to_come_later(data: st.DataObject) -> None:
    area = np.array(data.draw(st.permutations(range(8))))
    last = data.draw(st.lists(st.integers(0, 7), unique=True))
    rank = {job: place for place, job in enumerate(area.tolist())}
    order = planner._merged(last, area).tolist()
    assert sorted(order) == list(range(8))
    assert [job for job in order if job in last] == last
    for place, job in enumerate(order):
        if job not in last:
            assert all(rank[other] < rank[job] for other in order[:place])
            after = [other for other in order[place + 1 :] if other in last]
            assert not after or rank[after[0]] > rank[job]


def test_without_numba_plans_are_made_with_numpy() -> None:
    """Runs in a separate process that never imports numba."""
    told = """
import sys
sys.modules["numba"] = None
from wattfold.coordinator.solvers.lists import choice, planner
from wattfold.coordinator.solvers.lists.arrays import arrays_of
from wattfold.coordinator.solvers.lists.problem import Option, ProblemJob, ProblemNode
from wattfold.coordinator.solvers.lists.problem import QueueProblem, Shape
jobs = tuple(ProblemJob(i, 0, (Option(10),), 0, 10) for i in range(3))
problem = QueueProblem(now_ns=0, nodes=(ProblemNode((2,)),), shapes=(Shape(1, (1,)),), jobs=jobs)
assert choice.compiled_lists() is None
print(planner.planned(problem, planner.PlannerEffort()).starts_ns)
"""
    ended = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert ended.stdout == "(0, 0, 10)\n"
