"""PARM in the service: one ILP chooses size and power cap of every job (Sarood et al., SC14).

The rules are those of `parm_scheduler`, which simulated pools use as well. Here are the policy of
the service with its settings, and what of its sums people are shown.

Does not: pre-empt or migrate running jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wattfold.coordinator.core.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.policies import parm_choice
from wattfold.coordinator.policies.parm_options import Options
from wattfold.coordinator.policies.parm_scheduler import ParmScheduler
from wattfold.coordinator.policies.parm_settings import ParmSettings, Variant
from wattfold.coordinator.policies.rounds import Rounds, lock_from_ns, planned
from wattfold.coordinator.policies.scheduler import NamedScheduler, Scheduled

__all__ = ["Menu", "Option", "Parm", "Variant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to run a job: size, cap level, what it costs and what it is worth."""

    size: int
    cap_uw: int
    units: int
    power_uw: int
    speedup: float
    total_s: float
    dram_cap_uw: int = 0
    gpu_uw: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Menu:
    """The options of one job and its weight (Eq. 8)."""

    view: JobView
    table: Options
    weight: float

    @property
    def options(self) -> tuple[Option, ...]:
        """All of them, one by one: for people."""
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
        return tuple(Option(**dict(zip(columns, row, strict=True))) for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parm(ParmSettings, Scheduled):
    """PARM with its settings."""

    @property
    def resizes(self) -> bool:
        """Only ``parm-wse`` sizes jobs while they run."""
        return self.variant is Variant.WSE

    def fallback(self) -> Policy | None:
        """The same decision by the greedy method, which needs no solver library."""
        return replace(self, solver="greedy") if self.solver != "greedy" else None

    def scheduler(self) -> NamedScheduler:
        """A scheduler with these settings."""
        return ParmScheduler(self)

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Weighs all jobs of a snapshot against each other."""
        return planned(self, snapshot, now_ns, deadline_s)

    def warm_up(self) -> None:
        """Loads the solver, so that the first round need not wait for it."""
        parm_choice.warm_up(self.solver)

    def menus(self, snapshot: Snapshot, now_ns: int) -> list[Menu]:
        """The options of every job that is planned for."""
        if not snapshot.nodes:
            return []
        scheduler = ParmScheduler(self)
        rounds = Rounds(scheduler)
        rounds.tell(snapshot, snapshot.jobs, ())
        offered = scheduler.offered(now_ns)
        return [Menu(view=rounds.view(job), table=t, weight=w) for job, t, w in offered]

    def locked_until_ns(self, view: JobView) -> int:
        """Until when the last resize forbids another one; 0 = it does not."""
        from_ns = lock_from_ns(view)
        return from_ns + self.resize_interval_ns if from_ns >= 0 else 0
