"""Budgets of a site as an operator orders them, noted as facts on the true clock."""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import replace

from system.orders.judge import NS_PER_S, BudgetOrder, EmergencyLimit, Facts
from system.site.calendars import NOTICED_S
from system.site.live_site import uw

from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.v1 import coordinator_pb2 as pb

DEADLINE_S = 9.0
"""Of a lower budget: longer than a lease, so that it is kept without a coordinator as well."""
LATE_NS = int((DEADLINE_S + NOTICED_S) * NS_PER_S)
"""For budgets that a step of the calendar, or a copy that takes over, makes due unannounced."""
_CLOCK_NS = NS_PER_S // 10
"""By so much the time of an announced budget may differ between the two clocks of a machine."""

_SCHEDULE = "trial"


class Budgets:
    """Orders them from the coordinator of the moment, and notes from when on each is kept."""

    def __init__(self, facts: Facts, client: Callable[[], CoordinatorClient]) -> None:
        self._facts = facts
        self._client = client
        self._ahead_s = 0
        """Of the calendar of the coordinator."""

    def begin(self, budget_uw: int) -> None:
        """Note the budget of the first start."""
        now_ns = time.monotonic_ns()
        self._note(BudgetOrder(called_ns=now_ns, kept_from_ns=now_ns, budget_uw=budget_uw))

    def set(self, budget_w: float) -> None:
        """Set it at once, with a deadline. Raises CliError."""
        called_ns = time.monotonic_ns()
        self._client().set_budget(uw(budget_w), int(DEADLINE_S * 1e9))
        answered_ns = time.monotonic_ns()
        kept_ns = answered_ns + int(DEADLINE_S * 1e9)
        order = BudgetOrder(called_ns=called_ns, kept_from_ns=kept_ns, budget_uw=uw(budget_w))
        came = [
            one
            for one in self._facts.budgets
            if called_ns < one.called_ns + _CLOCK_NS and one.called_ns <= answered_ns
        ]
        self._note(order)
        # An announced budget came during the call. The last of the two that was handled stands.
        if came:
            power = self._client().power()
            if (power.pending_budget_uw or power.budget_uw) == order.budget_uw:
                self._note(replace(order, called_ns=answered_ns))

    def announce(self, budget_w: float, in_s: float) -> None:
        """Announce it by the calendar of the coordinator. Raises CliError."""
        at_s = time.time() + self._ahead_s + in_s
        at_ns = self._true_ns(at_s)
        made = self._client().announce_budget(uw(budget_w), at_s)
        self._note(replace(self._announced(made, at_ns), at_s=at_s))

    def schedule(self, steps: Sequence[tuple[float, float]], near_s: float) -> None:
        """Replace the schedule by pairs of seconds from now and watts. Raises CliError.

        Budgets of it that come sooner than ``near_s`` stay: they may be in force before.
        """
        now_s, now_ns = time.time() + self._ahead_s, time.monotonic_ns()
        request = pb.ScheduleBudgetsRequest(name=_SCHEDULE)
        # One whose time has just come may be announced still: then all of it is refused.
        own = [one for one in self.scheduled() if one.called_ns > now_ns - NS_PER_S]
        later = [one for one in own if one.called_ns > now_ns + int(near_s * NS_PER_S)]
        for one in own:
            if one not in later:
                request.budgets.add(at_s=one.at_s, budget_uw=one.budget_uw)
        for in_s, budget_w in steps:
            request.budgets.add(at_s=now_s + near_s + in_s, budget_uw=uw(budget_w))
        answer = self._client().schedule_budgets(request)
        for one in later:
            self._facts.budgets.remove(one)
        for made in answer.announced:
            self._note(self._announced(made, self._true_ns(made.at_s)))

    def scheduled(self) -> list[BudgetOrder]:
        """The budgets of the schedule, with those whose time has come."""
        return [one for one in self._facts.budgets if one.scheduled]

    def cancel(self, order: BudgetOrder) -> None:
        """Cancel an announced budget. Raises CliError."""
        self._client().cancel_budget(order.number)
        self._facts.budgets.remove(order)

    def begin_emergency(self, limit_w: float) -> None:
        """Begin or change an emergency. Raises CliError.

        Its limit is judged only where its forecast says that caps can keep to it.
        """
        called_ns, limit_uw = time.monotonic_ns(), uw(limit_w)
        answer = self._client().begin_emergency(pb.BeginEmergencyRequest(limit_uw=limit_uw))
        kept_ns = time.monotonic_ns() + int(DEADLINE_S * NS_PER_S)
        for one in self._facts.emergencies:
            # Until a lower limit must be kept, the one before it is.
            until_ns = kept_ns if limit_uw <= one.limit_uw and not answer.short_uw else called_ns
            one.until_ns = one.until_ns or until_ns
        if not answer.short_uw:
            self._facts.emergencies.append(EmergencyLimit(limit_uw=limit_uw, kept_from_ns=kept_ns))

    def end_emergency(self) -> None:
        """End the emergency. Raises CliError."""
        self._emergency_over(time.monotonic_ns())
        self._client().end_emergency()

    def _emergency_over(self, at_ns: int) -> None:
        for one in self._facts.emergencies:
            one.until_ns = one.until_ns or at_ns

    def ahead(self, least_s: float = 0.0) -> list[BudgetOrder]:
        """The announced budgets that come in so many seconds or later."""
        from_ns = time.monotonic_ns() + int(least_s * NS_PER_S)
        return [one for one in self._facts.budgets if one.number and one.called_ns > from_ns]

    def step(self, ahead_s: int) -> None:
        """Move what is announced: the calendar of the coordinator was just set."""
        now_ns, self._ahead_s = time.monotonic_ns(), ahead_s
        moved = sorted(self.ahead(), key=lambda order: order.at_s)
        for order in moved:
            self._facts.budgets.remove(order)
            due_ns = self._true_ns(order.at_s)
            called_ns = max(due_ns - _CLOCK_NS, now_ns)
            kept_ns = max(due_ns, now_ns + LATE_NS)
            self._note(replace(order, called_ns=called_ns, kept_from_ns=kept_ns))

    def taken_over(self, called_ns: int) -> None:
        """Note what a copy that took over has: its word counts from the call of its start."""
        power, now_ns = self._client().power(), time.monotonic_ns()
        self._emergency_over(called_ns)
        if power.HasField("emergency") and not power.emergency.short_uw:
            limit = EmergencyLimit(limit_uw=power.emergency.limit_uw, kept_from_ns=now_ns + LATE_NS)
            self._facts.emergencies.append(limit)
        self._facts.budgets[:] = [
            order for order in self._facts.budgets if order.called_ns < called_ns
        ]
        for budget_uw in filter(None, (power.budget_uw, power.pending_budget_uw)):
            order = BudgetOrder(
                called_ns=called_ns, kept_from_ns=now_ns + LATE_NS, budget_uw=budget_uw
            )
            self._note(order)
        for one in sorted(power.announced, key=lambda one: one.at_s):
            order = self._announced(one, due_ns := self._true_ns(one.at_s))
            due_ns = max(due_ns, now_ns + LATE_NS)
            self._note(
                replace(order, called_ns=max(order.called_ns, called_ns), kept_from_ns=due_ns)
            )

    def _announced(self, made: pb.AnnouncedBudget, due_ns: int) -> BudgetOrder:
        """The order of an announced budget that comes at a time of the monotonic clock."""
        return BudgetOrder(
            called_ns=due_ns - _CLOCK_NS,
            kept_from_ns=due_ns,
            budget_uw=made.budget_uw,
            number=made.number,
            at_s=made.at_s,
            scheduled=made.schedule == _SCHEDULE,
        )

    def _true_ns(self, at_s: float) -> int:
        """When a time of the coordinator's calendar comes, by the monotonic clock."""
        return time.monotonic_ns() + int((at_s - self._ahead_s - time.time()) * NS_PER_S)

    def _note(self, order: BudgetOrder) -> None:
        insort(self._facts.budgets, order, key=lambda budget: budget.called_ns)
