"""PARM in the service: an ILP chooses size and power cap of every job (Sarood et al., SC14).

The rules are in `parm.scheduler`, which simulated pools also use. This module contains the policy
of the service with its settings, and the tables that are shown to users.

PARM does not preempt or migrate running jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wattfold.coordinator.core.model.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.policies.driver.in_turn import InTurn
from wattfold.coordinator.policies.driver.rounds import Rounds, lock_from_ns, planned
from wattfold.coordinator.policies.parm import choice as parm_choice
from wattfold.coordinator.policies.parm.options import JobOptions
from wattfold.coordinator.policies.parm.scheduler import ParmScheduler
from wattfold.coordinator.policies.parm.settings import ParmSettings, ParmVersion
from wattfold.coordinator.policies.port import NamedScheduler, Scheduled

__all__ = ["Parm", "ParmVersion", "SizeOption", "WeightedOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeOption:
    """A way to run a job: size, cap level, cost and value."""

    size: int
    cap_uw: int
    units: int
    power_uw: int
    speedup: float
    total_s: float
    dram_cap_uw: int = 0
    gpu_uw: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedOptions:
    """The options of one job and its weight (Eq. 8)."""

    view: JobView
    table: JobOptions
    weight: float

    @property
    def options(self) -> tuple[SizeOption, ...]:
        """All options as single objects, for users."""
        table = self.table
        layout = table.layout
        columns = {
            "size": layout.size,
            "cap_uw": layout.cap_uw,
            "units": layout.units,
            "power_uw": layout.power_uw,
            "speedup": table.speedup,
            "total_s": table.total_s,
            "dram_cap_uw": layout.dram_cap_uw,
            "gpu_uw": layout.gpu_uw,
        }
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return tuple(SizeOption(**dict(zip(columns, row, strict=True))) for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parm(ParmSettings, Scheduled):
    """PARM with its settings."""

    @property
    def resizes(self) -> bool:
        """Whether running jobs are resized: only by ``parm-wse``."""
        return self.variant is ParmVersion.WSE

    @property
    def chooses_caps(self) -> bool:
        """Return True: the policy chooses caps."""
        return True

    def fallback(self) -> Policy | None:
        """Return the same decision with the greedy solver, without any library; then `InTurn`."""
        return replace(self, solver="greedy") if self.solver != "greedy" else InTurn()

    def scheduler(self) -> NamedScheduler:
        """Return a scheduler with these settings."""
        return ParmScheduler(self)

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Weigh all jobs of a snapshot against each other."""
        return planned(self, snapshot, now_ns, deadline_s)

    def warm_up(self) -> None:
        """Load the solver, so that the first round does not wait for it."""
        parm_choice.warm_up(self.solver)

    def menus(self, snapshot: Snapshot, now_ns: int) -> list[WeightedOptions]:
        """Return the options of every planned job."""
        if not snapshot.nodes:
            return []
        scheduler = ParmScheduler(self)
        rounds = Rounds(scheduler)
        rounds.tell(snapshot, snapshot.jobs, ())
        offered = scheduler.offered(now_ns)
        return [WeightedOptions(view=rounds.view(job), table=t, weight=w) for job, t, w in offered]

    def locked_until_ns(self, view: JobView) -> int:
        """Return the time until which the last resize forbids another; 0 = it does not."""
        from_ns = lock_from_ns(view)
        return from_ns + self.resize_interval_ns if from_ns >= 0 else 0
