"""Small random queues and small machines of heterogeneous nodes, for tests of list schedules."""

from __future__ import annotations

from hypothesis import strategies as st

from wattfold.coordinator.solvers.lists.problem import (
    ENDLESS_NS,
    UNLIMITED_UW,
    Budget,
    Closing,
    NodePart,
    NodeSpread,
    Option,
    ProblemJob,
    ProblemNode,
    QueueProblem,
    Running,
    Shape,
)

NOW_NS = 100


@st.composite
def problems(draw: st.DrawFn, jobs_max: int = 7) -> QueueProblem:
    """Up to four nodes of two kinds, two resources, running jobs, windows and budget changes."""
    nodes = tuple(
        ProblemNode(
            (draw(st.integers(1, 6)), draw(st.sampled_from((0, 0, 2)))), draw(st.integers(0, 1))
        )
        for _ in range(draw(st.integers(1, 4)))
    )
    closings = tuple(draw(st.lists(_closings(len(nodes)), max_size=2)))
    shapes = draw(st.lists(_shapes(len(nodes), len(closings)), min_size=1, max_size=4))
    limited = draw(st.booleans())
    later = draw(st.lists(st.integers(NOW_NS + 1, NOW_NS + 30), max_size=2, unique=True))
    budgets = [Budget(at_ns, draw(st.integers(0, 12))) for at_ns in (0, *sorted(later))]
    return QueueProblem(
        now_ns=NOW_NS,
        nodes=nodes,
        shapes=tuple(shapes),
        jobs=tuple(draw(st.lists(_jobs(len(shapes), limited), min_size=1, max_size=jobs_max))),
        running=tuple(draw(_running(nodes, limited))),
        closings=closings,
        budgets=tuple(budgets) if limited else (Budget(0, UNLIMITED_UW),),
    )


@st.composite
def _closings(draw: st.DrawFn, nodes: int) -> Closing:
    from_ns = draw(st.integers(NOW_NS - 5, NOW_NS + 20))
    closed = draw(st.sets(st.integers(0, nodes - 1), min_size=1))
    to_ns = draw(st.integers(1, 15).map(from_ns.__add__) | st.just(ENDLESS_NS))
    return Closing(tuple(sorted(closed)), from_ns, to_ns)


@st.composite
def _shapes(draw: st.DrawFn, nodes: int, closings: int) -> Shape:
    named = st.sets(st.integers(0, nodes - 1), min_size=1).map(sorted).map(tuple)
    concerned = draw(st.sets(st.integers(0, closings - 1))) if closings else set()
    return Shape(
        units=draw(st.integers(1, 3)),
        amounts=(draw(st.integers(0, 4)), draw(st.sampled_from((0, 0, 1)))),
        spread=draw(st.sampled_from(NodeSpread)),
        nodes=draw(st.none() | named),
        closings=tuple(sorted(concerned)),
    )


@st.composite
def _jobs(draw: st.DrawFn, shapes: int, limited: bool) -> ProblemJob:
    options = [
        Option(
            duration_ns=(lasts_ns := draw(st.integers(1, 10))),
            power_uw=(draw(st.integers(0, 4)), draw(st.integers(0, 4))) if limited else (),
            stay_ns=draw(st.sampled_from((0, lasts_ns, lasts_ns + 4))),
        )
        for _ in range(draw(st.integers(1, 2)))
    ]
    return ProblemJob(
        key=0,
        shape=draw(st.integers(0, shapes - 1)),
        options=tuple(options),
        submit_ns=draw(st.integers(0, NOW_NS)),
        ewt_ns=draw(st.sampled_from((7, 20, 60))),
        wait_max_ns=draw(st.sampled_from((0, 20, 60))),
        weight=draw(st.sampled_from((1.0, 2.5))),
    )


@st.composite
def _running(draw: st.DrawFn, nodes: tuple[ProblemNode, ...], limited: bool) -> list[Running]:
    left = [list(node.amounts) for node in nodes]
    found = []
    for _ in range(draw(st.integers(0, 3))):
        parts = []
        for node in draw(st.sets(st.integers(0, len(nodes) - 1), min_size=1)):
            taken = tuple(draw(st.integers(0, amount)) for amount in left[node])
            left[node] = [a - b for a, b in zip(left[node], taken, strict=True)]
            parts.append(NodePart(node, taken))
        power_uw = draw(st.integers(0, 6)) if limited else 0
        found.append(Running(tuple(parts), power_uw, NOW_NS + draw(st.integers(1, 15))))
    return found
