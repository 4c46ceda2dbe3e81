"""Baseline of the service: FIFO with EASY backfill, unaware of power (`easy`)."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.coordinator.core.model.plan import Plan, Policy, Snapshot
from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.coordinator.policies.driver.in_turn import InTurn
from wattfold.coordinator.policies.driver.rounds import planned
from wattfold.coordinator.policies.fifo.settings import FifoSettings
from wattfold.coordinator.policies.port import Scheduled, Scheduler


@dataclass(frozen=True, slots=True)
class FifoEasy(Scheduled):
    """The baseline with its settings."""

    settings: FifoSettings = FifoSettings()  # noqa: RUF009 - immutable
    backfill: bool = True

    @property
    def size(self) -> str:
        """The end of the size range that a job gets."""
        return self.settings.size

    @property
    def name(self) -> str:
        """``fifo-easy``, or ``fifo`` without backfill."""
        return "fifo-easy" if self.backfill else "fifo"

    def fallback(self) -> Policy | None:
        """Start jobs in order; this code is independent of the policy."""
        return InTurn()

    def scheduler(self) -> Scheduler:
        """Return a scheduler with these settings. Programs may exceed their estimates."""
        method = "easy" if self.backfill else "fcfs"
        return EasyScheduler(method=method, size=self.size, kills_at_limit=False)

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Keep running jobs, start jobs in order while they fit, and backfill."""
        del deadline_s
        return planned(self, snapshot, now_ns)
