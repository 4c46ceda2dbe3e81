"""The service's baseline: FIFO with EASY backfill, unaware of power (`easy`)."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.coordinator.core.plan import Plan, Policy, Snapshot
from wattfold.coordinator.policies.easy import EasyScheduler
from wattfold.coordinator.policies.rounds import planned
from wattfold.coordinator.policies.scheduler import NamedScheduler, Scheduled


@dataclass(frozen=True, slots=True, kw_only=True)
class FifoEasy(Scheduled):
    """Settings of the baseline. ``size``: "max" or "min" of the range a job gives."""

    size: str = "max"
    backfill: bool = True

    @property
    def name(self) -> str:
        """``fifo-easy``, or ``fifo`` without backfill."""
        return "fifo-easy" if self.backfill else "fifo"

    def fallback(self) -> Policy | None:
        """None: it has no solver that could fail."""
        return None

    def scheduler(self) -> NamedScheduler:
        """A scheduler with these settings. Programs may run longer than was said of them."""
        method = "easy" if self.backfill else "fcfs"
        return EasyScheduler(method=method, size=self.size, kills_at_limit=False)

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Keeps what runs, starts what fits in order, backfills."""
        del deadline_s
        return planned(self, snapshot, now_ns)
