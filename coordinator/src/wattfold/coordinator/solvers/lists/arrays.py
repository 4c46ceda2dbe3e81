"""A problem as arrays, the input of the list schedulers.

A *demand* is the shape of a job at one of its options, with the power of a unit by kind of node.
Jobs of equal demands are equal to a scheduler. Each demand has its possible nodes in the order of
trial. Nodes with its lowest power come first, so that a place is found whenever the power suffices
for one. With equal power, nodes with the fewest scarce resources that the job does not request come
first. So scarce resources remain for the waiting jobs that request them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.lists.problem import (
    ENDLESS_NS,
    NEVER,
    UNLIMITED_UW,
    YEAR_NS,
    Closing,
    QueuePlan,
    QueueProblem,
    Running,
    Shape,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

List = Sequence[int] | Ints
"""Numbers of jobs in an order, or a number for each job."""

MILLION = 1_000_000
FLEXIBLE = -1
"""Choice of the first option of a job that fits at its turn."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrays:
    """J jobs with O options of D demands, on N nodes with R resources. Not to be changed."""

    problem: QueueProblem
    now_ns: int
    units: Ints
    """D: units of each demand; the next three are also by demand."""
    spread: Ints
    amounts: Ints
    """D x R, of one unit."""
    unit_uw: Ints
    """D x N: power of a unit on each node."""
    tried: Ints
    """The nodes of all demands, one demand after the other, each in its order of trial."""
    tried_from: Ints
    """D + 1: start of the nodes of each demand."""
    concerned: Bools
    """D x C: whether a closing applies to a demand."""
    closed: Bools
    """C x N: the nodes of each closing."""
    closed_from_ns: Ints
    closed_to_ns: Ints
    option_from: Ints
    """J + 1: start of the options of each job."""
    demand: Ints
    """O: demand of each option; the next two are also by option."""
    duration_ns: Ints
    stay_ns: Ints
    submit_ns: Ints
    ewt_ns: Floats
    wait_max_ns: Floats
    weight: Floats
    capacity: Ints
    """N x R."""
    part_node: Ints
    """Node, end and amounts of P parts of running jobs."""
    part_end_ns: Ints
    part_amounts: Ints
    """P x R."""
    power_times_ns: Ints
    power_uw: Ints
    """Remaining power budget from each of these times on; the first is now."""
    ends_ns: Ints
    """Times after now, ascending, at which resources may become free."""
    limited: bool
    """Whether power is limited."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """The schedule of a list. ``nodes`` has the nodes of all units, job by job, ascending."""

    starts_ns: Ints
    options: Ints
    nodes: Ints
    nodes_from: Ints
    """J + 1."""


def arrays_of(problem: QueueProblem) -> Arrays:
    """Return the arrays of a problem."""
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}
    option_from, demand, duration, stay = [0], [], [], []
    for job in problem.jobs:
        for option in job.options:
            demand.append(numbers.setdefault((job.shape, option.power_uw), len(numbers)))
            duration.append(option.duration_ns)
            stay.append(option.stay_ns or option.duration_ns)
        option_from.append(len(demand))
    shapes = [problem.shapes[shape] for shape, _ in numbers]
    kinds = _ints([node.kind for node in problem.nodes])
    none = np.zeros(len(problem.nodes), dtype=np.int64)
    unit_uw = [_ints(power_uw)[kinds] if power_uw else none for _, power_uw in numbers]
    resources = len(problem.nodes[0].amounts) if problem.nodes else 0
    capacity = _ints([node.amounts for node in problem.nodes]).reshape(-1, resources)
    amounts = _ints([shape.amounts for shape in shapes]).reshape(len(shapes), resources)
    drawn_uw = _ints(unit_uw).reshape(len(shapes), len(problem.nodes))
    tried, counts = _tried(shapes, amounts, drawn_uw, capacity, _ints(scarcity(problem)))
    limited = any(one.power_uw < UNLIMITED_UW for one in problem.budgets)
    power_times_ns, power_uw = _power(problem)
    parts = [(_end_ns(one, problem), part) for one in problem.running for part in one.parts]
    return Arrays(
        problem=problem,
        now_ns=problem.now_ns,
        units=_ints([shape.units for shape in shapes]),
        spread=_ints([int(shape.spread) for shape in shapes]),
        amounts=amounts,
        unit_uw=drawn_uw,
        tried=tried,
        tried_from=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        concerned=_concerned(shapes, len(problem.closings)),
        closed=_closed(problem.closings, len(problem.nodes)),
        closed_from_ns=_ints([closing.from_ns for closing in problem.closings]),
        closed_to_ns=_ints([closing.to_ns for closing in problem.closings]),
        option_from=_ints(option_from),
        demand=_ints(demand),
        duration_ns=_ints(duration),
        stay_ns=_ints(stay),
        submit_ns=_ints([job.submit_ns for job in problem.jobs]),
        ewt_ns=np.array([job.ewt_ns for job in problem.jobs], dtype=np.float64),
        wait_max_ns=np.array([job.wait_max_ns for job in problem.jobs], dtype=np.float64),
        weight=np.array([job.weight for job in problem.jobs], dtype=np.float64),
        capacity=capacity,
        part_node=_ints([part.node for _, part in parts]),
        part_end_ns=_ints([end_ns for end_ns, _ in parts]),
        part_amounts=_ints([part.amounts for _, part in parts]).reshape(-1, resources),
        power_times_ns=power_times_ns,
        power_uw=power_uw,
        ends_ns=_ends(problem),
        limited=limited,
    )


def objective_of(arrays: Arrays, starts_ns: Ints) -> float:
    """Return `problem.objective` of starts, bitwise equal: the same sums in the same order."""
    if not len(starts_ns):
        return 0.0
    weights = arrays.problem.weights
    starts_ns = np.where(starts_ns == NEVER, arrays.now_ns + YEAR_NS, starts_ns)
    waits = (starts_ns - arrays.submit_ns).astype(np.float64)
    late = waits - arrays.wait_max_ns
    costs = waits / arrays.ewt_ns
    charged = costs + (weights.lateness * (late / arrays.ewt_ns) + weights.late)
    costs = np.where((arrays.wait_max_ns > 0) & (late > 0.0), charged, costs)
    return float(np.cumsum(arrays.weight * costs)[-1])


def plan_of(arrays: Arrays, schedule: Schedule, maker: str, order: Sequence[int] = ()) -> QueuePlan:
    """Return a schedule as a plan."""
    nodes, begin = schedule.nodes.tolist(), schedule.nodes_from.tolist()
    first = arrays.option_from[:-1]
    return QueuePlan(
        starts_ns=tuple(schedule.starts_ns.tolist()),
        options=tuple(np.maximum(schedule.options - first, 0).tolist()),
        nodes=tuple(tuple(nodes[a:b]) for a, b in pairwise(begin)),
        objective=objective_of(arrays, schedule.starts_ns),
        maker=maker,
        order=tuple(order),
    )


def scarcity(problem: QueueProblem) -> list[int]:
    """Return the demand of all jobs for each resource over time, relative to its capacity.

    The unit is a millionth of the scarcest resource.
    """
    lasting: Counter[int] = Counter()
    for job in problem.jobs:
        lasting[job.shape] += job.options[0].duration_ns
    asked = [0] * len(problem.nodes[0].amounts) if problem.nodes else []
    for number, lasts_ns in lasting.items():
        shape = problem.shapes[number]
        for resource, amount in enumerate(shape.amounts):
            asked[resource] += amount * shape.units * lasts_ns
    there = [
        max(sum(amounts), 1) for amounts in zip(*(n.amounts for n in problem.nodes), strict=True)
    ]
    shares = [total // count for total, count in zip(asked, there, strict=True)]
    most = max(shares, default=0)
    return [share * MILLION // most if most else 0 for share in shares]


def _tried(
    shapes: Sequence[Shape], amounts: Ints, unit_uw: Ints, capacity: Ints, scarce: Ints
) -> tuple[Ints, Ints]:
    """Return the possible nodes of each demand in order of trial, and their numbers.

    The nodes of all demands follow each other.
    """
    able = np.ones(unit_uw.shape, dtype=np.bool_)
    beside = np.zeros(unit_uw.shape, dtype=np.int64)
    for asked, there, share in zip(amounts.T, capacity.T, scarce, strict=True):
        able &= there >= asked[:, None]
        beside += np.where((there > 0) & (asked[:, None] == 0), share, 0)
    for row, shape in zip(able, shapes, strict=True):
        if shape.nodes is not None:
            named = np.zeros(len(row), dtype=np.bool_)
            named[list(shape.nodes)] = True
            row &= named
    numbers = np.broadcast_to(np.arange(len(capacity)), unit_uw.shape)
    order = np.lexsort((numbers, beside, unit_uw))
    found = np.take_along_axis(able, order, axis=1)
    return order[found].astype(np.int64), found.sum(axis=1)


def _end_ns(running_job: Running, problem: QueueProblem) -> int:
    """Return the assumed end of a running job, after now."""
    return max(running_job.end_ns, problem.now_ns + 1)


def _power(problem: QueueProblem) -> tuple[Ints, Ints]:
    now_ns = problem.now_ns
    ends = {_end_ns(one, problem) for one in problem.running}
    changes = {one.from_ns for one in problem.budgets if one.from_ns > now_ns}
    times_ns = _ints([now_ns, *sorted(ends | changes)])
    begins = _ints([one.from_ns for one in problem.budgets])
    budgets = _ints([one.power_uw for one in problem.budgets])
    in_force = np.searchsorted(begins, times_ns, side="right") - 1
    left = budgets[np.maximum(in_force, 0)]
    for one in problem.running:
        left[: np.searchsorted(times_ns, _end_ns(one, problem))] -= one.power_uw
    return times_ns, left


def _ends(problem: QueueProblem) -> Ints:
    now_ns = problem.now_ns
    times = {_end_ns(one, problem) for one in problem.running}
    times |= {closing.to_ns for closing in problem.closings}
    times |= {one.from_ns for one in problem.budgets}
    return _ints(sorted(at_ns for at_ns in times if now_ns < at_ns < ENDLESS_NS))


def _concerned(shapes: Sequence[Shape], closings: int) -> Bools:
    found = np.zeros((len(shapes), closings), dtype=np.bool_)
    for row, shape in zip(found, shapes, strict=True):
        row[list(shape.closings)] = True
    return found


def _closed(closings: Sequence[Closing], nodes: int) -> Bools:
    found = np.zeros((len(closings), nodes), dtype=np.bool_)
    for row, closing in zip(found, closings, strict=True):
        row[list(closing.nodes)] = True
    return found


def _ints(values: object) -> Ints:
    return np.array(values, dtype=np.int64)
