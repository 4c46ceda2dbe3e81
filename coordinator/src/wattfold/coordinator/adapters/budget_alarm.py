"""Log lines about power above the budget: when it begins, grows and ends."""

from __future__ import annotations

import logging
from collections.abc import Callable

from wattfold.contract.log_text import line
from wattfold.coordinator.core.rules.power.excess import excess_cause
from wattfold.coordinator.core.rules.power.unaccounted_power import unaccounted_power
from wattfold.coordinator.core.state.state import State

log = logging.getLogger("wattfold.coordinator")

_ADVICE = (
    "nodes outside the ledger draw power; switch them off, raise the budget, or "
    "accept their power (wattfold budget set WATTS --accept-outside)"
)


class BudgetAlarm:
    """Logs power above the budget, unless a lowered budget is still before its deadline."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._told_uw = 0
        """Highest excess logged since the power was last within the budget; 0 = none."""

    def look(self, state: State) -> None:
        """Compare the power with the budget. Called after every batch of events."""
        ledger = state.ledger
        if ledger.committed_uw + ledger.outside_uw <= ledger.budget_uw and not self._told_uw:
            return
        found = unaccounted_power(state)
        if not found.over_uw:
            if self._told_uw:
                log.warning(line("over_budget_ended", **_sums(state)))
            self._told_uw = 0
            return
        in_time = self._now_ns() < ledger.over_deadline_ns and not found.counted_uw
        if in_time or found.over_uw <= self._told_uw:
            return
        self._told_uw = found.over_uw
        advice = {"nodes": ",".join(found.nodes), "advice": _ADVICE} if found.counted_uw else {}
        told = line(
            "budget_late" if ledger.over_deadline_ns else "over_budget",
            over_w=f"{found.over_uw / 1e6:.1f}",
            **_sums(state),
            outside_w=f"{found.counted_uw / 1e6:.1f}",
            **advice,
            reason=excess_cause(state),
        )
        log.error(told)


def _sums(state: State) -> dict[str, str]:
    ledger = state.ledger
    return {
        "budget_w": f"{ledger.budget_uw / 1e6:.1f}",
        "committed_w": f"{ledger.committed_uw / 1e6:.1f}",
    }
