"""A judge of ramp limits that keeps every amount and compares all pairs of times.

A rise that nobody chose (a node that appears, doubts after a take-over) is part of the amounts, so
the raises after it are judged with it.
"""

from __future__ import annotations

from unit.core.stage import CHECKED

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.configuration import RampConfigured
from wattfold.coordinator.core.model.ramp_limits import RampLimits

S = 1_000_000_000


class Oracle:
    """A replay that compares the power after every raise with all earlier amounts."""

    def __init__(self, limits: RampLimits, budget_uw: int) -> None:
        self.core = CoordinatorCore(budget_uw, CHECKED)
        self.limits, self.raises, self.wrong = limits, 0, list[str]()
        self.seen: list[tuple[int, int]] = []

    def see(self, event: ev.Event, now_ns: int) -> None:
        ledger = self.core.state.ledger
        before = {node_id: account.charge_uw for node_id, account in ledger.accounts.items()}
        actions = self.core.handle(event, now_ns)
        power_uw = self.core.state.ledger.possible_uw
        if self.seen and any(self._raises(action, before) for action in actions):
            self.raises += 1
            self._compare(power_uw, now_ns)
        if self.seen or isinstance(event, RampConfigured):
            self.seen.append((now_ns, power_uw))

    def _raises(self, action: act.Action, before: dict[NodeId, int]) -> bool:
        accounts = self.core.state.ledger.accounts
        return isinstance(action, act.SetCaps) and (
            accounts[action.node_id].charge_uw > before.get(action.node_id, 0)
        )

    def _compare(self, power_uw: int, now_ns: int) -> None:
        rate, step_uw = self.limits.rise_uw_per_s, self.limits.step_uw
        for at_ns, earlier_uw in self.seen:
            most_uw = earlier_uw + step_uw + rate * (now_ns - at_ns) // S
            if power_uw > most_uw:
                self.wrong.append(f"{power_uw} at {now_ns}, {earlier_uw} at {at_ns}")
