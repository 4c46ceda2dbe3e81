"""Check of a plan, independent of all solvers.

The check is deliberately plain and slow, with nothing in common with the solvers: every limit is
checked from each start to the next change, as stated in the problem.
"""

from __future__ import annotations

from collections import Counter

from wattfold.coordinator.solvers.lists.problem import (
    NEVER,
    NodeSpread,
    Option,
    QueuePlan,
    QueueProblem,
    Running,
    Shape,
    objective,
)

ROUNDING = 1e-9
"""Relative tolerance for sums of the same terms in another order."""


def faults(problem: QueueProblem, plan: QueuePlan) -> list[str]:
    """Return the faults of a plan as texts; empty if it is valid."""
    count = len(problem.jobs)
    if not len(plan.starts_ns) == len(plan.options) == len(plan.nodes) == count:
        return [f"the plan has {len(plan.starts_ns)} jobs, but {count} wait"]
    found: list[str] = []
    for index in range(count):
        found += _misplaced(problem, plan, index)
    if found:
        return found
    found += _overfull(problem, plan)
    said = objective(problem, plan.starts_ns)
    if abs(said - plan.objective) > ROUNDING * max(abs(said), 1.0):
        found.append(f"the plan states the objective {plan.objective}, but it is {said}")
    return found


def _misplaced(problem: QueueProblem, plan: QueuePlan, index: int) -> list[str]:
    """Return the faults of the place of a job by itself."""
    job, start_ns, nodes = problem.jobs[index], plan.starts_ns[index], plan.nodes[index]
    shape = problem.shapes[job.shape]
    if start_ns == NEVER:
        return [f"job {index} has nodes but no start"] if nodes else []
    if start_ns < problem.now_ns:
        return [f"job {index} starts at {start_ns} ns, before now ({problem.now_ns} ns)"]
    if not 0 <= plan.options[index] < len(job.options):
        return [f"job {index} has {len(job.options)} options, none of number {plan.options[index]}"]
    if len(nodes) != shape.units:
        return [f"job {index} has nodes for {len(nodes)} of {shape.units} units"]
    able = set(range(len(problem.nodes)) if shape.nodes is None else shape.nodes)
    if not able.issuperset(nodes):
        return [f"job {index} must not be on nodes {sorted(set(nodes) - able)}"]
    if shape.spread is NodeSpread.TOGETHER and len(set(nodes)) > 1:
        return [f"job {index} is not all on one node"]
    if shape.spread is NodeSpread.APART and len(set(nodes)) < len(nodes):
        return [f"job {index} has several units on one node"]
    return _closed(problem, shape, start_ns, job.options[plan.options[index]], nodes, index)


def _closed(
    problem: QueueProblem,
    shape: Shape,
    start_ns: int,
    option: Option,
    nodes: tuple[int, ...],
    index: int,
) -> list[str]:
    end_ns = start_ns + (option.stay_ns or option.duration_ns)
    return [
        f"job {index} is on a node that is closed from {closing.from_ns} to {closing.to_ns} ns"
        for closing in (problem.closings[number] for number in shape.closings)
        if start_ns < closing.to_ns and closing.from_ns < end_ns and set(nodes) & {*closing.nodes}
    ]


def _overfull(problem: QueueProblem, plan: QueuePlan) -> list[str]:
    """Return overfull nodes, and times at which power is short.

    The power of running jobs may exceed the budget: then no job that draws power may start.
    """
    held: list[tuple[int, int, Counter[tuple[int, int]], int, bool]] = []
    for one in problem.running:
        held.append((problem.now_ns, one.end_ns, _taken(one), one.power_uw, False))
    for index, start_ns in enumerate(plan.starts_ns):
        if start_ns == NEVER:
            continue
        job = problem.jobs[index]
        option = job.options[plan.options[index]]
        taken: Counter[tuple[int, int]] = Counter()
        power_uw = 0
        for node in plan.nodes[index]:
            for resource, amount in enumerate(problem.shapes[job.shape].amounts):
                taken[node, resource] += amount
            power_uw += option.power_uw[problem.nodes[node].kind] if option.power_uw else 0
        held.append((start_ns, start_ns + option.duration_ns, taken, power_uw, True))
    starts = {begin_ns for begin_ns, *_ in held} | {one.from_ns for one in problem.budgets}
    found: list[str] = []
    for at_ns in sorted(at_ns for at_ns in starts if at_ns >= problem.now_ns):
        present = [one for one in held if one[0] <= at_ns < one[1]]
        total: Counter[tuple[int, int]] = Counter()
        for _, _, taken, _, _ in present:
            total.update(taken)
        found += [
            f"{amount} of resource {resource} on node {node} at {at_ns} ns,"
            f" which has {problem.nodes[node].amounts[resource]}"
            for (node, resource), amount in total.items()
            if amount > max(problem.nodes[node].amounts[resource], 0)
        ]
        drawn_uw = sum(one[3] for one in present)
        planned_uw = sum(one[3] for one in present if one[4])
        budget_uw = [one.power_uw for one in problem.budgets if one.from_ns <= at_ns][-1]
        if planned_uw and drawn_uw > budget_uw:
            found.append(f"{drawn_uw} uW are drawn at {at_ns} ns, of {budget_uw} uW")
    return found


def _taken(running_job: Running) -> Counter[tuple[int, int]]:
    taken: Counter[tuple[int, int]] = Counter()
    for part in running_job.parts:
        for resource, amount in enumerate(part.amounts):
            taken[part.node, resource] += amount
    return taken
