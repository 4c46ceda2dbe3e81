"""Requests of operators about the current and future budget (checks: `budgets`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import grpc

from wattfold.coordinator.adapters.copies import site_messages
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.adapters.requests import schedules
from wattfold.coordinator.adapters.requests.budgets import (
    announced_message,
    announced_messages,
    announcement_refusal,
    budget_refusal,
    obstacle,
)
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.rules.power.unaccounted_power import outsiders_uw
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import coordinator_pb2_grpc

DEADLINE_DEFAULT_NS = 10_000_000_000


class BudgetRequests(coordinator_pb2_grpc.CoordinatorServicer):
    """The part of the coordinator's service for the budget."""

    _service: Service
    _seen: Observations
    _policy: Callable[[], str]
    """Name of the planning policy."""

    _settle_ns: Callable[[], int]
    """Time to lower every cap if all nodes answer, in nanoseconds."""

    @property
    def _state(self) -> State:
        return self._service.core.state

    async def _request(self, event: ev.Event, context: Any) -> None:
        raise NotImplementedError

    async def SetBudget(self, request: pb.SetBudgetRequest, context: Any) -> pb.SetBudgetResponse:
        """Change the budget. A lower budget is in force by the deadline."""
        budget_uw = request.budget_uw
        refused = budget_refusal(self._state, budget_uw, request.accept_outside)
        if refused:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, refused)
        deadline_ns = request.deadline_ns or DEADLINE_DEFAULT_NS
        least_ns = self._settle_ns()
        if budget_uw < self._state.ledger.committed_uw and deadline_ns < least_ns:
            text = (
                f"a deadline of {deadline_ns / 1e9:.2f} s is too short: lowering caps takes "
                f"up to {least_ns / 1e9:.2f} s (a command and one averaging window)"
            )
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, text)
        event = ev.BudgetChanged(
            budget_uw=budget_uw,
            deadline_ns=deadline_ns,
            accepted_outside_uw=outsiders_uw(self._state) if request.accept_outside else 0,
        )
        await self._request(event, context)
        # From the state here: the view process may be busy, and the order is already in force.
        clock = self._service.clock
        power = site_messages.power_message(self._state, self._seen, clock, self._policy())
        return pb.SetBudgetResponse(power=power)

    async def AnnounceBudget(
        self, request: pb.AnnounceBudgetRequest, context: Any
    ) -> pb.AnnounceBudgetResponse:
        """Announce another budget from a future time on, if it will be possible then."""
        clock = self._service.clock
        refused = announcement_refusal(
            self._state, request.budget_uw, request.at_s, clock, self._settle_ns()
        )
        if refused:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, refused)
        at_ns = clock.time_ns(request.at_s)
        event = ev.BudgetAnnounced(at_ns=at_ns, budget_uw=request.budget_uw)
        await self._request(event, context)
        made = next((one for one in self._state.announced if one.at_ns == at_ns), None)
        if made is None:
            text = "its start passed while it was being stored; the budget is already in force"
            await _refuse(context, grpc.StatusCode.ABORTED, text)
        if refused := obstacle(self._state, made):
            # A node may have left or joined between the check and this event.
            await self._request(ev.BudgetCancelled(number=made.number), context)
            await _refuse(context, grpc.StatusCode.ABORTED, f"not possible any more: {refused}")
        return pb.AnnounceBudgetResponse(announced=announced_message(self._state, made, clock))

    async def CancelBudget(
        self, request: pb.CancelBudgetRequest, context: Any
    ) -> pb.CancelBudgetResponse:
        """Cancel an announced budget."""
        known = {one.number: one for one in self._state.announced}
        one = known.get(request.number)
        if one is None:
            there = ", ".join(str(number) for number in known) or "none"
            text = (
                f"no announced budget has the number {request.number} (announced: {there}); "
                "change the current budget with `wattfold budget set`"
            )
            await _refuse(context, grpc.StatusCode.NOT_FOUND, text)
        message = announced_message(self._state, one, self._service.clock)
        await self._request(ev.BudgetCancelled(number=one.number), context)
        return pb.CancelBudgetResponse(cancelled=message)

    async def ScheduleBudgets(
        self, request: pb.ScheduleBudgetsRequest, context: Any
    ) -> pb.ScheduleBudgetsResponse:
        """Replace the announced budgets of a schedule, all or none, or say what would happen."""
        clock, state = self._service.clock, self._state
        proposal = schedules.propose(state, request, clock, self._settle_ns())
        if request.dry_run:
            return schedules.preview(state, proposal, clock)
        if refused := proposal.reason:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, refused)
        cancelled = announced_messages(state, proposal.cancelled, clock)
        await self._request(proposal.event, context)
        if schedules.missing(self._state, proposal, clock.now_ns()):
            text = "nodes or announced budgets have just changed, so nothing was changed: try again"
            await _refuse(context, grpc.StatusCode.ABORTED, text)
        return schedules.done(self._state, proposal, cancelled, clock)


async def _refuse(context: Any, code: grpc.StatusCode, text: str) -> NoReturn:
    await context.abort(code, text)
    raise AssertionError("abort returned")
