"""Checks before a call reaches the service: its token and its body."""

from __future__ import annotations

import hmac
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from wattfold.contract.bodies import UNREADABLE, lenient, refusal_text
from wattfold.contract.repeats import Repeats
from wattfold.nodeagent import logs


class BodyCheck(grpc.aio.ServerInterceptor):
    """Refuses calls with an invalid body, and logs them with a rate limit."""

    def __init__(self) -> None:
        self._repeats = Repeats()
        self._known: dict[str, tuple[Any, Any]] = {}
        """Handlers by method, with and without the check of the body. Created once, for speed."""

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Return the handler of a call, preceded by the check of its body."""
        handler = await continuation(details)
        if handler is None or handler.request_deserializer is None:
            return handler
        method = details.method
        known = self._known.get(method)
        if known is None or known[0] is not handler:
            checked = self._checked(handler, method.rpartition("/")[2])
            known = self._known[method] = handler, checked
        return known[1]

    def _checked(self, handler: Any, action: str) -> Any:
        readers = {
            "request_deserializer": lenient(handler.request_deserializer, DecodeError),
            "response_serializer": handler.response_serializer,
        }
        if handler.unary_unary is None:

            async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
                if request is UNREADABLE:
                    await self._refuse(context, action)
                async for answer in handler.unary_stream(request, context):
                    yield answer

            return grpc.unary_stream_rpc_method_handler(stream, **readers)

        async def answer_once(request: Any, context: Any) -> Any:
            if request is UNREADABLE:
                await self._refuse(context, action)
            return await handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(answer_once, **readers)

    async def _refuse(self, context: Any, action: str) -> None:
        # The caller has the token or is the agent's account; the peer shows its address.
        peer = context.peer().partition(":")[0]
        if count := self._repeats.one_more(peer, time.monotonic()):
            logs.warning("unreadable_request", peer=context.peer(), action=action, calls=count)
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, refusal_text(action))


class TokenCheck(grpc.aio.ServerInterceptor):
    """Refuses calls without the node's token."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Pass on a call with the right token."""
        given = dict(details.invocation_metadata or ()).get("authorization", "")
        data = given if isinstance(given, bytes) else str(given).encode()
        if hmac.compare_digest(data, self._expected):
            return await continuation(details)
        return grpc.unary_unary_rpc_method_handler(_unauthenticated)


async def _unauthenticated(_request: Any, context: Any) -> None:
    await context.abort(
        grpc.StatusCode.UNAUTHENTICATED,
        "missing or wrong token: send the metadata 'authorization: Bearer <token>'",
    )
