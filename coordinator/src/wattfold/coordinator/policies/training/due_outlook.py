"""Expected end and cost of a job with a due date, for users.

A running job ends as expected at its current size and cap. A waiting job without an expected start
ends, at the earliest, in its fastest configuration from now on. Costs are those of `andreas` and
its baselines: energy at the price of its time, and tardiness by the weight of the job. The energy
so far is measured, at the mean price since the first start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.coordinator.core.model.plan import JobView, Policy, Snapshot
from wattfold.coordinator.policies.resources.estimates import duration_ns
from wattfold.coordinator.policies.resources.room import Room
from wattfold.coordinator.policies.training.gpu_nodes import Configuration, GpuNodes, trains
from wattfold.coordinator.policies.training.policy import TrainingPolicy
from wattfold.coordinator.policies.training.problem import Costs, restart_s

J_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Energy of all attempts of a job in joules, and its first start (-1 = none)."""

    energy_j: float = 0.0
    since_ns: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Times in coordinator time; costs are None under policies without prices."""

    ends_ns: int
    at_the_earliest: bool
    late_s: float
    so_far_eur: float | None = None
    to_come_eur: float | None = None


class Outlooks:
    """Outlooks of the jobs of one snapshot."""

    def __init__(self, seen: Snapshot, policy: Policy) -> None:
        self._seen = seen
        self._room = Room(seen.nodes, 0)
        self._kinds = list({id(n.spec.kind): n.spec.kind for n in seen.nodes}.values())
        self._costs: Costs | None = None
        self._gpu_nodes: GpuNodes | None = None
        if isinstance(policy, TrainingPolicy):
            self._costs = policy.rules.costs
            self._gpu_nodes = GpuNodes(seen.nodes, seen.reservations, policy.rules.draws)

    def of(self, view: JobView, used: Used, start_ns: int = 0) -> Outlook | None:
        """Return the outlook of a job of this snapshot; None without a due date or nodes.

        ``start_ns``: expected start of a waiting job, 0 = unknown.
        """
        seen, due_ns = self._seen, view.spec.due_ns
        if due_ns < 0 or not seen.nodes:
            return None
        begins_ns = seen.now_ns if view.current is not None else max(start_ns, seen.now_ns)
        option = self._option(view)
        left_s = self._left_s(view, option)
        ends_ns = begins_ns + round(left_s * NS_PER_S)
        late_s = max(ends_ns - due_ns, 0) / NS_PER_S
        told = Outlook(
            ends_ns=ends_ns,
            at_the_earliest=view.current is None and not start_ns,
            late_s=late_s,
        )
        if self._costs is None:
            return told
        so_far_s = max(seen.now_ns - due_ns, 0) / NS_PER_S
        each_eur = view.spec.weight * view.spec.priority * self._costs.late_eur_per_h / 3600.0
        power_w = self._power_w(view, option, used)
        tariff, begins_s = self._costs.tariff, seen.origin_s + begins_ns / NS_PER_S
        ahead_eur = tariff.cost_eur(np.array([power_w]), begins_s, np.array([left_s]))
        return Outlook(
            ends_ns=ends_ns,
            at_the_earliest=told.at_the_earliest,
            late_s=late_s,
            so_far_eur=self._spent_eur(used) + each_eur * so_far_s,
            to_come_eur=float(ahead_eur[0]) + each_eur * (late_s - so_far_s),
        )

    def _option(self, view: JobView) -> Configuration | None:
        """Return the configuration of a training job: its current one, or else its fastest."""
        menu = self._gpu_nodes.menu(view) if self._gpu_nodes is not None and trains(view) else ()
        current = view.current
        if current is None:
            return min(menu, key=lambda option: option.whole_s, default=None)
        has = (
            option
            for option in menu
            if option.units == current.size and option.level_uw == current.levels.gpu_uw
        )
        return next(has, None)

    def _left_s(self, view: JobView, option: Configuration | None) -> float:
        left = max(1.0 - view.done, 0.0)
        if view.current is not None:
            return view.current.expected_total_s * left
        if option is not None and self._costs is not None:
            return option.whole_s * left + restart_s(view, self._costs)
        if view.training is not None and view.training.times:
            return left * view.training.epochs * min(one.seconds for one in view.training.times)
        size, most_uw = view.max_size, max(kind.most_uw for kind in self._kinds)
        return duration_ns(view, self._kinds, size, view.spec.cap_uw or most_uw) / NS_PER_S * left

    def _power_w(self, view: JobView, option: Configuration | None, used: Used) -> float:
        """Return its power from now on: the measured mean, or else that of its configuration."""
        ran_s = (self._seen.now_ns - used.since_ns) / NS_PER_S if used.since_ns >= 0 else 0.0
        if view.current is not None and used.energy_j and ran_s > 0:
            return used.energy_j / ran_s
        if option is not None:
            return option.power_w
        return w_from_uw(self._room.given_uw(view.current)) if view.current is not None else 0.0

    def _spent_eur(self, used: Used) -> float:
        if used.since_ns < 0 or self._costs is None:
            return 0.0
        tariff, origin_s = self._costs.tariff, self._seen.origin_s
        begin_s, now_s = (origin_s + ns / NS_PER_S for ns in (used.since_ns, self._seen.now_ns))
        return used.energy_j / J_PER_KWH * tariff.pue * float(tariff.price.mean(begin_s, now_s))
