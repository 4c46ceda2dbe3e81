"""HTTP server of the dashboard: the page, a WebSocket with its data, and a few calls.

Every request passes `guard`. Answers are JSON; an expected failure is ``{"error": text}``.
"""

from __future__ import annotations

import asyncio
import json
import math
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

from wattfold.coordinator.cli.shared.errors import (
    BadRequestError,
    CliError,
    NotFoundError,
    UnreachableError,
)
from wattfold.coordinator.cli.web import guard
from wattfold.coordinator.cli.web.board import Board
from wattfold.coordinator.cli.web.calls import Calls
from wattfold.coordinator.cli.web.files import page_files
from wattfold.coordinator.cli.web.guard import Guard

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

BROWSERS_MAX = 32
HELLO_S = 10.0
"""Time in which a new WebSocket must name its session."""
SHUTDOWN_S = 1.0
POWER_W_MAX = 1e12
"""Highest power that a page may name; the coordinator has its own limits."""


class DashboardHandlers:
    """The handlers of a server."""

    def __init__(
        self, board: Board, calls: Calls, guarded: Guard, *, account: str, control: bool
    ) -> None:
        self._board, self._calls, self._guard = board, calls, guarded
        self._about = {"account": account, "control": control}
        self._control = control
        self._files = page_files()
        self._sockets: set[web.WebSocketResponse] = set()

    def application(self) -> web.Application:
        """Return the application with its routes."""
        app = web.Application(middlewares=[self._check], client_max_size=guard.BODY_BYTES_MAX)
        app.router.add_post("/api/session", self._session)
        app.router.add_get("/api/live", self._live)
        app.router.add_get("/api/job/{job_id}", self._job)
        app.router.add_get("/api/what-if", self._what_if)
        if self._control:
            app.router.add_get("/api/audit", self._audit)
            app.router.add_post("/api/budget/{action}", self._budget)
        app.router.add_get("/", self._file)
        app.router.add_get("/{path:.+}", self._file)
        app.on_response_prepare.append(_add_headers)
        app.on_shutdown.append(self._close_sockets)
        return app

    @web.middleware
    async def _check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        host, origin = request.headers.get("Host", ""), request.headers.get("Origin", "")
        if not self._guard.names_us(host):
            return _failure(421, "this server has another name")
        if self._guard.port is None and not _own_peer(request):
            return _failure(403, "this socket belongs to another account")
        changes = request.method not in ("GET", "HEAD")
        live = request.path == "/api/live"
        if (changes or live) and not self._guard.own_page(origin, host):
            return _failure(403, "the request does not come from the page of this server")
        if changes and request.content_type != "application/json":
            return _failure(415, "the body must be JSON")
        opens = live or request.path == "/api/session"
        if request.path.startswith("/api/") and not opens:
            kind, _, session = request.headers.get("Authorization", "").partition(" ")
            if kind != "Bearer" or not self._guard.knows(session):
                return _failure(401, "no session; open a new link")
        try:
            return await handler(request)
        except CliError as error:
            return _failure(_status(error), " ".join(str(error).split()))
        except web.HTTPClientError as error:
            return _failure(error.status, error.reason)

    async def _file(self, request: web.Request) -> web.Response:
        found = self._files.get(request.match_info.get("path") or "index.html")
        if found is None:
            return _failure(404, "no such page")
        return web.Response(body=found.data, content_type=found.media_type, charset="utf-8")

    async def _session(self, request: web.Request) -> web.Response:
        body = await _body(request)
        session = self._guard.open_session(str(body.get("link", "")))
        if not session:
            return _failure(403, "this link was used before or is too old; ask for a new link")
        return web.json_response({"session": session})

    async def _live(self, request: web.Request) -> web.StreamResponse:
        if len(self._sockets) >= BROWSERS_MAX:
            return _failure(503, f"{BROWSERS_MAX} pages are open; close one of them")
        stream = web.WebSocketResponse(heartbeat=20.0, max_msg_size=guard.BODY_BYTES_MAX)
        await stream.prepare(request)
        self._sockets.add(stream)
        try:
            if not await self._knows(stream):
                await stream.close(code=WSCloseCode.POLICY_VIOLATION, message=b"no session")
                return stream
            sending = asyncio.create_task(self._send(stream))
            try:
                # The page sends nothing more; reading notices its end.
                async for _ in stream:
                    pass
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        finally:
            self._sockets.discard(stream)
        return stream

    async def _knows(self, stream: web.WebSocketResponse) -> bool:
        try:
            first = await stream.receive(timeout=HELLO_S)
        except TimeoutError:
            return False
        return first.type is WSMsgType.TEXT and self._guard.knows(first.data)

    async def _send(self, stream: web.WebSocketResponse) -> None:
        """Send the history, the whole state, and then changes as fast as the page reads them."""
        hello = {"type": "hello", "columns": self._board.columns(), **self._about}
        await stream.send_json(hello)
        await stream.send_bytes(self._board.history())
        version = 0
        while True:
            newest = await self._board.newer(version)
            await stream.send_str(self._board.message(version))
            version = newest

    async def _job(self, request: web.Request) -> web.Response:
        return web.json_response(await self._calls.job(request.match_info["job_id"]))

    async def _what_if(self, request: web.Request) -> web.Response:
        budget_w = _watts(request.query.get("budget_w"))
        return web.json_response(await self._calls.what_if(budget_w))

    async def _audit(self, _request: web.Request) -> web.Response:
        return web.json_response({"entries": await self._calls.audit()})

    async def _budget(self, request: web.Request) -> web.Response:
        body, action = await _body(request), request.match_info["action"]
        if action == "cancel":
            return web.json_response(await self._calls.cancel(round(_number(body.get("number")))))
        budget_uw = round(_watts(body.get("budget_w")) * 1e6)
        if action == "set":
            deadline_ns = round(_number(body.get("deadline_s", 0)) * 1e9)
            return web.json_response(await self._calls.set_budget(budget_uw, deadline_ns))
        at_s = _number(body.get("at_s"))
        if action == "announce":
            return web.json_response(await self._calls.announce(budget_uw, at_s))
        if action == "preview":
            return web.json_response(await self._calls.preview(budget_uw, at_s))
        return _failure(404, "no such call")

    async def _close_sockets(self, _app: web.Application) -> None:
        for stream in list(self._sockets):
            await stream.close(code=WSCloseCode.GOING_AWAY, message=b"the dashboard ends")


