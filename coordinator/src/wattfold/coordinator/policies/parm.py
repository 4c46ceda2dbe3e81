"""PARM: one ILP chooses size and power cap of every job (Sarood et al., SC14, Eq. 1-8).

Each time a job arrives, ends or dies, all jobs are weighed against each other: the sum of their
weighted power-aware speedups is maximised under the nodes there are and the power budget.

    s[j,n,p] = t[j, min N_j, min P_j] / t[j,n,p]                                    (7)
    w_j = priority * (remaining time at (min N_j, min P_j) + now - arrival) ^ alpha (8)

Three versions: **wSE** may choose the size of a job at its start and change it while it runs,
**noSE** only at its start, **noMM** takes the least size always. Caps are free in all of them. A
job that cannot change, or was resized less than ``resize_interval_ns`` ago, is offered its present
size only (6).

What goes beyond the paper: idle nodes are charged with their base power and floors, so an option
costs only what it adds to them; a job may count cores of one node instead of whole nodes, and the
cores of a node are then one more constraint for the jobs that run there; a user's priority scales
the weight. Nodes are taken as alike: where they differ, an option is charged as on the costliest
one. Which node a new job gets is decided afterwards (`placement`); one that finds no place at its
size takes the greatest smaller one that does.

Does not: migrate running jobs, change node counts of running jobs, choose DRAM caps.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

import numpy as np

from wattfold.contract.ids import NodeId
from wattfold.contract.units import uw_from_w, w_from_uw
from wattfold.coordinator.core.job import Assignment, JobKind, ResizeMode, Share, SizeUnit
from wattfold.coordinator.core.plan import JobView, NodeView, Plan, Policy, Snapshot, Waiting
from wattfold.coordinator.core.targets import CAP_STEP_UW, dynamic_uw
from wattfold.coordinator.policies.estimates import Estimate, estimate
from wattfold.coordinator.policies.placement import (
    Room,
    largest_size,
    nothing_in_reach,
    resize_in_place,
    takes_whole_nodes,
)
from wattfold.coordinator.solvers import greedy, lagrangian
from wattfold.coordinator.solvers.lagrangian import LagrangianOptions
from wattfold.coordinator.solvers.problem import CapacityRow, Outcome, Problem, Solution


class Variant(enum.Enum):
    """The three versions of the paper."""

    WSE = "wse"
    NOSE = "nose"
    NOMM = "nomm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to run a job: size, cap level, what it costs and what it is worth."""

    size: int
    cap_uw: int
    units: int
    power_uw: int
    speedup: float
    total_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Menu:
    """The options of one job and its weight (Eq. 8)."""

    view: JobView
    options: tuple[Option, ...]
    weight: float
    estimate: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Parm(Policy):
    """PARM with its settings.

    ``alpha`` of Eq. 8 trades throughput (small) for fairness (large). ``gap`` is the relative
    distance from the optimum at which the solver may stop. ``solver`` is ``lagrangian``, ``glpk``
    (the reference) or ``greedy``.
    """

    variant: Variant = Variant.WSE
    alpha: float = 0.28
    sizes_max: int = 8
    levels_max: int = 6
    resize_interval_ns: int = 500_000_000_000
    gap: float = 1e-3
    solver: str = "lagrangian"

    @property
    def name(self) -> str:
        """``parm-wse``, ``parm-nose`` or ``parm-nomm``."""
        return f"parm-{self.variant.value}"

    def fallback(self) -> Policy | None:
        """The same decision by the greedy method, which needs no solver library."""
        return replace(self, solver="greedy") if self.solver != "greedy" else None

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Solves the ILP and places its answer."""
        if not snapshot.nodes:
            return nothing_in_reach(snapshot)
        fixed = [v for v in snapshot.jobs if v.current is not None and not self._plannable(v)]
        menus = self.menus(snapshot, now_ns)
        problem = build_problem(menus, snapshot, fixed)
        solution, solver = self._solve(problem, deadline_s)
        if not solution.usable:
            return _keep_all(snapshot, solution, solver)
        return replace(self._plan(snapshot, menus, fixed, solution, now_ns), solver=solver)

    def warm_up(self) -> None:
        """Loads the solver, so that the first round need not wait for it."""
        if self.solver == "lagrangian":
            lagrangian.warm_up()
        elif self.solver == "glpk":
            from wattfold.coordinator.solvers import glpk

            glpk.warm_up()

    def menus(self, snapshot: Snapshot, now_ns: int) -> list[Menu]:
        """The options of every job that is planned for, in order of the snapshot."""
        return [
            self._menu(view, snapshot, now_ns)
            for view in snapshot.jobs
            if view.current is None or self._plannable(view)
        ]

    def _plannable(self, view: JobView) -> bool:
        return view.movable

    def _solve(self, problem: Problem, deadline_s: float) -> tuple[Solution, str]:
        """The answer and who gave it: the solver asked for, then GLPK, then greedy."""
        left_s = max(deadline_s * 0.8, 0.1)
        best: Solution | None = None
        if self.solver == "lagrangian":
            options = LagrangianOptions(gap=self.gap, time_limit_s=left_s / 2)
            best = lagrangian.solve(problem, options)
            if best.outcome in (Outcome.OPTIMAL, Outcome.INFEASIBLE):
                return best, self.solver
            left_s = max(left_s - (best.build_ns + best.solve_ns) / 1e9, 0.1)
        if self.solver != "greedy":
            # Pyomo takes seconds to load; only the worker process, where this runs, needs it.
            from wattfold.coordinator.solvers import glpk

            found = glpk.solve(problem, glpk.GlpkOptions(gap=self.gap, time_limit_s=left_s))
            if found.usable and (best is None or found.objective > best.objective):
                return found, "glpk"
            if best is not None and best.usable:
                return best, self.solver
        return greedy.solve(problem), "greedy"

    def _menu(self, view: JobView, snapshot: Snapshot, now_ns: int) -> Menu:
        guess = estimate(view, snapshot.nodes)
        sizes = self.sizes(view, snapshot, now_ns)
        levels = self.levels(view, guess, snapshot)
        options: list[Option] = []
        slowest_s = 0.0
        if levels:
            base_size = min(view.spec.size_min, largest_size(view.spec, snapshot.nodes)) or 1
            slowest_s = guess.profile.time_s(base_size, w_from_uw(levels[0]))
        if sizes and levels:
            times = guess.profile.times_s(sizes, [w_from_uw(cap) for cap in levels])
            for row, size in enumerate(sizes):
                for column, cap_uw in enumerate(levels):
                    total_s = float(times[row, column])
                    units, power_uw = _cost(view, size, cap_uw, snapshot.nodes)
                    options.append(
                        Option(
                            size=size,
                            cap_uw=cap_uw,
                            units=units,
                            power_uw=power_uw,
                            speedup=slowest_s / total_s,
                            total_s=total_s,
                        ),
                    )
        waited_s = (now_ns - view.submitted_ns) / 1e9
        age_s = max(slowest_s * (1 - view.done) + waited_s, 1e-3)
        weight = view.spec.priority * age_s**self.alpha
        return Menu(view=view, options=tuple(options), weight=weight, estimate=guess)

    def sizes(self, view: JobView, snapshot: Snapshot, now_ns: int) -> list[int]:
        """N_j, or the present size where Eq. 6 applies."""
        spec = view.spec
        if view.current is not None:
            malleable = spec.kind in (JobKind.MALLEABLE, JobKind.EVOLVING)
            resizable = (
                self.variant is Variant.WSE
                and malleable
                and spec.mode is not ResizeMode.FIXED
                and spec.unit is SizeUnit.CORES
                and now_ns >= self.locked_until_ns(view)
            )
            if not resizable:
                return [view.current.size]
        most = min(spec.size_max, largest_size(spec, snapshot.nodes))
        if self.variant is Variant.NOMM or spec.kind is JobKind.RIGID:
            return [spec.size_min] if spec.size_min <= most else []
        count = min(self.sizes_max, most - spec.size_min + 1)
        spaced = np.linspace(spec.size_min, most, max(count, 0)).round().astype(int)
        sizes = set(spaced.tolist())
        if view.current is not None:
            sizes.add(view.current.size)
        return sorted(sizes)

    def locked_until_ns(self, view: JobView) -> int:
        """Until when the last resize forbids another one; 0 = it does not."""
        if view.resized_ns < 0:
            return 0
        return view.resized_ns + self.resize_interval_ns

    def levels(self, view: JobView, guess: Estimate, snapshot: Snapshot) -> list[int]:
        """P_j in microwatts, ascending, in steps that zones can hold."""
        if view.spec.cap_uw:
            return [view.spec.cap_uw]
        low_w = max(w_from_uw(n.spec.package_floor_uw) for n in snapshot.nodes)
        high_w = min(w_from_uw(n.spec.package_max_uw) for n in snapshot.nodes)
        levels_w = guess.profile.levels_w(self.levels_max, low_w, max(high_w, low_w))
        return sorted({uw_from_w(w) // CAP_STEP_UW * CAP_STEP_UW for w in levels_w})

    def _plan(
        self,
        snapshot: Snapshot,
        menus: list[Menu],
        fixed: list[JobView],
        solution: Solution,
        now_ns: int,
    ) -> Plan:
        chosen = _chosen(menus, solution)
        room = Room(snapshot.nodes, snapshot.spendable_uw)
        assignments: list[Assignment] = []
        for view in fixed:
            assert view.current is not None
            assignments.append(view.current)
            power_uw = room.power_of(view.current.shares, view.current.cap_uw)
            room.take(view.current.shares, power_uw, takes_whole_nodes(view.spec))
        running = [(m, o) for m, o in chosen if m.view.current is not None and o is not None]
        shares = resize_in_place([(m.view, o.size) for m, o in running], room)
        for menu, option in running:
            own = shares[menu.view.job_id]
            size = option.size
            if menu.view.spec.unit is SizeUnit.CORES:
                size = len(own[0].cpus)
            assignments.append(_assignment(menu, option, size, own))
            room.power_uw -= room.power_of(own, option.cap_uw)
        starts, waiting = _place_new(chosen, room)
        unlocks = [self.locked_until_ns(menu.view) for menu, _ in running]
        return Plan(
            assignments=(*assignments, *starts),
            waiting=tuple(waiting),
            revisit_ns=min((t for t in unlocks if t > now_ns), default=0),
            objective=solution.objective,
            bound=solution.bound,
            outcome=solution.outcome.value,
        )


def _cost(
    view: JobView,
    size: int,
    cap_uw: int,
    nodes: tuple[NodeView, ...],
) -> tuple[int, int]:
    """What an option takes of the cores (Eq. 4) and of the power above the floors (Eq. 5)."""
    on = [n.spec for n in nodes if view.current is not None and view.current.on(n.spec.node_id)]
    specs = on or [node.spec for node in nodes]
    if view.spec.unit is SizeUnit.NODES:
        units = size * max(len(spec.cpus) for spec in specs)
        return units, size * max(dynamic_uw(s, len(s.cpus), cap_uw) for s in specs)
    units = max(len(s.cpus) for s in specs) if view.spec.exclusive else size
    return units, max(dynamic_uw(spec, size, cap_uw) for spec in specs)


def build_problem(menus: list[Menu], snapshot: Snapshot, fixed: list[JobView]) -> Problem:
    """Eq. 1-6 as arrays. ``fixed`` jobs keep what they have and are taken off the limits."""
    flat = [(job, menu, option) for job, menu in enumerate(menus) for option in menu.options]
    cores = {n.spec.node_id: len(n.spec.cpus - n.blocked) for n in snapshot.nodes}
    power_uw = snapshot.spendable_uw
    room = Room(snapshot.nodes, 0)
    for view in fixed:
        if view.current is None:
            continue
        for share in view.current.shares:
            if share.node_id in cores and takes_whole_nodes(view.spec):
                cores[share.node_id] = 0
            elif share.node_id in cores:
                cores[share.node_id] -= len(share.cpus)
        power_uw -= room.power_of(view.current.shares, view.current.cap_uw)
    return Problem(
        job_of=np.asarray([job for job, _, _ in flat], dtype=np.int32),
        size=np.asarray([option.size for _, _, option in flat], dtype=np.int32),
        level=np.zeros(len(flat), dtype=np.int32),
        units=np.asarray([option.units for _, _, option in flat], dtype=np.int64),
        power_uw=np.asarray([option.power_uw for _, _, option in flat], dtype=np.int64),
        value=np.asarray([m.weight * o.speedup for _, m, o in flat], dtype=np.float64),
        must_run=np.asarray([m.view.current is not None for m in menus], dtype=np.bool_),
        units_max=max(sum(cores.values()), 0),
        power_uw_max=max(power_uw, 0),
        rows=_node_rows(menus, cores),
    )


def _node_rows(menus: list[Menu], cores: dict[NodeId, int]) -> tuple[CapacityRow, ...]:
    """The cores of a node bound the running jobs on it, which cannot go elsewhere."""
    indices: dict[NodeId, list[tuple[int, int]]] = {}
    index = 0
    for menu in menus:
        current = menu.view.current
        for option in menu.options:
            if current is not None and menu.view.spec.unit is SizeUnit.CORES:
                node_id = current.shares[0].node_id
                indices.setdefault(node_id, []).append((index, option.units))
            index += 1
    return tuple(
        CapacityRow(
            option_indices=np.asarray([i for i, _ in entries], dtype=np.int64),
            coefficients=np.asarray([c for _, c in entries], dtype=np.int64),
            limit=max(cores.get(node_id, 0), 0),
        )
        for node_id, entries in indices.items()
    )


def _chosen(menus: list[Menu], solution: Solution) -> list[tuple[Menu, Option | None]]:
    out: list[tuple[Menu, Option | None]] = []
    first = 0
    for job, menu in enumerate(menus):
        index = int(solution.choice[job])
        out.append((menu, menu.options[index - first] if index >= 0 else None))
        first += len(menu.options)
    return out


def _assignment(
    menu: Menu,
    option: Option,
    size: int,
    shares: tuple[Share, ...],
) -> Assignment:
    total_s = option.total_s
    if size != option.size:
        total_s = menu.estimate.profile.time_s(size, w_from_uw(option.cap_uw))
    return Assignment(
        job_id=menu.view.job_id,
        size=size,
        cap_uw=option.cap_uw,
        shares=shares,
        expected_total_s=total_s,
    )


def _place_new(
    chosen: list[tuple[Menu, Option | None]],
    room: Room,
) -> tuple[list[Assignment], list[Waiting]]:
    """Places new jobs, whole nodes and large ones first, and says why the others wait."""
    new = [(menu, option) for menu, option in chosen if menu.view.current is None]
    ordered = sorted(
        ((menu, option) for menu, option in new if option is not None),
        key=lambda pair: (not takes_whole_nodes(pair[0].view.spec), -pair[1].size),
    )
    starts: list[Assignment] = []
    homeless: list[Menu] = []
    for menu, option in ordered:
        started = _place_one(menu, option, room)
        if started is None:
            homeless.append(menu)
        else:
            starts.append(started)
    waiting = [_why_waiting(menu, room) for menu, option in new if option is None]
    waiting += [
        Waiting(
            job_id=menu.view.job_id,
            reason=f"chosen, but no node has {menu.view.spec.size_min} cores free in one piece",
        )
        for menu in homeless
    ]
    return starts, waiting


def _place_one(menu: Menu, option: Option, room: Room) -> Assignment | None:
    spec = menu.view.spec
    smaller = sorted({o.size for o in menu.options if o.size <= option.size}, reverse=True)
    for size in smaller:
        shares = room.find(spec, size)
        if shares is None:
            continue
        power_uw = room.power_of(shares, option.cap_uw)
        if power_uw <= room.power_uw:
            room.take(shares, power_uw, takes_whole_nodes(spec))
            return _assignment(menu, option, size, shares)
    return None


def _why_waiting(menu: Menu, room: Room) -> Waiting:
    job_id, spec = menu.view.job_id, menu.view.spec
    if not menu.options:
        return Waiting(
            job_id=job_id,
            reason=f"asks for {spec.size_min} {spec.unit.value}, more than there are in reach",
            never=True,
        )
    units = min(option.units for option in menu.options)
    power_w = min(option.power_uw for option in menu.options) / 1e6
    free = sum(len(cpus) for cpus in room.free.values())
    left_w = max(room.power_uw, 0) / 1e6
    if free < units:
        reason = f"needs {units} cores, {free} are free; the running jobs gain more from them"
    elif left_w < power_w:
        reason = f"needs {power_w:.1f} W above idle, {left_w:.1f} W of the budget are left"
    else:
        reason = f"room for {units} cores and {power_w:.1f} W is kept for jobs that gain more"
    return Waiting(job_id=job_id, reason=reason)


def _keep_all(snapshot: Snapshot, solution: Solution, solver: str) -> Plan:
    """Nothing starts, running jobs keep their cores; the core scales their caps to the budget."""
    kept = tuple(view.current for view in snapshot.jobs if view.current is not None)
    detail = solution.detail or solution.outcome.value
    waiting = tuple(
        Waiting(job_id=view.job_id, reason=f"the running jobs alone fill the budget ({detail})")
        for view in snapshot.jobs
        if view.current is None
    )
    return Plan(
        assignments=kept,
        waiting=waiting,
        solver=solver,
        outcome=solution.outcome.value,
    )
