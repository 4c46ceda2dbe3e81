"""PARM in the service: an ILP chooses size and power cap of every job (Sarood et al., SC14).

The rules are in `parm.scheduler`, which simulated pools also use. This module contains the policy
of the service with its settings, and the tables that are shown to users.

PARM does not preempt or migrate running jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wattfold.coordinator.core.model.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.policies.driver.in_turn import InTurn
from wattfold.coordinator.policies.driver.rounds import Rounds, lock_from_ns, planned
from wattfold.coordinator.policies.parm import choice as parm_choice
from wattfold.coordinator.policies.parm.scheduler import ParmScheduler
from wattfold.coordinator.policies.parm.settings import ParmRules, ParmSettings, ParmVersion
from wattfold.coordinator.policies.parm.statements import (
    SizeOption,
    WeightedOptions,
    alternatives,
    cheapest,
)
from wattfold.coordinator.policies.port import Scheduled, Scheduler

__all__ = ["Parm", "ParmVersion", "SizeOption", "WeightedOptions"]


@dataclass(frozen=True, slots=True)
class Parm(Scheduled):
    """PARM with its settings."""

    settings: ParmSettings = ParmSettings()  # noqa: RUF009 - immutable
    version: ParmVersion = ParmVersion.WSE

    @property
    def name(self) -> str:
        """``parm-wse``, ``parm-nose`` or ``parm-nomm``."""
        return self.rules.name

    @property
    def rules(self) -> ParmRules:
        """The rules of the scheduler."""
        return ParmRules(settings=self.settings, version=self.version)

    @property
    def resizes(self) -> bool:
        """Whether running jobs are resized: only by ``parm-wse``."""
        return self.version is ParmVersion.WSE

    @property
    def chooses_caps(self) -> bool:
        """Return True: the policy chooses caps."""
        return True

    @property
    def recaps(self) -> bool:
        """Return True: the caps of running jobs follow the budget."""
        return True

    def fallback(self) -> Policy | None:
        """Return the same decision with the greedy solver, without any library; then `InTurn`."""
        plain = replace(self.settings, solver="greedy")
        return replace(self, settings=plain) if self.settings != plain else InTurn()

    def scheduler(self) -> Scheduler:
        """Return a scheduler with these settings."""
        return ParmScheduler(self.rules)

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Weigh all jobs of a snapshot against each other."""
        return planned(self, snapshot, now_ns, deadline_s)

    def warm_up(self) -> None:
        """Load the solver, so that the first round does not wait for it."""
        parm_choice.warm_up(self.settings.solver)

    def menus(self, snapshot: Snapshot, now_ns: int) -> list[WeightedOptions]:
        """Return the options of every planned job."""
        if not snapshot.nodes:
            return []
        scheduler = ParmScheduler(self.rules)
        rounds = Rounds(scheduler)
        rounds.tell(snapshot, snapshot.jobs, ())
        offered = scheduler.offered(now_ns)
        return [WeightedOptions(view=rounds.view(job), table=t, weight=w) for job, t, w in offered]

    def locked_until_ns(self, view: JobView) -> int:
        """Return the time until which the last resize forbids another; 0 = it does not."""
        from_ns = lock_from_ns(view)
        return from_ns + self.settings.resize_interval_ns if from_ns >= 0 else 0

    def waiting_statements(self, seen: Snapshot, view: JobView) -> Sequence[str]:
        """Return the cheapest option of a waiting job, and its weight."""
        menu = self._menu(seen, view)
        return cheapest(menu, view) if menu else ()

    def running_statements(self, seen: Snapshot, view: JobView) -> Sequence[str]:
        """Return the neighbours of the choice of a running job, and how long its size is fixed."""
        menu = self._menu(seen, view)
        if menu is None:
            return ()
        lines, until_ns = alternatives(menu, view), self.locked_until_ns(view)
        if until_ns > seen.now_ns:
            lines.append(
                f"It keeps its size for {(until_ns - seen.now_ns) / 1e9:.0f} s more; it "
                f"was resized {(seen.now_ns - view.resized_ns) / 1e9:.0f} s ago.",
            )
        return lines

    def _menu(self, seen: Snapshot, view: JobView) -> WeightedOptions | None:
        beside = (v for v in seen.jobs if v.current is not None and v is not view)
        menus = self.menus(replace(seen, jobs=(*beside, view)), seen.now_ns)
        return next((menu for menu in menus if menu.view.job_id == view.job_id), None)
