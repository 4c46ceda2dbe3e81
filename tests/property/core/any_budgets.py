"""Orders about the budget in any order, for the state machine of all events."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule
from unit.core.stage import S, Stage, W

from wattfold.coordinator.core.model import events as ev

_WATTS = st.integers(60, 300)
_STEPS = st.lists(st.tuples(st.sampled_from([0.5, 1, 5, 20, 40]), _WATTS), max_size=4)
"""Seconds after the budget before, and watts."""


class AnyBudgets:
    """Sets, announces, schedules and cancels budgets."""

    stage: Stage

    @rule(budget_w=_WATTS)
    def budget(self, budget_w: int) -> None:
        self.stage.budget(budget_w, deadline_s=3)

    @rule(budget_w=_WATTS, in_s=st.sampled_from([0.5, 5, 20, 40]))
    def announce(self, budget_w: int, in_s: float) -> None:
        at_ns = self.stage.now_ns + round(in_s * S)
        self.stage.send(ev.BudgetAnnounced(at_ns=at_ns, budget_uw=budget_w * W))

    @rule(name=st.sampled_from(["day", "night"]), steps=_STEPS)
    def schedule(self, name: str, steps: list[tuple[float, int]]) -> None:
        at_ns, budgets = self.stage.now_ns, []
        for after_s, budget_w in steps:
            at_ns += round(after_s * S)
            budgets.append(ev.BudgetAnnounced(at_ns=at_ns, budget_uw=budget_w * W))
        before, others = self._announced(name)
        self.stage.send(ev.BudgetsScheduled(schedule=name, budgets=tuple(budgets)))
        found, others_then = self._announced(name)
        assert others_then == others, "others stay"
        wanted = {(one.at_ns, one.budget_uw) for one in budgets}
        assert found in (wanted, before), "all of it, or what was there"
        numbers = [one.number for one in self.stage.core.state.announced]
        assert len(set(numbers)) == len(numbers)

    @rule(number=st.integers(1, 8))
    def take_back(self, number: int) -> None:
        self.stage.send(ev.BudgetCancelled(number=number))

    def _announced(self, name: str) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
        """Times and budgets of a schedule, and of all others."""
        announced = self.stage.core.state.announced
        own = {(one.at_ns, one.budget_uw) for one in announced if one.schedule == name}
        return own, {(one.at_ns, one.budget_uw) for one in announced if one.schedule != name}
