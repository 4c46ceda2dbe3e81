"""Identification of each caller, and the audit of every call that is not known as read-only.

So a new call is audited unless a developer adds it to LOOKS.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from wattfold.contract.bodies import UNREADABLE, lenient, refusal_text
from wattfold.contract.log_text import line
from wattfold.contract.repeats import Repeats
from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.coordinator.adapters.asking import ASKING, Asking
from wattfold.coordinator.adapters.door.peers import Peer, peer_of
from wattfold.coordinator.adapters.journal.audit_trail import REFUSED, AuditEntry

log = logging.getLogger("wattfold.audit")

LOOKS = frozenset(
    {
        "Explain",
        "GetPower",
        "GetReport",
        "ListAudit",
        "ListHistory",
        "ListJobs",
        "ListNodes",
        "ListProfiles",
        "ListQueues",
        "ListAccounts",
        "ListReservations",
        "Watch",
    }
)
"""Calls that change nothing and return only data that each permitted caller may see."""
SECRET = frozenset({"env", "argv", "certificate", "idempotency_key"})
"""Fields of requests that are not written to the trail."""
VALUE_MAX = 200
MESSAGE_MAX = 500
STRANGERS_MAX_PER_MINUTE = 30
"""Maximum number of stored calls without a token, so that a flood does not displace other entries.
"""


class AuditInterceptor(grpc.aio.ServerInterceptor):
    """Stores the caller in `ASKING`, and records all calls except read-only calls, with outcome."""

    def __init__(
        self, note: Callable[[AuditEntry], None], door_key: str = "", token: Peer | None = None
    ) -> None:
        """``token``: the account of callers over TCP; None = the coordinator's account."""
        self._note = note
        self._door_key = door_key
        self._token = token
        self._strangers = _Limit(STRANGERS_MAX_PER_MINUTE)
        self._unreadable = Repeats()

    async def intercept_service(self, continuation, details):  # type: ignore[no-untyped-def]
        """Return the handler of a call, wrapped so that the caller is known."""
        handler = await continuation(details)
        action = details.method.rpartition("/")[2]
        if handler is None:
            return None
        if action in LOOKS:
            return self._looking(handler, action)
        if handler.unary_unary is None:
            # Streams are not audited.
            return _refused("calls that change state must return exactly one answer")
        return grpc.unary_unary_rpc_method_handler(
            self._audited(handler.unary_unary, action),
            request_deserializer=lenient(handler.request_deserializer, DecodeError),
            response_serializer=handler.response_serializer,
        )

    def _looking(self, handler: Any, action: str) -> Any:
        if handler.unary_unary is None:
            return self._watching(handler, action)

        async def look(request: Any, context: Any) -> Any:
            peer = await self._peer(context, action, request)
            ASKING.set(Asking(peer=peer, entry=None))
            return await handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(
            look,
            request_deserializer=lenient(handler.request_deserializer, DecodeError),
            response_serializer=handler.response_serializer,
        )

    def _watching(self, handler: Any, action: str) -> Any:
        async def watch(request: Any, context: Any) -> AsyncIterator[Any]:
            peer = await self._peer(context, action, request)
            ASKING.set(Asking(peer=peer, entry=None))
            async for picture in handler.unary_stream(request, context):
                yield picture

        return grpc.unary_stream_rpc_method_handler(
            watch,
            request_deserializer=lenient(handler.request_deserializer, DecodeError),
            response_serializer=handler.response_serializer,
        )

    async def _peer(self, context: Any, action: str, request: Any) -> Peer:
        """Return the caller. Ends calls of unknown accounts, and calls with an invalid body."""
        peer = peer_of(context.peer(), self._door_key, self._token)
        if not peer.known:
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED, "the caller could not be identified"
            )
        if request is UNREADABLE:
            count = self._unreadable.one_more(peer.account, time.monotonic())
            if count:
                told = {"account": peer.account, "peer": peer.address, "action": action}
                log.warning(line("unreadable_request", **told, calls=count))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, refusal_text(action))
        return peer

    def _audited(
        self, handle: Callable[[Any, Any], Awaitable[Any]], action: str
    ) -> Callable[[Any, Any], Awaitable[Any]]:
        async def audited(request: Any, context: Any) -> Any:
            peer = await self._peer(context, action, request)
            asking = Asking(peer=peer, entry=_entry(peer, action, request))
            ASKING.set(asking)
            try:
                answer = await handle(request, context)
            except BaseException as error:
                self._refusal(asking, context, error)
                raise
            self._done(asking, answer)
            return answer

        return audited

    def _done(self, asking: Asking, answer: Any) -> None:
        assert asking.entry is not None
        entry = replace(asking.entry, job=asking.entry.job or getattr(answer, "job_id", ""))
        if not asking.stored:
            self._note(entry)
        _log(entry)

    def _refusal(self, asking: Asking, context: Any, error: BaseException) -> None:
        assert asking.entry is not None
        told = context.details() or (
            "cancelled by the caller" if _cancelled(error) else repr(error)
        )
        entry = replace(asking.entry, outcome=REFUSED, message=str(told)[:MESSAGE_MAX])
        stranger = context.code() is grpc.StatusCode.UNAUTHENTICATED
        if stranger:
            entry = replace(entry, account="", uid=-1, job="", node="", detail="")
            if not self._strangers.one_more(entry.time_s):
                return
        # An event that was stored in spite of the error keeps its entry.
        if not asking.stored:
            self._note(entry)
        _log(entry)


