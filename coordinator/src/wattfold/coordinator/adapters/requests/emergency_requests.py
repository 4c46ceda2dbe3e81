"""Requests of operators about an emergency."""

from __future__ import annotations

from typing import Any

import grpc

from wattfold.coordinator.adapters.copies import site_messages
from wattfold.coordinator.adapters.emergencies import Emergencies
from wattfold.coordinator.adapters.journal.journal import JournalError
from wattfold.coordinator.adapters.requests.budget_requests import BudgetRequests
from wattfold.v1 import coordinator_pb2 as pb


class EmergencyRequests(BudgetRequests):
    """The part of the coordinator's service for emergencies."""

    _emergencies: Emergencies

    async def BeginEmergency(
        self, request: pb.BeginEmergencyRequest, context: Any
    ) -> pb.BeginEmergencyResponse:
        """Limit the power at once, or say what that would do."""
        share = request.limit_share
        limit_uw = request.limit_uw or self._emergencies.limit_of_share(
            share if 0 < share <= 1 else 0.0
        )
        if not limit_uw or (request.limit_uw and share):
            text = "give a limit above 0 W, or a share of the budget above 0 and up to 1"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        answer = self._emergencies.forecast(limit_uw)
        if not request.dry_run:
            answer.not_stored = not await self._emergencies.begin(limit_uw)
        return answer

    async def EndEmergency(
        self, request: pb.EndEmergencyRequest, context: Any
    ) -> pb.EndEmergencyResponse:
        """End the emergency: jobs and caps return to the budget."""
        del request
        if self._state.emergency is None:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no emergency is in force")
        try:
            await self._emergencies.end()
        except JournalError as error:
            text = f"the emergency is still in force; its end could not be stored: {error}"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        clock = self._service.clock
        power = site_messages.power_message(self._state, self._seen, clock, self._policy())
        return pb.EndEmergencyResponse(power=power)
