"""Exact solution of the problem as a mixed-integer program by HiGHS, as a reference for heuristics.

It is the paper's model (4a)-(4v), reduced to x_jng, because z_jn and w_n are sums of it, and with
alpha pi in linear form. There is an alpha a_jng <= x_jng for each configuration, so that its
product with the cost is the cost of this configuration. The paper says, but does not state as a
constraint, that alpha belongs to the *first* job to end. Here a row for each pair states it: a
configuration is not the first if another configuration runs and ends sooner. No job with room is
postponed (see `problem`). So for each postponed job and node, some resource has less free than each
of its options requests, or the remaining power is too low.

The method suits about ten jobs and nodes; the rows grow with the square of the options of a node.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from wattfold.coordinator.solvers.training.problem import (
    ANY,
    POSTPONED,
    Floats,
    Ints,
    TrainingPlan,
    TrainingProblem,
    objective,
)

EXACT = "milp"


@dataclass(slots=True)
class _ExactRows:
    """Constraints row by row: entries and bounds."""

    columns: list[list[int]] = field(default_factory=list)
    values: list[list[float]] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)

    def add(self, entries: dict[int, float], lower: float, upper: float) -> None:
        self.columns.append(list(entries))
        self.values.append(list(entries.values()))
        self.lower.append(lower)
        self.upper.append(upper)

    def constraint(self, columns: int) -> LinearConstraint:
        starts = np.concatenate(([0], np.cumsum([len(row) for row in self.columns])))
        flat = np.array([column for row in self.columns for column in row], dtype=np.int64)
        data = np.array([value for row in self.values for value in row])
        matrix = csr_array((data, flat, starts), shape=(len(self.columns), columns))
        return LinearConstraint(matrix, self.lower, self.upper)


class _Model:
    """Columns: x of each option on each of its nodes, then a of each of them, then the excuses."""

    def __init__(self, problem: TrainingProblem, *, work_conserving: bool) -> None:
        self.problem = problem
        options, nodes = problem.options, problem.nodes
        pairs: list[tuple[int, int, int]] = []
        for job in range(len(problem)):
            for option in problem.options_of(job):
                on = np.flatnonzero(nodes.kind == options.kind[option])
                where = on if options.node[option] == ANY else [options.node[option]]
                pairs += [(job, option, int(node)) for node in where]
        self.job = np.array([pair[0] for pair in pairs], dtype=np.int64)
        self.option = np.array([pair[1] for pair in pairs], dtype=np.int64)
        self.node = np.array([pair[2] for pair in pairs], dtype=np.int64)
        self.rows = _ExactRows()
        self.count = len(pairs)
        self.columns = 2 * self.count
        self._place()
        self._first()
        if work_conserving:
            self._conserve()

    def gains(self) -> Floats:
        """Return what each column adds to the objective, relative to postponing all jobs."""
        options, found = self.problem.options, np.zeros(self.columns)
        own = options.own_eur[self.option] - self.problem.jobs.postponed_eur[self.job]
        found[: self.count] = own
        found[self.count : 2 * self.count] = options.cost_eur[self.option]
        return found

    def _place(self) -> None:
        """Add at most one option per job, capacity and power."""
        problem, rows = self.problem, self.rows
        for job in range(len(problem)):
            own = {int(x): 1.0 for x in np.flatnonzero(self.job == job)}
            rows.add(own, 1.0 if problem.jobs.must[job] else 0.0, 1.0)
        for node, free in enumerate(problem.nodes.free):
            there = np.flatnonzero(self.node == node)
            for resource, amount in enumerate(free):
                taken = problem.options.amounts[self.option[there], resource]
                entries = {int(x): float(t) for x, t in zip(there, taken, strict=True) if t}
                if entries:
                    rows.add(entries, 0.0, float(amount))
        power = problem.options.power_uw[self.option] / 1e6
        rows.add({x: float(p) for x, p in enumerate(power) if p}, -np.inf, problem.power_uw / 1e6)

    def _first(self) -> None:
        """Require a first job to end on each used node, and no job before it."""
        time_s, rows, count = self.problem.options.turn_s[self.option], self.rows, self.count
        for node in range(len(self.problem.nodes.kind)):
            there = np.flatnonzero(self.node == node)
            rows.add({int(count + y): 1.0 for y in there}, 0.0, 1.0)
            for x in there:
                rows.add({int(count + x): 1.0, int(x): -1.0}, -np.inf, 0.0)
                # If any job runs there, some job is the first to end.
                entries = {int(count + y): 1.0 for y in there}
                rows.add({**entries, int(x): -1.0}, 0.0, np.inf)
                for job in {int(j) for j in self.job[there]} - {int(self.job[x])}:
                    sooner = there[(self.job[there] == job) & (time_s[there] < time_s[x])]
                    if len(sooner):
                        row = {int(y): 1.0 for y in sooner}
                        rows.add({**row, int(count + x): 1.0}, -np.inf, 1.0)

    def _conserve(self) -> None:
        """Postpone no job that has room: each option of a waiting job lacks something."""
        problem, rows = self.problem, self.rows
        options, free, power_uw = problem.options, problem.nodes.free, problem.power_uw
        for x in range(self.count):
            job, option, node = int(self.job[x]), int(self.option[x]), int(self.node[x])
            there = np.flatnonzero(self.node == node)
            excuses = {int(y): 1.0 for y in np.flatnonzero(self.job == job)}
            for resource, asked in enumerate(options.amounts[option]):
                if not asked:
                    continue
                excuse = self.columns
                self.columns += 1
                excuses[excuse] = 1.0
                # Less than the request is free: free - sum taken <= request - 1, if excused.
                taken = options.amounts[self.option[there], resource]
                entries = {int(y): -float(t) for y, t in zip(there, taken, strict=True) if t}
                slack = float(free[node, resource]) - float(asked) + 1.0
                rows.add(
                    {**entries, excuse: max(slack, 0.0)},
                    -np.inf,
                    max(slack, 0.0) + float(asked) - 1.0 - float(free[node, resource]),
                )
            asked_uw = int(options.power_uw[option])
            if asked_uw:
                excuse = self.columns
                self.columns += 1
                excuses[excuse] = 1.0
                power = options.power_uw[self.option]
                entries = {int(y): -float(p) / 1e6 for y, p in enumerate(power) if p}
                slack = (power_uw - asked_uw + 1) / 1e6
                rows.add(
                    {**entries, excuse: max(slack, 0.0)},
                    -np.inf,
                    max(slack, 0.0) + (asked_uw - 1 - power_uw) / 1e6,
                )
            rows.add(excuses, 1.0, np.inf)


def solved(
    problem: TrainingProblem,
    *,
    time_limit_s: float = 30.0,
    gap: float = 1e-9,
    work_conserving: bool = True,
) -> TrainingPlan | None:
    """Return the best plan, or the best found in time (then not ``proven``), or None.

    Raises ArithmeticError if HiGHS reports that there is no plan, which is impossible.
    """
    model = _Model(problem, work_conserving=work_conserving)
    everybody = float(problem.jobs.postponed_eur.sum())
    if not model.count:
        none = (POSTPONED,) * len(problem)
        return TrainingPlan(option=none, node=none, objective=everybody, maker=EXACT, proven=True)
    answer = milp(
        c=model.gains(),
        integrality=np.ones(model.columns),
        bounds=Bounds(0, 1),
        constraints=model.rows.constraint(model.columns),
        options={"mip_rel_gap": gap, "time_limit": time_limit_s},
    )
    if answer.status == 2:
        raise ArithmeticError(f"no plan of {len(problem)} jobs: {answer.message}")
    if answer.x is None:
        return None
    option, node = _chosen(model, answer.x)
    return TrainingPlan(
        option=tuple(option.tolist()),
        node=tuple(node.tolist()),
        objective=objective(problem, option.tolist(), node.tolist()),
        maker=EXACT,
        bound=everybody + float(answer.mip_dual_bound),
        proven=answer.status == 0,
    )


def _chosen(model: _Model, x: Floats) -> tuple[Ints, Ints]:
    option = np.full(len(model.problem), POSTPONED, dtype=np.int64)
    node = np.full(len(model.problem), POSTPONED, dtype=np.int64)
    taken = np.flatnonzero(x[: model.count] > 0.5)
    option[model.job[taken]], node[model.job[taken]] = model.option[taken], model.node[taken]
    return option, node
