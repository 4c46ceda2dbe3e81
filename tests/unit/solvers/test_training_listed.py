"""Jobs planned in order that wait if that costs less."""

from __future__ import annotations

import numpy as np

from wattfold.coordinator.solvers.training.building import (
    Configurations,
    RequestContext,
    Weighing,
    built,
)
from wattfold.coordinator.solvers.training.listed import LISTED, planned_ahead
from wattfold.coordinator.solvers.training.problem import (
    ANY,
    POSTPONED,
    TrainingNodes,
    TrainingPlan,
    TrainingProblem,
)

FAST, SLOW = 0, 1


def problem(
    jobs: list[dict[str, float]], *, running: dict[int, tuple[int, float]] | None = None
) -> TrainingProblem:
    """Jobs of one GPU on a fast node and a slow node with one GPU each; ``running``: node,
    remaining.
    """
    rows = []
    for number, job in enumerate(jobs):
        if running and number in running:
            node, left_s = running[number]
            rows.append((number, node, node, left_s))
            continue
        rows += [(number, FAST, ANY, job["fast"]), (number, SLOW, ANY, job["slow"])]
    whose, kind, node, time_s = (np.array(column) for column in zip(*rows, strict=True))
    count = len(rows)
    made, _ = built(
        RequestContext(
            due_s=np.array([job["due"] for job in jobs]),
            weight_eur_s=np.array([job.get("weight", 1.0) for job in jobs]),
            must=np.array([number in (running or {}) for number in range(len(jobs))]),
        ),
        Configurations(
            job=whose.astype(np.int64),
            kind=kind.astype(np.int64),
            node=node.astype(np.int64),
            amounts=np.ones((count, 1), dtype=np.int64),
            power_uw=np.zeros(count, dtype=np.int64),
            time_s=time_s.astype(np.float64),
            cost_eur=time_s * 0.001,
            node_eur=np.zeros(count),
            stays=np.zeros(count, dtype=np.bool_),
            last=np.zeros(count, dtype=np.bool_),
        ),
        TrainingNodes(kind=np.array([FAST, SLOW]), free=np.array([[1], [1]])),
        power_uw=0,
        weighing=Weighing(),
    )
    return made


def taken(made: TrainingProblem, order: list[int]) -> TrainingPlan:
    return planned_ahead(made, np.array(order))


def test_a_job_waits_for_the_fast_node_where_the_slow_one_would_be_late() -> None:
    jobs = [{"fast": 50, "slow": 400, "due": 60}, {"fast": 50, "slow": 400, "due": 110}]
    plan = taken(problem(jobs), [0, 1])
    assert plan.maker == LISTED
    assert plan.node == (FAST, POSTPONED)


def test_it_takes_the_slow_node_where_waiting_would_be_later() -> None:
    jobs = [{"fast": 300, "slow": 400, "due": 300}, {"fast": 300, "slow": 400, "due": 310}]
    assert taken(problem(jobs), [0, 1]).node == (FAST, SLOW)


def test_the_order_says_who_has_the_first_word() -> None:
    jobs = [{"fast": 50, "slow": 400, "due": 60}, {"fast": 50, "slow": 400, "due": 110}]
    assert taken(problem(jobs), [1, 0]).node[1] == FAST


def test_what_waits_is_reserved_so_that_the_next_one_waits_behind_it() -> None:
    # The second job would follow on the fast node at 50 s; the third could only start at 100 s.
    jobs = [{"fast": 50, "slow": 400, "due": due} for due in (60, 110, 120)]
    assert taken(problem(jobs), [0, 1, 2]).node == (FAST, POSTPONED, POSTPONED)
    slower = [*jobs[:2], {"fast": 50, "slow": 160, "due": 100}]
    assert taken(problem(slower), [0, 1, 2]).node == (FAST, POSTPONED, POSTPONED)
    hurried = [*jobs[:2], {"fast": 50, "slow": 130, "due": 100, "weight": 0.0}]
    assert taken(problem(hurried), [0, 1, 2]).node == (FAST, POSTPONED, POSTPONED)
    better = [*jobs[:2], {"fast": 50, "slow": 90, "due": 100}]
    assert taken(problem(better), [0, 1, 2]).node == (FAST, POSTPONED, SLOW)


def test_who_runs_stays_and_is_waited_for() -> None:
    jobs = [{"fast": 0, "slow": 0, "due": 9}, {"fast": 50, "slow": 400, "due": 100}]
    plan = taken(problem(jobs, running={0: (FAST, 30.0)}), [0, 1])
    assert plan.node == (FAST, POSTPONED)
    plan = taken(problem(jobs, running={0: (FAST, 500.0)}), [0, 1])
    assert plan.node == (FAST, SLOW)
