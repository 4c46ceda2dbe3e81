"""The model of Bridi et al. (A CP Scheduler for High-Performance Computers) in OR-Tools CP-SAT.

Every waiting job has a start. Each of its units has an optional interval on each node where it
fits, as many times as the node has room (UN_ijk). `alternative`: as many of them are present as the
job has units, at its start. There is a `cumulative` for every node and resource. Units together are
a single interval, units apart have one interval per node. As in the text of the paper next to Eq.
1, jobs do not overlap with windows in which nodes are closed to them. Extensions of the paper are a
changing power budget of the whole machine, options (caps) of which each job has one, and lateness
in the objective if it counts.

Importing this module loads OR-Tools, which takes a second or more: only the child process does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ortools.sat.python import cp_model

from wattfold.coordinator.solvers.cp.grid import (
    MACHINE,
    Grid,
    Key,
    Slot,
    Taken,
    Task,
    TaskPlacement,
    demands_of,
)
from wattfold.coordinator.solvers.cp.limits import Limits


@dataclass(slots=True)
class _Variables:
    """Variables of a task."""

    task: Task
    """The task, with the slots that it may have."""
    start: Any
    slots: list[Any]
    options: list[Any]
    """Literal of each option; empty if there is only one option."""


@dataclass(slots=True)
class _ModelRows:
    """Intervals and demands of a capacity."""

    intervals: list[Any] = field(default_factory=list)
    demands: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """Result of a search. ``places`` are those of all tasks, or None if it found nothing."""

    status: str
    places: tuple[TaskPlacement, ...] | None
    deterministic: float
    """Deterministic time of the search."""
    wall_s: float

    @property
    def proven(self) -> bool:
        """Whether nothing better exists on the grid, with the other tasks fixed."""
        return self.status == "OPTIMAL"


class NodeModel:
    """The model of some tasks of a grid, with the other tasks fixed."""

    def __init__(
        self,
        grid: Grid,
        places: Sequence[TaskPlacement],
        free: Sequence[int],
        nodes: Collection[int] | None = None,
        *,
        alone: bool = False,
    ) -> None:
        """``places`` of all tasks are feasible, and the hint. ``free`` are numbers of tasks.

        ``nodes`` are the allowed nodes, including all current nodes; None = any. ``alone``: the
        other tasks are absent.
        """
        self._nodes = nodes
        self._grid, self._places, self._free = grid, places, tuple(free)
        self._model = cp_model.CpModel()
        self._rows: dict[Key, _ModelRows] = {}
        self._costs: list[Any] = []
        self._variables = {number: self._task(number) for number in self._free}
        self._limit({} if alone else self._fixed())
        self._model.minimize(cp_model.LinearExpr.sum(self._costs))

    def solve(self, limits: Limits, seed: int, *, presolve: bool = False) -> Solved:
        """Search from the hint. Without presolve the hint is used before anything else happens."""
        solver = cp_model.CpSolver()
        known = solver.parameters
        known.num_workers = 1
        known.random_seed = seed
        known.max_deterministic_time = limits.deterministic
        known.max_number_of_conflicts = limits.conflicts
        known.max_time_in_seconds = limits.wall_s
        known.max_memory_in_mb = limits.memory_mb
        known.cp_model_presolve = presolve
        if not presolve:
            known.linearization_level = 0
            known.symmetry_level = 0
            known.use_disjunctive_constraint_in_cumulative = False
        status = solver.solve(self._model)
        places = None
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            places = tuple(
                self._found(solver, number) if number in self._variables else place
                for number, place in enumerate(self._places)
            )
        return Solved(
            status=solver.status_name(status),
            places=places,
            deterministic=solver.deterministic_time,
            wall_s=solver.wall_time,
        )

    def _task(self, number: int) -> _Variables:
        model, task, place = self._model, self._grid.tasks[number], self._places[number]
        start = self._whole(f"start {number}", 0, self._grid.horizon, place.start)
        options = self._options(number, task, place)
        size, end = self._size(number, task, place, start, options)
        slots: list[Any] = []
        left = [*place.nodes]
        if self._nodes is not None:
            task = task._replace(slots=tuple(one for one in task.slots if one.node in self._nodes))
        for at, slot in enumerate(task.slots):
            there = _leaves(left, slot)
            lit = self._bool(f"slot {number} {at}", there)
            slots.append(lit)
            if isinstance(size, int):
                interval = model.new_optional_fixed_size_interval_var(
                    start, size, lit, f"unit {number} {at}"
                )
            else:
                interval = model.new_optional_interval_var(
                    start, size, end, lit, f"unit {number} {at}"
                )
            for resource, amount in enumerate(task.amounts):
                if amount:
                    self._add((slot.node, resource), interval, amount * slot.units)
        model.add(cp_model.LinearExpr.sum(slots) == task.chosen)
        for (one, lit), (other, following) in pairwise(zip(task.slots, slots, strict=True)):
            if one.node == other.node:
                model.add_implication(following, lit)
        variables = _Variables(task, start, slots, options)
        self._stay_out(task, place, variables)
        self._draw(number, task, place, variables)
        self._cost(number, task, place, start)
        return variables

    def _options(self, number: int, task: Task, place: TaskPlacement) -> list[Any]:
        if len(task.durations) == 1:
            return []
        lits = [
            self._bool(f"option {number} {option}", option == place.option)
            for option in range(len(task.durations))
        ]
        self._model.add_exactly_one(lits)
        return lits

    def _size(
        self, number: int, task: Task, place: TaskPlacement, start: Any, options: Sequence[Any]
    ) -> tuple[Any, Any]:
        """Return duration and end; the end is not needed if the duration is a number."""
        if not options:
            return task.durations[0], None
        lasts = task.durations[place.option]
        size = self._whole(f"size {number}", min(task.durations), max(task.durations), lasts)
        most = self._grid.horizon + max(task.durations)
        end = self._whole(f"end {number}", 0, most, place.start + lasts)
        for duration, lit in zip(task.durations, options, strict=True):
            self._model.add(size == duration).only_enforce_if(lit)
        self._model.add(start + size == end)
        return size, end

    def _stay_out(self, task: Task, place: TaskPlacement, found: _Variables) -> None:
        """Keep a task off a node while it is closed: it ends before or starts after."""
        for node, low, high in task.closed:
            lits = [
                lit for slot, lit in zip(task.slots, found.slots, strict=True) if slot.node == node
            ]
            if not lits:
                continue
            stays = task.stays[place.option]
            before = self._bool(f"before {node} {low}", place.start + stays <= low)
            for lit in lits:
                after = self._model.add(found.start >= high)
                after.only_enforce_if([lit, before.negated()])
                for option, longest in enumerate(task.stays):
                    when = [lit, before] + ([found.options[option]] if found.options else [])
                    self._model.add(found.start + longest <= low).only_enforce_if(when)

    def _draw(self, number: int, task: Task, place: TaskPlacement, found: _Variables) -> None:
        """Add the power of a job as a demand on the machine, by its option."""
        if not task.power or (MACHINE, 0) not in self._grid.capacities:
            return
        for option, (duration, drawn) in enumerate(zip(task.durations, task.power, strict=True)):
            each = [drawn[self._grid.kinds[slot.node]] * slot.units for slot in task.slots]
            if len(set(each)) == 1:
                demand: Any = each[0] * task.chosen
            else:
                hinted = sum(drawn[self._grid.kinds[node]] for node in place.nodes)
                demand = self._whole(f"power {number} {option}", 0, sum(each), hinted)
                self._model.add(cp_model.LinearExpr.weighted_sum(found.slots, each) == demand)
            if found.options:
                interval = self._model.new_optional_fixed_size_interval_var(
                    found.start, duration, found.options[option], f"draws {number} {option}"
                )
            else:
                interval = self._model.new_fixed_size_interval_var(
                    found.start, duration, f"draws {number}"
                )
            self._add((MACHINE, 0), interval, demand)

    def _cost(self, number: int, task: Task, place: TaskPlacement, start: Any) -> None:
        self._costs.append(start * task.weight)
        horizon = self._grid.horizon
        if task.latest >= horizon:
            return
        if task.late_weight:
            late = max(place.start - task.latest, 0)
            over = self._whole(f"late by {number}", 0, horizon - min(task.latest, 0), late)
            self._model.add(over >= start - task.latest)
            self._costs.append(over * task.late_weight)
        if task.late_cost and task.latest >= 0:
            is_late = self._bool(f"late {number}", place.start > task.latest)
            self._model.add(start <= task.latest).only_enforce_if(is_late.negated())
            self._costs.append(is_late * task.late_cost)

    def _fixed(self) -> dict[Key, list[Taken]]:
        """Return the amounts used by tasks that are not free."""
        taken: dict[Key, list[Taken]] = {}
        free = set(self._free)
        for number, place in enumerate(self._places):
            if number in free:
                continue
            task = self._grid.tasks[number]
            end = place.start + task.durations[place.option]
            for key, amount in demands_of(self._grid, task, place).items():
                taken.setdefault(key, []).append(Taken(place.start, end, amount))
        return taken

    def _limit(self, fixed: Mapping[Key, Sequence[Taken]]) -> None:
        for key, rows in self._rows.items():
            capacity = self._grid.capacities[key]
            for number, one in enumerate((*capacity.taken, *fixed.get(key, ()))):
                rows.intervals.append(
                    self._model.new_fixed_size_interval_var(
                        one.start, one.end - one.start, f"taken {key} {number}"
                    )
                )
                rows.demands.append(one.amount)
            self._model.add_cumulative(rows.intervals, rows.demands, capacity.most)

    def _found(self, solver: cp_model.CpSolver, number: int) -> TaskPlacement:
        variables = self._variables[number]
        nodes = [
            slot.node
            for slot, lit in zip(variables.task.slots, variables.slots, strict=True)
            if solver.boolean_value(lit)
            for _ in range(slot.units)
        ]
        option = next(
            (at for at, lit in enumerate(variables.options) if solver.boolean_value(lit)), 0
        )
        return TaskPlacement(start=solver.value(variables.start), option=option, nodes=tuple(nodes))

    def _add(self, key: Key, interval: Any, demand: Any) -> None:
        rows = self._rows.setdefault(key, _ModelRows())
        rows.intervals.append(interval)
        rows.demands.append(demand)

    def _whole(self, name: str, low: int, high: int, hint: int) -> Any:
        variable = self._model.new_int_var(low, high, name)
        self._model.add_hint(variable, hint)
        return variable

    def _bool(self, name: str, hint: bool) -> Any:
        variable = self._model.new_bool_var(name)
        self._model.add_hint(variable, hint)
        return variable


def _leaves(left: list[int], slot: Slot) -> bool:
    """Whether a slot is among the hint's; if so, remove its units from the list."""
    if slot.node not in left:
        return False
    for _ in range(slot.units):
        left.remove(slot.node)
    return True
