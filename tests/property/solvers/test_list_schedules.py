"""List schedules: the numpy scheduler, the compiled scheduler and a plain search agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from property.solvers.queues import problems

from wattfold.coordinator.solvers.lists.arrays import (
    FLEXIBLE,
    Arrays,
    Schedule,
    arrays_of,
    objective_of,
    plan_of,
    scarcity,
)
from wattfold.coordinator.solvers.lists.feasibility import faults
from wattfold.coordinator.solvers.lists.problem import (
    ENDLESS_NS,
    NEVER,
    NodeSpread,
    QueueProblem,
    objective,
)
from wattfold.coordinator.solvers.lists.reference import ReferenceLists

Lister = tuple[QueueProblem, list[int], list[int], int]


@st.composite
def listed(draw: st.DrawFn) -> Lister:
    """A problem, an order of its jobs, an option of each job, and a depth."""
    problem = draw(problems())
    order = draw(st.permutations(range(len(problem.jobs))))
    choice = [draw(st.integers(FLEXIBLE, len(job.options) - 1)) for job in problem.jobs]
    return problem, order, choice, draw(st.sampled_from((0, 1, 2, 99)))


@settings(max_examples=examples(150))
@given(listed())
def test_schedules_hold_and_are_those_of_a_plain_search(drawn: Lister) -> None:
    problem, order, choice, depth = drawn
    arrays = arrays_of(problem)
    found = ReferenceLists(arrays).schedule(order, choice, depth)
    assert faults(problem, plan_of(arrays, found, "list")) == []
    assert _described(arrays, found) == Plain(problem, choice, depth).schedule(order)


@settings(max_examples=examples(150))
@given(listed())
def test_compiled_and_numpy_schedules_are_equal(drawn: Lister) -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    from wattfold.coordinator.solvers.lists import compiled

    problem, *rest = drawn
    arrays = arrays_of(problem)
    first, second = (
        ReferenceLists(arrays).schedule(*rest),
        compiled.CompiledLists(arrays).schedule(*rest),
    )
    assert _described(arrays, first) == _described(arrays, second)


@settings(max_examples=examples(100))
@given(problems(), st.randoms(use_true_random=False))
def test_the_objective_of_arrays_is_that_of_the_problem(
    problem: QueueProblem, chance: object
) -> None:
    count = len(problem.jobs)
    starts = [chance.choice((NEVER, 100, 117, 140)) for _ in range(count)]  # type: ignore[attr-defined]
    said = objective_of(arrays_of(problem), np.array(starts, dtype=np.int64))
    assert said == objective(problem, starts)


Placed = tuple[int, int, tuple[int, ...]]
"""Start, option and nodes of a job."""


def _described(arrays: Arrays, found: Schedule) -> list[Placed]:
    plan = plan_of(arrays, found, "list")
    return list(zip(plan.starts_ns, plan.options, plan.nodes, strict=True))


class Plain:
    """The rules of `reference`, on a plain list of holders, resources and times."""

    def __init__(self, problem: QueueProblem, choice: Sequence[int], depth: int) -> None:
        self._problem, self._choice, self._depth = problem, choice, depth
        self._held = [
            (problem.now_ns, one.end_ns, part.node, part.amounts)
            for one in problem.running
            for part in one.parts
        ]
        self._drawn = [(problem.now_ns, one.end_ns, one.power_uw) for one in problem.running]
        self._scarce = scarcity(problem)
        self._events = {one.end_ns for one in problem.running}
        self._events |= {one.to_ns for one in problem.closings if one.to_ns < ENDLESS_NS}
        self._events |= {one.from_ns for one in problem.budgets}

    def schedule(self, order: Sequence[int]) -> list[Placed]:
        placed: dict[int, Placed] = {}
        begins: set[int] = set()
        at_ns: int | None = self._problem.now_ns
        while at_ns is not None:
            ahead = [start for start, *_ in placed.values() if start > at_ns]
            for job in order:
                if job in placed:
                    continue
                found = self._first(job, [at_ns])
                if found is None and len(ahead) < self._depth:
                    later = sorted(t for t in self._events if t > at_ns)
                    found = self._first(job, later)
                if found is not None:
                    self._take(job, found)
                    placed[job] = found
                    if found[0] > at_ns:
                        ahead.append(found[0])
                        begins.add(found[0])
            at_ns = min((t for t in self._events | begins if t > at_ns), default=None)
        nowhere = [self._nowhere(job) for job in range(len(self._problem.jobs))]
        return [placed.get(job, nowhere[job]) for job in range(len(self._problem.jobs))]

    def _nowhere(self, job: int) -> Placed:
        return NEVER, 0, ()

    def _first(self, job: int, times: Sequence[int]) -> Placed | None:
        for at_ns in times:
            for option in self._options(job):
                nodes = self._nodes(job, option, at_ns)
                if nodes is not None:
                    return at_ns, option, nodes
        return None

    def _options(self, job: int) -> Sequence[int]:
        if self._choice[job] == FLEXIBLE:
            return range(len(self._problem.jobs[job].options))
        return [self._choice[job]]

    def _nodes(self, job: int, number: int, at_ns: int) -> tuple[int, ...] | None:
        problem = self._problem
        option = problem.jobs[job].options[number]
        shape = problem.shapes[problem.jobs[job].shape]
        power_uw = option.power_uw or (0, 0)
        until_ns = at_ns + option.duration_ns
        stays_until_ns = at_ns + (option.stay_ns or option.duration_ns)

        def place(node: int) -> tuple[int, int, int]:
            beside = sum(
                scarce
                for has, asks, scarce in zip(
                    problem.nodes[node].amounts, shape.amounts, self._scarce, strict=True
                )
                if has and not asks
            )
            return power_uw[problem.nodes[node].kind], beside, node

        chosen: list[int] = []
        for node in sorted(range(len(problem.nodes)), key=place):
            if shape.nodes is not None and node not in shape.nodes:
                continue
            closed = any(
                node in one.nodes and at_ns < one.to_ns and one.from_ns < stays_until_ns
                for one in (problem.closings[number] for number in shape.closings)
            )
            if closed:
                continue
            most = 1 if shape.spread is NodeSpread.APART else shape.units - len(chosen)
            fits = max(
                k
                for k in range(most + 1)
                if k == 0 or self._holds(node, shape.amounts, k, at_ns, until_ns)
            )
            if shape.spread is NodeSpread.TOGETHER and fits < shape.units:
                continue
            chosen += [node] * fits
            if len(chosen) == shape.units:
                break
        if len(chosen) < shape.units:
            return None
        needed_uw = sum(power_uw[problem.nodes[node].kind] for node in chosen)
        if needed_uw and not self._fed(needed_uw, at_ns, until_ns):
            return None
        return tuple(sorted(chosen))

    def _holds(
        self, node: int, amounts: Sequence[int], units: int, from_ns: int, to_ns: int
    ) -> bool:
        capacity = self._problem.nodes[node].amounts
        for at_ns in range(from_ns, to_ns):
            for r, amount in enumerate(amounts):
                if not amount:
                    continue
                held = sum(
                    taken[r]
                    for a, b, where, taken in self._held
                    if where == node and a <= at_ns < b
                )
                if held + units * amount > capacity[r]:
                    return False
        return True

    def _fed(self, needed_uw: int, from_ns: int, to_ns: int) -> bool:
        for at_ns in range(from_ns, to_ns):
            budget = [one.power_uw for one in self._problem.budgets if one.from_ns <= at_ns][-1]
            if needed_uw + sum(p for a, b, p in self._drawn if a <= at_ns < b) > budget:
                return False
        return True

    def _take(self, job: int, found: Placed) -> None:
        start_ns, number, nodes = found
        problem = self._problem
        option = problem.jobs[job].options[number]
        end_ns = start_ns + option.duration_ns
        for node in nodes:
            amounts = problem.shapes[problem.jobs[job].shape].amounts
            self._held.append((start_ns, end_ns, node, amounts))
            if option.power_uw:
                power_uw = option.power_uw[problem.nodes[node].kind]
                self._drawn.append((start_ns, end_ns, power_uw))
        self._events.add(end_ns)
