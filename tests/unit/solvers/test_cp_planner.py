"""CP-SAT in a child process: plans, failures, and behaviour without OR-Tools."""

from __future__ import annotations

import importlib.util
import pickle

import pytest

from wattfold.coordinator.solvers.cp import planner
from wattfold.coordinator.solvers.cp.planner import CpOutcome, CpRepair, CpSolver, CpWhole
from wattfold.coordinator.solvers.lists.feasibility import faults
from wattfold.coordinator.solvers.lists.planner import PlannerEffort, planned
from wattfold.coordinator.solvers.lists.problem import (
    Closing,
    NodePart,
    NodeSpread,
    ObjectiveWeights,
    Option,
    ProblemJob,
    ProblemNode,
    QueuePlan,
    QueueProblem,
    Running,
    Shape,
    objective,
)

S = 1_000_000_000
NOW = 50 * S
LONG_S = 240.0
needs_ortools = pytest.mark.skipif(
    importlib.util.find_spec("ortools") is None, reason="OR-Tools (wattfold[cp]) is not installed"
)


def queue(count: int = 3, *, spread: NodeSpread = NodeSpread.ANY) -> QueueProblem:
    """A long job ahead of short jobs, on one node that holds one job at a time."""
    lengths = [100, *(10 for _ in range(count - 1))]
    return QueueProblem(
        now_ns=NOW,
        nodes=(ProblemNode((4, 8)),),
        shapes=(Shape(2, (2, 1), spread),),
        jobs=tuple(
            ProblemJob(
                key=key, shape=0, options=(Option(length * S),), submit_ns=NOW, ewt_ns=10 * S
            )
            for key, length in enumerate(lengths)
        ),
        weights=ObjectiveWeights(lateness=0.0, late=0.0),
    )


def in_order(problem: QueueProblem) -> QueuePlan:
    starts, at = [], problem.now_ns
    for job in problem.jobs:
        starts.append(at)
        at += job.options[0].duration_ns
    count = len(problem.jobs)
    return QueuePlan(
        starts_ns=tuple(starts),
        options=(0,) * count,
        nodes=((0, 0),) * count,
        objective=objective(problem, starts),
        maker="fifo",
    )


@needs_ortools
def test_the_whole_model_puts_the_short_ones_first_and_proves_it() -> None:
    problem, solver = queue(spread=NodeSpread.TOGETHER), CpSolver(deterministic=50)
    incumbent = in_order(problem)
    plan = solver.whole(problem, incumbent, 1, LONG_S)
    assert plan is not None
    assert faults(problem, plan) == []
    assert [start - NOW for start in plan.starts_ns] in ([20 * S, 0, 10 * S], [20 * S, 10 * S, 0])
    assert plan.objective == pytest.approx(3.0)
    assert (plan.maker, solver.outcome) == ("cp", CpOutcome.PROVEN)
    assert solver.whole(problem, plan, 1, LONG_S) is None
    assert solver.outcome is CpOutcome.PROVEN


@needs_ortools
def test_repairs_leave_the_rest_where_it_is_and_large_queues_alone() -> None:
    problem = queue(6)
    improver = CpRepair(most_waiting=6)
    plan = improver.improve(problem, in_order(problem), 3, LONG_S)
    assert plan is not None
    assert (plan.maker, improver.solver.outcome) == ("cp-repair", CpOutcome.BETTER)
    assert plan.starts_ns[0] == NOW + 50 * S
    improver.solver.outcome = CpOutcome.NOT_ASKED
    larger = queue(7)
    assert improver.improve(larger, in_order(larger), 3, LONG_S) is None
    assert improver.solver.outcome is CpOutcome.NOT_ASKED


@needs_ortools
def test_too_little_memory_is_a_crash_and_the_third_the_last() -> None:
    problem, solver = queue(300), CpSolver(memory_bytes=1 << 12)
    for _ in range(planner.GIVEN_UP):
        assert solver.whole(problem, in_order(problem), 1, LONG_S) is None
        assert solver.outcome is CpOutcome.CRASHED
    solver.outcome = CpOutcome.NOT_ASKED
    assert solver.whole(problem, in_order(problem), 1, LONG_S) is None
    assert solver.outcome is CpOutcome.NOT_ASKED


@needs_ortools
def test_repairs_of_what_is_hard_only_leave_the_rest_alone() -> None:
    easy, hard = queue(), queue(spread=NodeSpread.TOGETHER)
    improver = CpRepair(always=False)
    assert improver.improve(easy, in_order(easy), 1, LONG_S) is None
    assert improver.solver.outcome is CpOutcome.NOT_ASKED
    assert improver.improve(hard, in_order(hard), 1, LONG_S) is not None
    assert improver == CpRepair(always=False)
    assert pickle.loads(pickle.dumps(improver)) == improver


@needs_ortools
def test_no_time_is_late_or_unknown_and_no_plan() -> None:
    problem, solver = queue(), CpSolver()
    assert solver.whole(problem, in_order(problem), 1, -planner.START_S) is None
    assert solver.outcome is CpOutcome.LATE


def test_without_ortools_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    problem, solver = queue(), CpSolver()
    assert solver.whole(problem, in_order(problem), 1, LONG_S) is None
    assert (solver.outcome, solver.detail) == (CpOutcome.MISSING, "install wattfold[cp]")


@needs_ortools
def test_of_many_jobs_the_first_are_planned_and_the_others_follow() -> None:
    problem, solver = queue(6), CpSolver(deterministic=50)
    incumbent = in_order(problem)
    plan = solver.whole(problem, incumbent, 1, LONG_S, most=3)
    assert plan is not None
    assert faults(problem, plan) == []
    # The long job is planned third of the first three; the other jobs still follow.
    assert plan.starts_ns[0] - NOW == 20 * S
    assert [start - NOW for start in plan.starts_ns[3:]] == [120 * S, 130 * S, 140 * S]
    assert solver.outcome is CpOutcome.BETTER


def closed_beside_open() -> QueueProblem:
    """Lists put both units of job 1 on the node that job 0 needs, because the other node is closed
    to job 0.
    """
    job = ProblemJob(key=0, shape=0, options=(Option(S, (), 2 * S),), submit_ns=NOW, ewt_ns=2 * S)
    return QueueProblem(
        now_ns=NOW,
        nodes=(ProblemNode((4,)), ProblemNode((3,))),
        shapes=(Shape(1, (1,), closings=(0,)), Shape(2, (1,))),
        jobs=(job, job._replace(key=1, shape=1, options=(Option(S),), weight=2.5)),
        running=(Running((NodePart(0, (2,)),), 0, NOW + S),),
        closings=(Closing((1,), NOW, NOW + 3 * S),),
    )


@needs_ortools
@pytest.mark.parametrize(
    ("improver", "maker"), [(CpRepair(always=False), "cp-repair"), (CpWhole(), "cp")]
)
def test_a_plan_of_lists_is_bettered_where_lists_do_badly(
    improver: CpRepair | CpWhole, maker: str
) -> None:
    problem = closed_beside_open()
    assert planned(problem, PlannerEffort(evaluations=0)).objective == pytest.approx(0.5)
    plan = planned(problem, PlannerEffort(evaluations=0, improver=improver, improver_s=LONG_S))
    assert (plan.maker, plan.objective) == (maker, 0.0)
    assert faults(problem, plan) == []


def test_what_fails_leaves_the_plan_of_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    problem, improver = closed_beside_open(), CpWhole()
    plan = planned(problem, PlannerEffort(improver=improver))
    assert plan == planned(problem, PlannerEffort())
    assert improver.solver.outcome is CpOutcome.MISSING
