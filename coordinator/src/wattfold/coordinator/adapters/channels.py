"""gRPC channels to agents and coordinator: addresses, options, the token, unreadable answers."""

from __future__ import annotations

import hmac
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from wattfold.contract.bodies import UNREADABLE, lenient
from wattfold.contract.keep_alive import CLIENT_OPTIONS
from wattfold.v1 import node_agent_pb2_grpc

OPTIONS: Sequence[tuple[str, int]] = (
    *CLIENT_OPTIONS,
    # Only for connections nobody will ever answer on: silence is judged by telemetry, less our own
    # lag, and a ping that waits for a busy processor is no silence.
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
)


class TokenError(Exception):
    """A token file cannot be used. The message gives the reason."""


def read_token(path: Path) -> str:
    """Return the token in a file that only this account may read. Raises TokenError."""
    try:
        info = path.stat()
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TokenError(f"token file {path}: {error}") from error
    if info.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = stat.S_IMODE(info.st_mode)
        raise TokenError(
            f"token file {path} has mode {mode:04o}, so other accounts may access it; change the "
            "mode to 0600"
        )
    if info.st_uid not in (0, os.geteuid()):
        raise TokenError(
            f"token file {path} belongs to user {info.st_uid}, not to root or this account"
        )
    if len(token) < 16:
        raise TokenError(f"token file {path} has {len(token)} characters; at least 16 are required")
    return token


def is_local(address: str) -> bool:
    """Whether an address is a unix socket, which is protected by its file mode."""
    return address.startswith("unix:")


def metadata(token: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata that each call must carry."""
    return (("authorization", f"Bearer {token}"),) if token else ()


def open_channel(address: str) -> grpc.aio.Channel:
    """Open an unencrypted channel. Networks that are not private need a tunnel."""
    return grpc.aio.insecure_channel(address, options=list(OPTIONS))


Answer = TypeVar("Answer")


def agent_stub(channel: grpc.aio.Channel) -> Any:
    """The calls to an agent. An answer that is no message is `UNREADABLE`; see `readable`.

    gRPC would write a traceback for each.
    """
    stub: Any = node_agent_pb2_grpc.NodeAgentStub
    return stub(_LenientChannel(channel))


def readable(answer: Answer) -> Answer:
    """The answer, unless it is no message of the contract: then AioRpcError is raised."""
    if answer is UNREADABLE:
        raise grpc.aio.AioRpcError(
            grpc.StatusCode.INTERNAL,
            grpc.aio.Metadata(),
            grpc.aio.Metadata(),
            "its answer is not a message of this version of the contract",
        )
    return answer


class _LenientChannel:
    """What the generated code makes calls with."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def unary_unary(self, method: str, **options: Any) -> Any:
        """A call with one answer."""
        return self._channel.unary_unary(method, **_lenient(options))

    def unary_stream(self, method: str, **options: Any) -> Any:
        """A call with several answers."""
        return self._channel.unary_stream(method, **_lenient(options))


def _lenient(options: dict[str, Any]) -> dict[str, Any]:
    read = options["response_deserializer"]
    return options | {"response_deserializer": lenient(read, DecodeError)}


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Refuses calls without the token."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()

        async def refuse(request: object, context: grpc.aio.ServicerContext) -> None:
            del request
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "token missing or wrong")

        self._refuse = grpc.unary_unary_rpc_method_handler(refuse)

    async def intercept_service(self, continuation, details):  # type: ignore[no-untyped-def]
        """Pass a call with the token on; answer other calls with UNAUTHENTICATED."""
        given = dict(details.invocation_metadata or ()).get("authorization", "")
        data = given if isinstance(given, bytes) else str(given).encode()
        if hmac.compare_digest(data, self._expected):
            return await continuation(details)
        return self._refuse
