"""A problem of `solvers.lists` in small integers, as constraint solvers need it.

Times count from now in steps of a grid, amounts in steps of their own. If the numbers of a problem
have large enough common divisors, nothing is lost (`Grid.exact`). Otherwise times and used amounts
are rounded up and available amounts down, so that a plan of the grid is a plan of the problem.
Running jobs, budgets and budget changes all become capacities over time.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from wattfold.coordinator.solvers.lists.problem import (
    ENDLESS_NS,
    NEVER,
    NodeSpread,
    ProblemJob,
    QueuePlan,
    QueueProblem,
    Shape,
    objective,
)

STEPS_MOST = 1 << 31
"""Maximum number of time steps up to the horizon."""
AMOUNT_MOST = 1 << 24
WEIGHT_MOST = 1 << 20
OBJECTIVE_MOST = 1 << 60
MACHINE = -1
"""Replaces the node in keys of resources of the whole machine, such as power."""

Key = tuple[int, int]
"""A node and one of its resources."""


class Taken(NamedTuple):
    """An amount that is used from ``start`` up to ``end``."""

    start: int
    end: int
    amount: int


class Capacity(NamedTuple):
    """The maximum amount at any time, and its uses over time."""

    most: int
    taken: tuple[Taken, ...]


class Slot(NamedTuple):
    """A position on a node for a unit of a job, or for all units together."""

    node: int
    units: int


class Task(NamedTuple):
    """A waiting job."""

    job: int
    """Its index in the problem."""
    durations: tuple[int, ...]
    """Duration of each option."""
    stays: tuple[int, ...]
    power: tuple[tuple[int, ...], ...]
    """Power of a unit by option and kind of node; empty = power is unlimited."""
    amounts: tuple[int, ...]
    """Amounts of a unit."""
    slots: tuple[Slot, ...]
    """Slots in order of nodes, so that the slots of a node are consecutive."""
    chosen: int
    """Number of slots to choose."""
    closed: tuple[tuple[int, int, int], ...]
    """Nodes with times from and to which they are closed for the job."""
    weight: int
    """Cost per step of waiting."""
    latest: int
    """Latest start that is not late; may be negative."""
    late_weight: int
    """Cost per step of lateness."""
    late_cost: int
    """Fixed cost of lateness."""


class TaskPlacement(NamedTuple):
    """Start, option and nodes of a task."""

    start: int
    option: int
    nodes: tuple[int, ...]
    """Node of each unit, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The problem in steps."""

    step_ns: int
    horizon: int
    """After every relevant time: the starts of some best plan are before it."""
    tasks: tuple[Task, ...]
    """Tasks of the jobs that have a place in some known plan."""
    capacities: dict[Key, Capacity]
    """Capacities of nodes by resource, and the power of the `MACHINE` if it is limited."""
    kinds: tuple[int, ...]
    """Kind of each node."""
    exact: bool
    """Whether a best plan of the grid is a best plan of the problem."""

    def cost(self, task: Task, start: int) -> int:
        """Return the cost of a task with this start, which the solver minimises."""
        late = max(start - task.latest, 0)
        return task.weight * start + task.late_weight * late + (task.late_cost if late else 0)


def grid_of(problem: QueueProblem, incumbent: QueuePlan) -> Grid:
    """Return the problem in steps, without jobs that the incumbent has no place for."""
    jobs = [index for index, start_ns in enumerate(incumbent.starts_ns) if start_ns != NEVER]
    horizon_ns = _horizon_ns(problem, jobs)
    step_ns = math.gcd(*_times_ns(problem, jobs)) or 1
    exact = horizon_ns // step_ns < STEPS_MOST
    if not exact:
        step_ns = max(1_000_000, -(-horizon_ns // STEPS_MOST))
    divisors = [_divisor(problem, resource) for resource in range(_resources(problem))]
    exact = exact and all(rounded is False for _, rounded in divisors)
    steps = tuple(divisor for divisor, _ in divisors)
    power_step, rounded = _power_divisor(problem, jobs)
    scale, whole = _objective_scale(problem, jobs, step_ns, -(-horizon_ns // step_ns))
    make = _Maker(problem, step_ns, steps, power_step, scale)
    return Grid(
        step_ns=step_ns,
        horizon=-(-horizon_ns // step_ns) + len(jobs) + 1,
        tasks=tuple(make.task(index) for index in jobs),
        capacities=make.capacities(),
        kinds=tuple(node.kind for node in problem.nodes),
        exact=exact and not rounded and whole,
    )


def places_of(grid: Grid, problem: QueueProblem, plan: QueuePlan) -> list[TaskPlacement]:
    """Return the places of the tasks in a plan of the problem; starts are rounded up."""
    return [
        TaskPlacement(
            start=-(-(plan.starts_ns[task.job] - problem.now_ns) // grid.step_ns),
            option=plan.options[task.job],
            nodes=plan.nodes[task.job],
        )
        for task in grid.tasks
    ]


def settled(
    grid: Grid,
    wanted: Sequence[TaskPlacement],
    *,
    sooner: bool = False,
    before: Collection[int] = (),
) -> list[TaskPlacement] | None:
    """Return feasible places on the same nodes, each at its start or as soon after as possible.

    ``sooner``: starts may also be earlier, as soon as possible, in the order of the starts.
    ``before``: tasks that come before all others, whenever they start. None if a task never fits.
    """
    held = {key: list(one.taken) for key, one in grid.capacities.items()}
    found: dict[int, TaskPlacement] = {}
    known = set(before)
    order = sorted(
        range(len(wanted)), key=lambda task: (task not in known, wanted[task].start, task)
    )
    for number in order:
        task, place = grid.tasks[number], wanted[number]
        demands = demands_of(grid, task, place)
        start = _first_fit(grid, task, place, demands, held, 0 if sooner else place.start)
        if start is None:
            return None
        found[number] = place._replace(start=start)
        end = start + task.durations[place.option]
        for key, amount in demands.items():
            held[key].append(Taken(start, end, amount))
    return [found[number] for number in range(len(wanted))]


def demands_of(grid: Grid, task: Task, place: TaskPlacement) -> dict[Key, int]:
    """Return the demands of a task at a place."""
    demands: dict[Key, int] = {}
    for node in place.nodes:
        for resource, amount in enumerate(task.amounts):
            if amount:
                demands[node, resource] = demands.get((node, resource), 0) + amount
    if task.power and (MACHINE, 0) in grid.capacities:
        drawn = sum(task.power[place.option][grid.kinds[node]] for node in place.nodes)
        if drawn:
            demands[MACHINE, 0] = drawn
    return demands


def plan_of(
    grid: Grid,
    problem: QueueProblem,
    incumbent: QueuePlan,
    places: Sequence[TaskPlacement],
    maker: str,
) -> QueuePlan:
    """Return the plan of the problem with the tasks at these places."""
    starts = list(incumbent.starts_ns)
    options, nodes = list(incumbent.options), list(incumbent.nodes)
    for task, place in zip(grid.tasks, places, strict=True):
        starts[task.job] = problem.now_ns + place.start * grid.step_ns
        options[task.job] = place.option
        nodes[task.job] = place.nodes
    return QueuePlan(
        starts_ns=tuple(starts),
        options=tuple(options),
        nodes=tuple(nodes),
        objective=objective(problem, starts),
        maker=maker,
        order=tuple(sorted(range(len(starts)), key=lambda task: (_last(starts[task]), task))),
    )


def _last(start_ns: int) -> int:
    return ENDLESS_NS if start_ns == NEVER else start_ns


def _first_fit(
    grid: Grid,
    task: Task,
    place: TaskPlacement,
    demands: dict[Key, int],
    held: dict[Key, list[Taken]],
    earliest: int,
) -> int | None:
    lasts, stays = task.durations[place.option], task.stays[place.option]
    closed = [(low, high) for node, low, high in task.closed if node in place.nodes]
    times = {earliest, *(high for _, high in closed)}
    for key in demands:
        times |= {one.end for one in held[key]}
    for start in sorted(at for at in times if at >= earliest):
        if any(start < high and low < start + stays for low, high in closed):
            continue
        if all(
            _peak(held[key], start, start + lasts) + amount <= grid.capacities[key].most
            for key, amount in demands.items()
        ):
            return start
    return None


def _peak(held: Sequence[Taken], start: int, end: int) -> int:
    """Return the maximum use at any time of a span."""
    inside = [one for one in held if one.start < end and start < one.end]
    most = 0
    for at in {start, *(one.start for one in inside if one.start > start)}:
        most = max(most, sum(one.amount for one in inside if one.start <= at < one.end))
    return most


class _Maker:
    """Conversion of parts of a problem to steps."""

    def __init__(
        self,
        problem: QueueProblem,
        step_ns: int,
        steps: tuple[int, ...],
        power_step: int,
        scale: Fraction,
    ) -> None:
        self._problem, self._step_ns, self._steps = problem, step_ns, steps
        self._power_step, self._scale = power_step, scale

    def task(self, index: int) -> Task:
        problem, job = self._problem, self._problem.jobs[index]
        shape = problem.shapes[job.shape]
        slots = self._slots(shape)
        weight, late_weight, late_cost = _rates(problem, job, self._step_ns)
        return Task(
            job=index,
            durations=tuple(self._up(one.duration_ns) for one in job.options),
            stays=tuple(self._up(one.stay_ns or one.duration_ns) for one in job.options),
            power=tuple(
                tuple(-(-uw // self._power_step) for uw in one.power_uw) for one in job.options
            )
            if self._power_step and all(one.power_uw for one in job.options)
            else (),
            amounts=tuple(
                -(-amount // step) for amount, step in zip(shape.amounts, self._steps, strict=True)
            ),
            slots=slots,
            chosen=1 if shape.spread is NodeSpread.TOGETHER else shape.units,
            closed=self._closed(shape),
            weight=round(weight * self._scale),
            latest=(job.submit_ns + job.wait_max_ns - problem.now_ns) // self._step_ns
            if job.wait_max_ns
            else STEPS_MOST * 4,
            late_weight=round(late_weight * self._scale),
            late_cost=round(late_cost * self._scale),
        )

    def capacities(self) -> dict[Key, Capacity]:
        """Return the capacities of all requested resources, and of power if it is limited."""
        problem = self._problem
        found: dict[Key, Capacity] = {}
        running = _by_node(problem)
        for node, has in enumerate(problem.nodes):
            for resource, step in enumerate(self._steps):
                parts = running.get((node, resource), [])
                breaks = [end_ns - problem.now_ns for end_ns, _ in parts]
                own = has.amounts[resource]
                found[node, resource] = self._capacity(
                    breaks,
                    lambda at_ns, parts=parts, own=own: (  # type: ignore[misc]
                        own
                        - sum(amount for end_ns, amount in parts if end_ns - problem.now_ns > at_ns)
                    ),
                    step,
                )
        if self._power_step:
            found[MACHINE, 0] = self._power()
        return found

    def _power(self) -> Capacity:
        problem = self._problem
        times = [max(one.from_ns - problem.now_ns, 0) for one in problem.budgets]
        breaks = times + [one.end_ns - problem.now_ns for one in problem.running]

        def left(at_ns: int) -> int:
            budget = problem.budgets[max(bisect_right(times, at_ns) - 1, 0)].power_uw
            ends = problem.now_ns + at_ns
            return budget - sum(one.power_uw for one in problem.running if one.end_ns > ends)

        return self._capacity(breaks, left, self._power_step)

    def _capacity(
        self, breaks_ns: Iterable[int], left: Callable[[int], int], step: int
    ) -> Capacity:
        """Return a capacity that changes only at these times after now; the last value persists."""
        breaks = sorted({0, *(at for at in breaks_ns if at > 0)})
        values = [max(left(at), 0) // step for at in breaks]
        cells = sorted({cell for at in breaks for cell in (at // self._step_ns, self._up(at))})
        least: list[int] = []
        for place, cell in enumerate(cells):
            from_ns = cell * self._step_ns
            to_ns = cells[place + 1] * self._step_ns if place + 1 < len(cells) else math.inf
            first = bisect_right(breaks, from_ns) - 1
            least.append(
                min(
                    value
                    for at, value in zip(breaks[first:], values[first:], strict=True)
                    if at < to_ns
                )
            )
        most = max(least)
        taken = [
            Taken(cell, cells[place + 1] if place + 1 < len(cells) else STEPS_MOST * 2, most - low)
            for place, (cell, low) in enumerate(zip(cells, least, strict=True))
            if low < most
        ]
        return Capacity(most=most, taken=tuple(taken))

    def _slots(self, shape: Shape) -> tuple[Slot, ...]:
        problem, found = self._problem, []
        able = range(len(problem.nodes)) if shape.nodes is None else shape.nodes
        for node in able:
            most = _fits(problem, shape, node)
            if shape.spread is NodeSpread.TOGETHER:
                found += [Slot(node, shape.units)] if most >= shape.units else []
            elif shape.spread is NodeSpread.APART:
                found += [Slot(node, 1)] if most else []
            else:
                found += [Slot(node, 1)] * min(most, shape.units)
        return tuple(found)

    def _closed(self, shape: Shape) -> tuple[tuple[int, int, int], ...]:
        problem = self._problem
        found = []
        for closing in (problem.closings[number] for number in shape.closings):
            low = max(closing.from_ns - problem.now_ns, 0) // self._step_ns
            high = self._up(max(closing.to_ns - problem.now_ns, 0))
            if high > 0:
                found += [(node, low, min(high, STEPS_MOST * 2)) for node in closing.nodes]
        return tuple(found)

    def _up(self, time_ns: int) -> int:
        return -(-time_ns // self._step_ns)


def _by_node(problem: QueueProblem) -> dict[Key, list[tuple[int, int]]]:
    found: dict[Key, list[tuple[int, int]]] = {}
    for one in problem.running:
        for part in one.parts:
            for resource, amount in enumerate(part.amounts):
                if amount:
                    found.setdefault((part.node, resource), []).append((one.end_ns, amount))
    return found


def _fits(problem: QueueProblem, shape: Shape, node: int) -> int:
    """Return how many units fit on an empty node."""
    has = problem.nodes[node].amounts
    most = [own // asked for own, asked in zip(has, shape.amounts, strict=True) if asked]
    return min([*most, shape.units])


def _resources(problem: QueueProblem) -> int:
    return len(problem.nodes[0].amounts) if problem.nodes else 0


def _horizon_ns(problem: QueueProblem, jobs: Sequence[int]) -> int:
    """Return a time by which all jobs would fit in sequence after the last change."""
    changes = [one.end_ns for one in problem.running]
    changes += [one.from_ns for one in problem.budgets]
    changes += [
        time_ns
        for one in problem.closings
        for time_ns in (one.from_ns, one.to_ns)
        if time_ns < ENDLESS_NS // 2
    ]
    quiet_ns = max([problem.now_ns, *changes]) - problem.now_ns
    longest = [
        max(max(one.duration_ns, one.stay_ns) for one in problem.jobs[index].options)
        for index in jobs
    ]
    return quiet_ns + sum(longest)


def _times_ns(problem: QueueProblem, jobs: Sequence[int]) -> list[int]:
    now_ns = problem.now_ns
    times = [one.end_ns - now_ns for one in problem.running]
    times += [one.from_ns - now_ns for one in problem.budgets if one.from_ns > now_ns]
    for closing in problem.closings:
        times += [
            at - now_ns for at in (closing.from_ns, closing.to_ns) if now_ns < at < ENDLESS_NS // 2
        ]
    for index in jobs:
        for option in problem.jobs[index].options:
            times += [option.duration_ns, option.stay_ns or option.duration_ns]
    return times


def _divisor(problem: QueueProblem, resource: int) -> tuple[int, bool]:
    """Return the step of amounts of a resource, and whether it rounds any of them."""
    asked = [one.amounts[resource] for one in problem.shapes]
    asked += [part.amounts[resource] for one in problem.running for part in one.parts]
    most = max((node.amounts[resource] for node in problem.nodes), default=0)
    return _counted_in(math.gcd(*asked), most)


def _power_divisor(problem: QueueProblem, jobs: Sequence[int]) -> tuple[int, bool]:
    """Return the step of power, and whether it rounds any; 0 if power is unlimited."""
    drawn = [
        uw for index in jobs for option in problem.jobs[index].options for uw in option.power_uw
    ]
    if not any(drawn):
        return 0, False
    most_uw = sum(
        problem.shapes[problem.jobs[index].shape].units
        * max(max(option.power_uw, default=0) for option in problem.jobs[index].options)
        for index in jobs
    )
    running_uw = sum(one.power_uw for one in problem.running)
    if most_uw + running_uw <= min(one.power_uw for one in problem.budgets):
        return 0, False
    return _counted_in(math.gcd(*drawn), max(one.power_uw for one in problem.budgets))


def _counted_in(divisor: int, most: int) -> tuple[int, bool]:
    divisor = divisor or 1
    if most // divisor <= AMOUNT_MOST:
        return divisor, False
    return -(-most // AMOUNT_MOST), True


def _rates(
    problem: QueueProblem, job: ProblemJob, step_ns: int
) -> tuple[Fraction, Fraction, Fraction]:
    """Return the costs of a step of waiting, a step of lateness, and being late."""
    weight, weights = _fraction(job.weight), problem.weights
    waiting = weight * step_ns / job.ewt_ns
    if not job.wait_max_ns:
        return waiting, Fraction(0), Fraction(0)
    return waiting, waiting * _fraction(weights.lateness), weight * _fraction(weights.late)


def _fraction(value: float) -> Fraction:
    """Return a number as the fraction that was written, such as 0.2 as one fifth."""
    return Fraction(value).limit_denominator(1_000_000)


def _objective_scale(
    problem: QueueProblem, jobs: Sequence[int], step_ns: int, horizon: int
) -> tuple[Fraction, bool]:
    """Return the factor of all costs, and whether it makes all of them integers."""
    rates = [_rates(problem, problem.jobs[index], step_ns) for index in jobs]
    slopes = [rate for waiting, late, _ in rates for rate in (waiting, late) if rate]
    fixed = [rate for _, _, rate in rates if rate]
    if not slopes:
        return Fraction(1), not fixed
    scale = Fraction(math.lcm(*(rate.denominator for rate in slopes + fixed)))
    scale /= math.gcd(*((rate * scale).numerator for rate in slopes + fixed))
    if float((sum(slopes) * max(horizon, 1) + sum(fixed)) * scale) < OBJECTIVE_MOST:
        return scale, True
    return Fraction(WEIGHT_MOST) / max(slopes), False
