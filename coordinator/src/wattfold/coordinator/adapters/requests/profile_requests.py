"""Requests about profiles and certificates of applications."""

from __future__ import annotations

from typing import Any, NoReturn

import grpc

from wattfold.contract.ids import valid_name
from wattfold.coordinator.adapters.requests import profiles
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import coordinator_pb2_grpc


class ProfileRequests(coordinator_pb2_grpc.CoordinatorServicer):
    """The part of the coordinator's service for profiles."""

    _service: Service

    @property
    def _state(self) -> State:
        return self._service.core.state

    async def _request(self, event: ev.Event, context: Any) -> None:
        raise NotImplementedError

    async def ListProfiles(
        self,
        request: pb.ListProfilesRequest,
        context: Any,
    ) -> pb.ListProfilesResponse:
        """Return the profiles and certificates of applications."""
        del context
        known = profiles.profile_messages(self._state, self._service.clock, request.app)
        return pb.ListProfilesResponse(profiles=known)

    async def PutProfile(
        self,
        request: pb.PutProfileRequest,
        context: Any,
    ) -> pb.PutProfileResponse:
        """Store a profile, a certificate or both. Parts that are not sent stay unchanged."""
        try:
            if not valid_name(request.profile.app):
                raise ValueError(f"application name {request.profile.app!r} is not valid")
            events = profiles.events_from(request.profile)
        except ValueError as error:
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        for event in events:
            await self._request(event, context)
        return pb.PutProfileResponse()

    async def DropProfile(
        self, request: pb.DropProfileRequest, context: Any
    ) -> pb.DropProfileResponse:
        """Delete the profile and certificate of an application, or parts of them."""
        try:
            answer = profiles.dropped(self._state, request)
        except LookupError as error:
            await _abort(context, grpc.StatusCode.NOT_FOUND, str(error))
        except ValueError as error:
            await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, str(error))
        event = ev.ProfileDropped(
            app=request.app,
            model=bool(answer.models) or answer.resize_costs,
            certificate=answer.certificate,
        )
        await self._request(event, context)
        return answer


async def _abort(context: Any, code: grpc.StatusCode, text: str) -> NoReturn:
    await context.abort(code, text)
    raise AssertionError("abort returned")
