"""gRPC channels to agents and coordinator: addresses, options, the token."""

from __future__ import annotations

import hmac
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import grpc
import grpc.aio

OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.keepalive_time_ms", 5_000),
    # Only for connections nobody will ever answer on: silence is judged by telemetry, less our own
    # lag, and a ping that waits for a busy processor is no silence.
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
)


class TokenError(Exception):
    """A token file cannot be used; the message says why."""


def read_token(path: Path) -> str:
    """The token in a file that nobody else may read. Raises TokenError."""
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
    """Whether an address is a unix socket, whose file mode says who may connect."""
    return address.startswith("unix:")


def metadata(token: str) -> tuple[tuple[str, str], ...]:
    """What a call must carry."""
    return (("authorization", f"Bearer {token}"),) if token else ()


def open_channel(address: str) -> grpc.aio.Channel:
    """An unencrypted channel; networks that are not private need a tunnel."""
    return grpc.aio.insecure_channel(address, options=list(OPTIONS))


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Refuses calls without the token."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()

        async def refuse(request: object, context: grpc.aio.ServicerContext) -> None:
            del request
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "token missing or wrong")

        self._refuse = grpc.unary_unary_rpc_method_handler(refuse)

    async def intercept_service(self, continuation, details):  # type: ignore[no-untyped-def]
        """Lets a call through or answers it with UNAUTHENTICATED."""
        given = dict(details.invocation_metadata or ()).get("authorization", "")
        data = given if isinstance(given, bytes) else str(given).encode()
        if hmac.compare_digest(data, self._expected):
            return await continuation(details)
        return self._refuse
