"""The HTTP address of the metrics, on the event loop of the coordinator.

The loop only passes bytes: the view process renders the text. Every account of the host may connect
to a loopback port, so each cost has a limit. A connection has one request and `REQUEST_S` for it,
whether its client writes, reads or does neither. At most `CONNECTIONS_MAX` are open; others wait in
the kernel. Scrapes that arrive during an answer share the next answer, and answers begin at least
`PAUSE_S` apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.copies.picture_feed import NoPictureError
from wattfold.coordinator.adapters.log_throttle import LogThrottle
from wattfold.coordinator.adapters.metrics.settings import host_and_port

PATH = "/metrics"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_S = 10.0
REQUEST_BYTES_MAX = 8192
CONNECTIONS_MAX = 16
PAUSE_S = 0.1
BACKLOG = 64
RETRY_S = 1.0
"""Pause after a connection that could not be accepted, for example without a free descriptor."""

log = logging.getLogger("wattfold.coordinator")


class SharedAnswer:
    """Asks for the text once for all scrapes that wait. No scrape gets an older text."""

    def __init__(self, ask: Callable[[], Awaitable[bytes]], pause_s: float = PAUSE_S) -> None:
        self._ask = ask
        self._pause_s = pause_s
        self._free_at_s = 0.0
        self._next: asyncio.Task[bytes] | None = None
        self._turn = asyncio.Lock()

    async def get(self) -> bytes:
        """Return a text that was begun after this call. Raises NoPictureError."""
        if self._next is None:
            self._next = asyncio.create_task(self._answer())
        # One scrape that is given up must not cancel the answer of the others.
        return await asyncio.shield(self._next)

    async def _answer(self) -> bytes:
        loop = asyncio.get_running_loop()
        async with self._turn:
            await asyncio.sleep(max(self._free_at_s - loop.time(), 0.0))
            self._next = None
            try:
                return await self._ask()
            finally:
                self._free_at_s = loop.time() + self._pause_s


class Endpoint:
    """Serves the metrics at an address until closed."""

    def __init__(
        self, address: str, ask: Callable[[], Awaitable[bytes]], request_s: float = REQUEST_S
    ) -> None:
        """Bind the address. Raises OSError."""
        host, port = host_and_port(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._socket.setblocking(False)
        self._answer = SharedAnswer(ask)
        self._request_s = request_s
        self._failures = LogThrottle(log.warning)
        self._free = asyncio.Semaphore(CONNECTIONS_MAX)
        self._serving: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept())
        bound = self._socket.getsockname()[0:2]
        self.address = f"[{bound[0]}]:{bound[1]}" if ":" in bound[0] else f"{bound[0]}:{bound[1]}"
        log.info(line("metrics_opened", address=self.address))
        if not ipaddress.ip_address(bound[0]).is_loopback:
            means = "every host that reaches this address can read the metrics"
            log.warning(line("metrics_not_on_loopback", address=self.address, means=means))

    async def close(self) -> None:
        """Close the address and all connections."""
        tasks = [self._accepting, *self._serving]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._socket.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._free.acquire()
            try:
                connection, _ = await loop.sock_accept(self._socket)
            except OSError as error:
                self._free.release()
                self._failures.tell("metrics_not_accepted", reason=error.strerror or error)
                await asyncio.sleep(RETRY_S)
                continue
            task = asyncio.create_task(self._serve(connection))
            self._serving.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._serving.discard(task)
        self._free.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(line("metrics_failed", reason=repr(error)), exc_info=error)

    async def _serve(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection, limit=REQUEST_BYTES_MAX)
        try:
            # Clients that are slow or gone need no line in the log.
            with contextlib.suppress(TimeoutError, ConnectionError, asyncio.IncompleteReadError):
                async with asyncio.timeout(self._request_s):
                    writer.write(await self._reply(reader))
                    await writer.drain()
                    writer.write_eof()
                    # The client closes first, so that no unread byte resets the connection.
                    while await reader.read(REQUEST_BYTES_MAX):
                        pass
        finally:
            writer.transport.abort()

    async def _reply(self, reader: asyncio.StreamReader) -> bytes:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        words = request.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _response(HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        if target.partition("?")[0] != PATH:
            return _response(HTTPStatus.NOT_FOUND, f"The metrics are at {PATH}.")
        if method not in ("GET", "HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            text = await self._answer.get()
        except NoPictureError as error:
            return _response(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        return _head(HTTPStatus.OK, TEXT, len(text)) + (text if method == "GET" else b"")


def _response(status: HTTPStatus, text: str = "") -> bytes:
    body = f"{text or status.phrase}\n".encode()
    return _head(status, "text/plain; charset=utf-8", len(body)) + body


def _head(status: HTTPStatus, kind: str, size: int) -> bytes:
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {kind}",
        f"Content-Length: {size}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    )
    return "".join(f"{text}\r\n" for text in (*lines, "")).encode()