async def serve(dashboard: DashboardHandlers, listening: socket.socket) -> web.AppRunner:
    """Serve on a bound socket until the runner is cleaned up."""
    runner = web.AppRunner(
        dashboard.application(),
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=SHUTDOWN_S,
    )
    await runner.setup()
    await web.SockSite(runner, listening).start()
    return runner


def steady_s() -> float:
    """Return the clock of links, in seconds."""
    return time.monotonic()


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(guard.HEADERS)


def _own_peer(request: web.Request) -> bool:
    transport = request.transport
    connection = transport.get_extra_info("socket") if transport is not None else None
    return connection is not None and guard.may_connect(guard.peer_uid(connection))


def _failure(status: int, error: str) -> web.Response:
    return web.json_response({"error": error}, status=status)


def _status(error: CliError) -> int:
    if isinstance(error, UnreachableError):
        return 503
    if isinstance(error, NotFoundError):
        return 404
    return 400 if isinstance(error, BadRequestError) else 409


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        found = json.loads(await request.text())
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadRequestError("the body must be a JSON object")
    return found


def _number(given: object) -> float:
    """Return a finite number that is not negative. Raises BadRequestError."""
    try:
        value = float(given) if isinstance(given, str | int | float) else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not 0 <= value <= POWER_W_MAX:
        raise BadRequestError(f"not a number in range: {given!r}")
    return value


def _watts(given: object) -> float:
    value_w = _number(given)
    if value_w <= 0:
        raise BadRequestError("the budget must be above 0 W")
    return value_w
