"""The plain rules as policies, and as the plans that `constraint` compares itself with."""

from __future__ import annotations

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.policies.snapshots import S, held, job, node, snapshot

from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.fifo.pbs import Pbs
from wattfold.coordinator.solvers.lists.arrays import arrays_of
from wattfold.coordinator.solvers.lists.planner import baselines
from wattfold.coordinator.solvers.lists.problem import (
    NodePart,
    Option,
    ProblemJob,
    ProblemNode,
    QueueProblem,
    Running,
    Shape,
)
from wattfold.coordinator.solvers.lists.reference import ReferenceLists

NODES, NOW_S = 4, 50
Asked = tuple[int, int, int]
"""Nodes, seconds, submission."""


def whole(name: str, size: int, time_s: int, **fields: object) -> JobView:
    made = job(name, size, size, time_s=time_s, unit=SizeUnit.NODES, kind=JobKind.RIGID, **fields)  # type: ignore[arg-type]
    assert isinstance(made, JobView)
    return made


@pytest.mark.parametrize("order", ["fifo", "walltime"])
@settings(max_examples=examples(60))
@given(
    runs=st.lists(st.integers(NOW_S + 1, NOW_S + 40), max_size=NODES),
    queue=st.lists(
        st.tuples(st.integers(1, NODES), st.integers(1, 60), st.integers(0, NOW_S)),
        min_size=1,
        max_size=20,
    ),
)
def test_what_a_rule_starts_now_is_what_its_plan_has_start_now(
    order: str, runs: list[int], queue: list[Asked]
) -> None:
    """With counted whole nodes that are identical, so the choice of nodes does not matter."""
    views = [
        whole(f"r{i}", 1, end_s, current=held(f"r{i}", f"n{i}:0-3"), started_s=0)
        for i, end_s in enumerate(runs)
    ]
    views += [whole(f"{i}", a, t, submitted_s=s) for i, (a, t, s) in enumerate(queue)]
    seen = snapshot([node(f"n{i}") for i in range(NODES)], views, now_s=NOW_S)
    plan = Pbs(order=order).propose(seen, seen.now_ns, 1.0)
    started = {a.job_id for a in plan.assignments if not a.job_id.startswith("r")}
    problem = QueueProblem(
        now_ns=NOW_S * S,
        nodes=(ProblemNode((NODES,)),),
        shapes=tuple(Shape(1, (size,)) for size, _, _ in queue),
        jobs=tuple(
            ProblemJob(i, i, (Option(t * S),), s * S, 1) for i, (_, t, s) in enumerate(queue)
        ),
        running=tuple(Running((NodePart(0, (1,)),), 0, end_s * S) for end_s in runs),
    )
    arrays = arrays_of(problem)
    (rule,) = [r for r in baselines(ReferenceLists(arrays), arrays) if r.maker == f"pbs-{order}"]
    starts = rule.schedule.starts_ns.tolist()
    assert {str(i) for i, at in enumerate(starts) if at == problem.now_ns} == started
