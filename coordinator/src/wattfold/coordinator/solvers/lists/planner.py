"""The best plan of a queue: the best list, improved by a search and optionally by an improver.

The plans of the plain rules are among the candidates, rolled forward until all jobs have started.
So under `problem.objective` no plan from here is worse than any of theirs; the first of equal plans
counts. A step (lists, search, `Improver`) that finds nothing better keeps the previous plan.
`QueuePlan.maker` names the step that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wattfold.coordinator.solvers.lists import orders, reference
from wattfold.coordinator.solvers.lists.arrays import FLEXIBLE, Arrays, Ints, arrays_of, plan_of
from wattfold.coordinator.solvers.lists.choice import lister
from wattfold.coordinator.solvers.lists.feasibility import faults
from wattfold.coordinator.solvers.lists.problem import (
    NEVER,
    Improver,
    QueuePlan,
    QueueProblem,
    objective,
)
from wattfold.coordinator.solvers.lists.search import Listed, Lister, listed, searched

LIST, PARALLEL = "list", "parallel-list"
LAST, SEARCH = "last-order", "order-search"
SEARCHED = (LAST, SEARCH)
"""Makers of plans whose orders only a search has found."""
PBS_FIFO, PBS_WALLTIME = "pbs-fifo", "pbs-walltime"
DEPTH = 10
FULL = 100
"""With more jobs, there are fewer evaluations, because each of them takes longer."""
FADING = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerEffort:
    """Effort of the search. ``evaluations`` apply to queues of up to `FULL` jobs."""

    depth: int = DEPTH
    evaluations: int = 32
    seed: int = 1
    numpy_jobs: int = 400
    """Maximum number of jobs in plans without the compiled scheduler."""
    improver: Improver | None = None
    improver_jobs: int = FULL
    """Maximum number of waiting jobs for calls of the improver."""
    improver_s: float = 0.5

    def evaluations_of(self, jobs: int) -> int:
        """Return the number of evaluations for a queue of ``jobs`` jobs."""
        return int(self.evaluations * min(1.0, FULL / max(jobs, 1)) ** FADING)


def planned(
    problem: QueueProblem,
    effort: PlannerEffort,
    last: Sequence[int] = (),
    lists_of: Callable[[Arrays], Lister] = lister,
) -> QueuePlan:
    """Return the best plan found. ``last`` is the job order of the last plan, maybe incomplete.

    If plans are made with numpy, the plan of a long queue contains only the first jobs by area; the
    others have no place.
    """
    arrays = arrays_of(problem)
    lists = lists_of(arrays)
    if isinstance(lists, reference.ReferenceLists) and len(problem.jobs) > effort.numpy_jobs:
        return _of_the_first(problem, arrays, effort, last, lists_of)
    best = min(candidates(lists, arrays, effort.depth, last), key=lambda plan: plan.objective)
    evaluations = effort.evaluations_of(len(problem.jobs))
    best = searched(lists, arrays, best, SEARCH, evaluations=evaluations, seed=effort.seed)
    plan = plan_of(arrays, best.schedule, best.maker, best.order.tolist())
    if effort.improver is None or not 0 < len(problem.jobs) <= effort.improver_jobs:
        return plan
    return improved(problem, plan, effort)


def _of_the_first(
    problem: QueueProblem,
    arrays: Arrays,
    effort: PlannerEffort,
    last: Sequence[int],
    lists_of: Callable[[Arrays], Lister],
) -> QueuePlan:
    """Return a plan of only the first jobs by area."""
    first = sorted(orders.weighted_area(arrays)[: effort.numpy_jobs].tolist())
    numbers = {job: number for number, job in enumerate(first)}
    part = replace(problem, jobs=tuple(problem.jobs[job] for job in first))
    known = [numbers[job] for job in last if job in numbers]
    plan = planned(part, effort, known, lists_of)
    count = len(problem.jobs)
    starts_ns, options = [NEVER] * count, [0] * count
    nodes: list[tuple[int, ...]] = [()] * count
    for number, job in enumerate(first):
        starts_ns[job], options[job] = plan.starts_ns[number], plan.options[number]
        nodes[job] = plan.nodes[number]
    return QueuePlan(
        starts_ns=tuple(starts_ns),
        options=tuple(options),
        nodes=tuple(nodes),
        objective=objective(problem, starts_ns),
        maker=plan.maker,
        order=tuple(first[number] for number in plan.order),
    )


def improved(problem: QueueProblem, plan: QueuePlan, effort: PlannerEffort) -> QueuePlan:
    """Return the improver's plan if it is valid and better, otherwise the given plan."""
    assert effort.improver is not None
    found = effort.improver.improve(problem, plan, effort.seed, effort.improver_s)
    if found is None or found.objective >= plan.objective or faults(problem, found):
        return plan
    return found


def candidates(lists: Lister, arrays: Arrays, depth: int, last: Sequence[int] = ()) -> list[Listed]:
    """Return the candidate lists, the plain rules last."""
    area = orders.weighted_area(arrays)
    first = np.zeros(len(area), dtype=np.int64)
    found = [
        listed(lists, arrays, LIST, area, first, depth),
        listed(lists, arrays, PARALLEL, area, first, 0),
    ]
    if (np.diff(arrays.option_from) > 1).any():
        flexible = np.full(len(area), FLEXIBLE, dtype=np.int64)
        found.insert(0, listed(lists, arrays, LIST, area, flexible, depth))
    if last:
        found.append(listed(lists, arrays, LAST, _merged(last, area), first, depth))
    return found + baselines(lists, arrays)


def baselines(lists: Lister, arrays: Arrays) -> list[Listed]:
    """Return the plans of the plain rules, with the first option of every job."""
    first = np.zeros(len(arrays.option_from) - 1, dtype=np.int64)
    by_walltime, by_submission = orders.by_walltime(arrays), orders.by_submission(arrays)
    return [
        listed(lists, arrays, PBS_WALLTIME, by_walltime, first, orders.WALLTIME_DEPTH),
        listed(lists, arrays, PBS_FIFO, by_submission, first, orders.FIFO_DEPTH),
    ]


def _merged(last: Sequence[int], area: Ints) -> Ints:
    """Insert missing jobs into an order, by area, each before the first job that ranks after it."""
    rank = np.empty(len(area), dtype=np.int64)
    rank[area] = np.arange(len(area))
    known = np.array(last, dtype=np.int64)
    lacking = area[~np.isin(area, known)]
    slots = np.searchsorted(np.maximum.accumulate(rank[known]), rank[lacking])
    return np.insert(known, slots, lacking)
