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
the weight. Where nodes are unlike, a job has options for every kind of them, charged and timed as
they are there, and the nodes of each kind are one more constraint. Which node of its kind a new job
gets is decided afterwards.

The decision itself is `parm_choice`, over the options of `parm_options`; a simulator takes it from
there as well. Here a snapshot is turned into options (`parm_menu`) and the answer into a plan
(`parm_plan`).

Does not: migrate running jobs, change node counts of running jobs, choose DRAM caps.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

import numpy as np

from wattfold.contract.ids import NodeId
from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core.charge import held_uw
from wattfold.coordinator.core.job import JobKind, ResizeMode, SizeUnit
from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.core.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.coordinator.policies import parm_choice
from wattfold.coordinator.policies.estimates import Estimate, estimate
from wattfold.coordinator.policies.parm_choice import Choice, Limits, Shared, Solving
from wattfold.coordinator.policies.parm_menu import Menu, Nodes, Offer, Option, Place, option_at
from wattfold.coordinator.policies.parm_options import (
    Alternative,
    Options,
    joined,
    remembered_options,
    spaced_caps,
    spaced_sizes,
)
from wattfold.coordinator.policies.parm_plan import keep_all, placed
from wattfold.coordinator.policies.placement import Room, nothing_in_reach, takes_whole_nodes
from wattfold.coordinator.policies.requests import beside, startable

__all__ = ["Menu", "Option", "Parm", "Variant"]


