"""Plan made job by job in a given order, in which a job may wait for resources that become free.

This is list scheduling (Graham, 1966) with the objective of the training jobs. Each job in turn
gets the option, node and earliest start with the lowest cost, including the resulting tardiness and
energy, after all previous jobs. Jobs that start now run, the others are postponed. Running jobs
stay. Later jobs are not considered.

Only GPUs are planned ahead. Jobs that start now must have room in all other resources as well.
"""

from __future__ import annotations

import numpy as np

from wattfold.coordinator.solvers.training.problem import (
    ANY,
    POSTPONED,
    Floats,
    Ints,
    TrainingPlan,
    TrainingProblem,
    objective,
)

LISTED = "list-schedule"
SOON_S = 1e-6


def planned_ahead(problem: TrainingProblem, order: Ints) -> TrainingPlan:
    """Return the plan of jobs that are placed in this order."""
    made = _Made(problem)
    for job in order.tolist():
        made.take(job)
    return TrainingPlan(
        option=tuple(made.option),
        node=tuple(made.node),
        objective=objective(problem, made.option, made.node),
        maker=LISTED,
    )


class _Made:
    """The plan so far. Times count from now."""

    def __init__(self, problem: TrainingProblem) -> None:
        self._problem = problem
        nodes, count = problem.nodes, len(problem)
        self.option, self.node = [POSTPONED] * count, [POSTPONED] * count
        self._left, self._power_uw = nodes.free.copy(), problem.power_uw
        most = int(nodes.free[:, 0].max(initial=0))
        self._free_s: Floats = np.full((len(nodes.kind), max(most, 1)), np.inf)
        """Times at which the GPUs of a node become free, sorted; infinite beyond their number."""
        for row, gpus in enumerate(nodes.free[:, 0].tolist()):
            self._free_s[row, :gpus] = 0.0
        kinds = range(int(nodes.kind.max(initial=-1)) + 1)
        self._of_kind = [np.flatnonzero(nodes.kind == kind) for kind in kinds]
        times, first = problem.options.time_s, problem.options.first
        fastest = np.array(
            [times[first[j] : first[j + 1]].min(initial=np.inf) for j in range(count)]
        )
        self._due_s = fastest - problem.jobs.pressure_s

    def take(self, job: int) -> None:
        """Place the next job at the lowest cost, now or later."""
        problem = self._problem
        options, best = problem.options, (np.inf, np.inf)
        chosen, where, start_s = POSTPONED, POSTPONED, np.inf
        for option in problem.options_of(job):
            if problem.jobs.must[job]:
                self._begin(job, option, int(options.node[option]))
                return
            node, from_s = self._soonest(option)
            if node == POSTPONED:
                continue
            ends_s = from_s + float(options.time_s[option])
            found = self._cost_eur(job, option, ends_s), ends_s
            if found < best:
                best, chosen, where, start_s = found, option, node, from_s
        if chosen == POSTPONED:
            return
        if start_s <= SOON_S:
            self._begin(job, chosen, where)
        else:
            self._reserve(chosen, where, start_s)

    def _cost_eur(self, job: int, option: int, ends_s: float) -> float:
        """Return the energy cost, other costs, and the cost of tardiness with this end."""
        options, weight = self._problem.options, float(self._problem.jobs.weight[job])
        due_s = float(self._due_s[job])
        now_s = max(float(options.time_s[option]) - due_s, 0.0)
        late_s = max(ends_s - due_s, 0.0)
        own = float(options.cost_eur[option] + options.own_eur[option])
        return own + weight * (late_s - now_s)

    def _soonest(self, option: int) -> tuple[int, float]:
        """Return the node of an option with the earliest start (ties: fullest), and the start."""
        options = self._problem.options
        only, gpus = int(options.node[option]), int(options.amounts[option, 0])
        able = self._of_kind[int(options.kind[option])] if only == ANY else np.array([only])
        if not len(able) or gpus > self._free_s.shape[1]:
            return POSTPONED, np.inf
        from_s = self._free_s[able, gpus - 1].copy()
        now = from_s <= SOON_S
        roomy = (self._left[able] >= options.amounts[option]).all(axis=1)
        # Cores, memory or power that are short now are available after another job has ended.
        fed = options.power_uw[option] <= self._power_uw
        from_s[now & ~(roomy & fed)] = np.inf
        soonest = from_s.min()
        if np.isinf(soonest):
            return POSTPONED, np.inf
        at = np.flatnonzero(from_s <= soonest + SOON_S)
        fullest = at[np.argmin(self._left[able[at], 0])]
        return int(able[fullest]), float(soonest)

    def _begin(self, job: int, option: int, node: int) -> None:
        options = self._problem.options
        self.option[job], self.node[job] = option, node
        self._left[node] -= options.amounts[option]
        self._power_uw -= int(options.power_uw[option])
        self._reserve(option, node, 0.0)

    def _reserve(self, option: int, node: int, start_s: float) -> None:
        """Reserve the GPUs of a node that become free first."""
        options, row = self._problem.options, self._free_s[node]
        gpus = int(options.amounts[option, 0])
        row[:gpus] = start_s + float(options.time_s[option])
        row.sort()
