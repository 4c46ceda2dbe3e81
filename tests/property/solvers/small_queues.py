"""Small queues with all features of a problem, and their best plans by exhaustive search."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement

from hypothesis import strategies as st

from wattfold.coordinator.solvers.lists.feasibility import faults
from wattfold.coordinator.solvers.lists.problem import (
    NEVER,
    Budget,
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
NOW = 1_000 * S


@st.composite
def queues(draw: st.DrawFn) -> QueueProblem:
    """Two or three jobs on two nodes, with times in whole seconds."""
    nodes = (ProblemNode((4, 2), 0), ProblemNode((3, 2), 1))
    shapes = tuple(draw(st.lists(_shapes(), min_size=1, max_size=2, unique=True)))
    jobs = []
    for key in range(draw(st.integers(2, 3))):
        shape = draw(st.integers(0, len(shapes) - 1))
        options = tuple(draw(st.lists(_options(), min_size=1, max_size=2)))
        jobs.append(
            ProblemJob(
                key=key,
                shape=shape,
                options=options,
                submit_ns=NOW - draw(st.integers(0, 5)) * S,
                ewt_ns=draw(st.sampled_from([2 * S, 5 * S, 6 * S])),
                wait_max_ns=draw(st.sampled_from([0, 4 * S])),
                weight=draw(st.sampled_from([1.0, 2.5])),
            )
        )
    running = ()
    if draw(st.booleans()):
        parts = (NodePart(draw(st.integers(0, 1)), (2, draw(st.integers(0, 2)))),)
        running = (Running(parts, draw(st.integers(0, 3)), NOW + draw(st.integers(1, 6)) * S),)
    low = draw(st.integers(0, 4))
    budgets = (
        (Budget(0, draw(st.integers(2, 9))), Budget(NOW + (low + 1) * S, 12))
        if draw(st.booleans())
        else (Budget(0, 12),)
    )
    closing = Closing((draw(st.integers(0, 1)),), NOW + low * S, NOW + (low + 3) * S)
    weights = draw(st.sampled_from([ObjectiveWeights(), ObjectiveWeights(lateness=0.0, late=0.0)]))
    return QueueProblem(
        now_ns=NOW,
        nodes=nodes,
        shapes=shapes,
        jobs=tuple(jobs),
        running=running,
        closings=(closing,),
        budgets=budgets,
        weights=weights,
    )


@st.composite
def _shapes(draw: st.DrawFn) -> Shape:
    spread = draw(st.sampled_from(list(NodeSpread)))
    return Shape(
        units=draw(st.integers(1, 2)),
        amounts=draw(st.sampled_from([(1, 0), (1, 1), (2, 0), (1, 1)])),
        spread=spread,
        nodes=draw(st.sampled_from([None, None, (0, 1), (0,)]))
        if spread is not NodeSpread.APART
        else None,
        closings=draw(st.sampled_from([(), (0,)])),
    )


@st.composite
def _options(draw: st.DrawFn) -> Option:
    power = draw(st.sampled_from([(1, 1), (1, 2), (2, 1), (0, 0)]))
    duration_ns = draw(st.integers(1, 4)) * S
    return Option(duration_ns, power, draw(st.sampled_from([0, duration_ns + S])))


def first(problem: QueueProblem) -> QueuePlan:
    """Schedule the jobs in their order, each as soon as it fits."""
    plan = _empty(problem)
    for index in range(len(problem.jobs)):
        plan = min(_placed(problem, plan, index), key=lambda one: one.starts_ns[index])
    return plan


def best(problem: QueueProblem) -> QueuePlan:
    """Return the best plan in which each job starts as soon as it fits after earlier jobs."""
    found = first(problem)
    stack = [_empty(problem)]
    while stack:
        plan = stack.pop()
        left = [index for index, start in enumerate(plan.starts_ns) if start == NEVER]
        if not left:
            if plan.objective < found.objective - 1e-9:
                found = plan
            continue
        for index in left:
            for following in _placed(problem, plan, index):
                sure = sum(
                    objective(_alone(problem, job), (start if start != NEVER else NOW,))
                    for job, start in enumerate(following.starts_ns)
                )
                if sure < found.objective - 1e-9:
                    stack.append(following)
    return found


def _alone(problem: QueueProblem, job: int) -> QueueProblem:
    return QueueProblem(
        now_ns=problem.now_ns,
        nodes=problem.nodes,
        shapes=problem.shapes,
        jobs=(problem.jobs[job],),
        weights=problem.weights,
    )


def _empty(problem: QueueProblem) -> QueuePlan:
    count = len(problem.jobs)
    starts = (NEVER,) * count
    return QueuePlan(
        starts_ns=starts,
        options=(0,) * count,
        nodes=((),) * count,
        objective=objective(problem, starts),
        maker="none",
    )


def _placed(problem: QueueProblem, plan: QueuePlan, index: int) -> Iterator[QueuePlan]:
    """Add a job to the plan, for each option and set of nodes, at its earliest feasible time."""
    job = problem.jobs[index]
    for option in range(len(job.options)):
        for nodes in _choices(problem, problem.shapes[job.shape]):
            for start_ns in _times(problem, plan):
                starts = (*plan.starts_ns[:index], start_ns, *plan.starts_ns[index + 1 :])
                following = QueuePlan(
                    starts_ns=starts,
                    options=(*plan.options[:index], option, *plan.options[index + 1 :]),
                    nodes=(*plan.nodes[:index], nodes, *plan.nodes[index + 1 :]),
                    objective=objective(problem, starts),
                    maker="tried",
                )
                if not faults(problem, following):
                    yield following
                    break


def _choices(problem: QueueProblem, shape: Shape) -> list[tuple[int, ...]]:
    able = range(len(problem.nodes)) if shape.nodes is None else shape.nodes
    if shape.spread is NodeSpread.TOGETHER:
        return [(node,) * shape.units for node in able]
    if shape.spread is NodeSpread.APART:
        return list(combinations(able, shape.units))
    return list(combinations_with_replacement(able, shape.units))


def _times(problem: QueueProblem, plan: QueuePlan) -> list[int]:
    """The current time and all end times."""
    times = {problem.now_ns, *(one.end_ns for one in problem.running)}
    times |= {one.to_ns for one in problem.closings} | {one.from_ns for one in problem.budgets}
    for job, start_ns, option in zip(problem.jobs, plan.starts_ns, plan.options, strict=True):
        if start_ns != NEVER:
            times.add(start_ns + job.options[option].duration_ns)
    return sorted(at for at in times if at >= problem.now_ns)