class Variant(enum.Enum):
    """The three versions of the paper."""

    WSE = "wse"
    NOSE = "nose"
    NOMM = "nomm"


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
        snapshot, postponed = startable(snapshot)
        menus = self.menus(snapshot, now_ns)
        room = Room.of(snapshot, now_ns)
        fixed = [v.current for v in snapshot.jobs if v.current is not None and not v.movable]
        for view in snapshot.jobs:
            if view.current is not None and not view.movable:
                power_uw = room.power_of(view.current.shares, view.current.cap_uw)
                room.take(view.current.shares, power_uw, takes_whole_nodes(view.spec))
        choice = self._choice(menus, room, deadline_s)
        if not choice.usable:
            return beside(keep_all(snapshot, choice.solution, choice.solver), postponed)
        picks = zip(menus, choice.picks.tolist(), strict=True)
        chosen = [(m, option_at(m.table.efficient, at) if at >= 0 else None) for m, at in picks]
        assignments, waiting = placed(chosen, room)
        unlocks = [self.locked_until_ns(m.view) for m, _ in chosen if m.view.current is not None]
        return Plan(
            assignments=(*fixed, *assignments),
            waiting=(*waiting, *postponed),
            revisit_ns=min((t for t in unlocks if t > now_ns), default=0),
            objective=choice.solution.objective,
            bound=choice.solution.bound,
            solver=choice.solver,
            outcome=choice.solution.outcome.value,
        )

    def warm_up(self) -> None:
        """Loads the solver, so that the first round need not wait for it."""
        parm_choice.warm_up(self.solver)

    def menus(self, snapshot: Snapshot, now_ns: int) -> list[Menu]:
        """The options of every job that is planned for, in order of the snapshot."""
        if not snapshot.nodes:
            return []
        nodes = Nodes(snapshot)
        views = [view for view in snapshot.jobs if view.current is None or view.movable]
        offers = [self._offers(view, nodes, now_ns) for view in views]
        guesses = [estimate(v, o[0][0].kinds[0]) for v, o in zip(views, offers, strict=True)]
        rows = zip(views, offers, guesses, strict=True)
        tables = [self._table(nodes, *row) for row in rows]
        weight = parm_choice.weights(
            [table.slowest_s for table in tables],
            [view.done for view in views],
            [(now_ns - view.submitted_ns) / 1e9 for view in views],
            [view.spec.priority for view in views],
            self.alpha,
        )
        return [
            Menu(view=v, table=t, weight=w, estimate=g, places=tuple(place for place, _ in o))
            for v, t, w, g, o in zip(views, tables, weight.tolist(), guesses, offers, strict=True)
        ]

    def _offers(self, view: JobView, nodes: Nodes, now_ns: int) -> list[Offer]:
        return nodes.offers(view, lambda most: self._sizes(view, most, now_ns))

    def _table(self, nodes: Nodes, view: JobView, offers: list[Offer], guess: Estimate) -> Options:
        least = min(view.spec.least_size, nodes.largest_size(view.spec)) or 1
        if not nodes.alike:
            parts = tuple(self._alternative(view, place, sizes) for place, sizes in offers)
            return joined(parts, least, nodes.kinds)
        ((place, sizes),) = offers
        caps_uw = self._levels(view, guess.profile, place.kinds[0])
        return remembered_options(guess.profile, sizes, caps_uw, least, place.charge(view.spec))

    def _alternative(self, view: JobView, place: Place, sizes: tuple[int, ...]) -> Alternative:
        profiles = tuple(estimate(view, kind).profile for kind in place.kinds)
        both = zip(profiles, place.kinds, strict=True)
        levels_uw = {level for one in both for level in self._levels(view, *one)}
        return Alternative(
            profiles=profiles,
            sizes=sizes,
            caps_uw=tuple(sorted(levels_uw)),
            charge=place.charge(view.spec),
        )

    def locked_until_ns(self, view: JobView) -> int:
        """Until when the last resize forbids another one; 0 = it does not.

        A program that has asked for another size since is not kept waiting.
        """
        if view.resized_ns < 0 or (
            view.wanted_ns > view.resized_ns and view.spec.kind is JobKind.EVOLVING
        ):
            return 0
        return view.resized_ns + self.resize_interval_ns

    def _choice(self, menus: list[Menu], room: Room, deadline_s: float) -> Choice:
        limits = Limits(
            units=sum(len(cpus) for cpus in room.free.values()),
            power_uw=room.power_uw,
            shared=_shared(menus, room),
            units_by_kind=room.units_by_kind(),
        )
        return parm_choice.choose(
            [menu.table.efficient for menu in menus],
            np.asarray([menu.weight for menu in menus], dtype=np.float64),
            [menu.view.current is not None for menu in menus],
            limits,
            Solving(solver=self.solver, gap=self.gap, deadline_s=deadline_s),
        )

    def _sizes(self, view: JobView, most: int, now_ns: int) -> tuple[int, ...]:
        """N_j, or the present size where Eq. 6 applies."""
        spec = view.spec
        if view.current is not None and not self._resizable(view, now_ns):
            return (view.current.size,)
        most = min(view.greatest_size, most)
        if self.variant is Variant.NOMM or spec.kind is JobKind.RIGID:
            return (spec.least_size,) if spec.least_size <= most else ()
        sizes = spaced_sizes(spec.least_size, most, self.sizes_max)
        if view.current is None or view.current.size in sizes:
            return sizes
        if view.current.size > view.greatest_size:
            return sizes  # More than its program asks for.
        return tuple(sorted((*sizes, view.current.size)))

    def _resizable(self, view: JobView, now_ns: int) -> bool:
        spec = view.spec
        return (
            self.variant is Variant.WSE
            and spec.kind in (JobKind.MALLEABLE, JobKind.EVOLVING)
            and spec.mode is not ResizeMode.FIXED
            and spec.unit is SizeUnit.CORES
            and now_ns >= self.locked_until_ns(view)
        )

    def _levels(self, view: JobView, profile: PassProfile, kind: NodeKind) -> tuple[int, ...]:
        """P_j in microwatts, ascending: levels that such a node can hold."""
        if view.spec.cap_uw:
            return (held_uw(kind, view.spec.cap_uw),)
        low_w, high_w = w_from_uw(kind.floor_uw), w_from_uw(kind.most_uw)
        return spaced_caps(profile, self.levels_max, low_w, high_w)


def _shared(menus: list[Menu], room: Room) -> tuple[Shared, ...]:
    """The cores of a node bound the running jobs on it, which cannot go elsewhere."""
    jobs: dict[NodeId, list[int]] = {}
    for index, menu in enumerate(menus):
        current = menu.view.current
        if current is not None and menu.view.spec.unit is SizeUnit.CORES:
            jobs.setdefault(current.shares[0].node_id, []).append(index)
    return tuple(
        Shared(jobs=tuple(own), units_max=len(room.free.get(node_id, ())))
        for node_id, own in jobs.items()
    )