def _cancelled(error: BaseException) -> bool:
    return not isinstance(error, Exception)


def _entry(peer: Peer, action: str, request: Any) -> AuditEntry:
    return AuditEntry(
        time_s=time.time(),
        account=peer.account,
        uid=peer.uid,
        peer=peer.address,
        action=action,
        job=getattr(request, "job_id", "")[:VALUE_MAX],
        node=getattr(request, "node_id", "")[:VALUE_MAX],
        detail=" ".join(_details(request)),
    )


def _details(request: Any) -> list[str]:
    """Return the set values of a request and its nested messages, without secrets."""
    found: list[str] = []
    if isinstance(request, bytes):
        return found  # The call was refused before its body was parsed.
    for field, value in request.ListFields():
        if field.name in SECRET or field.name in ("job_id", "node_id"):
            continue
        if field.is_repeated and field.type == field.TYPE_STRING:
            value = ",".join(value)
        elif field.is_repeated or field.type == field.TYPE_BYTES:
            continue
        if field.type == field.TYPE_MESSAGE:
            found += _details(value)
            continue
        if field.type == field.TYPE_ENUM and value in field.enum_type.values_by_number:
            value = field.enum_type.values_by_number[value].name.lower()
        name, told = _for_people(field.name, value)
        found.append(line("", **{name: told[:VALUE_MAX]}).partition(" ")[2])
    return found


def _for_people(name: str, value: Any) -> tuple[str, str]:
    """Return a value in watts or seconds, if the API has smaller units."""
    if name.endswith("_uw"):
        return name.removesuffix("uw") + "w", f"{w_from_uw(value):.1f}"
    if name.endswith("_ns"):
        return name.removesuffix("ns") + "s", f"{value / NS_PER_S:g}"
    return name, f"{value:04o}" if name == "umask" else str(value)


def _log(entry: AuditEntry) -> None:
    told = {"message": entry.message} if entry.message else {}
    log.info(
        line(
            "asked",
            action=entry.action,
            account=entry.account or "unknown",
            peer=entry.peer,
            job=entry.job,
            node=entry.node,
            detail=entry.detail,
            outcome=entry.outcome,
            **told,
        )
    )


def _refused(text: str) -> Any:
    async def refuse(request: object, context: grpc.aio.ServicerContext) -> None:
        del request
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, text)

    return grpc.unary_unary_rpc_method_handler(refuse)


class _Limit:
    """A limit per minute."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._minute = 0
        self._count = 0

    def one_more(self, time_s: float) -> bool:
        minute = int(time_s // 60)
        if minute != self._minute:
            self._minute, self._count = minute, 0
        self._count += 1
        return self._count <= self._most
