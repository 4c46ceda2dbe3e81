"""The parts of a running dashboard: the feed, the board, the server and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass

from wattfold.coordinator.adapters.door.peers import account_of
from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.cli.shared.connection.session import Session
from wattfold.coordinator.cli.web.board import Board
from wattfold.coordinator.cli.web.calls import Calls, command_words
from wattfold.coordinator.cli.web.guard import Guard
from wattfold.coordinator.cli.web.server import DashboardHandlers, serve, steady_s
from wattfold.coordinator.cli.web.snapshots import Converter, SnapshotFeed
from wattfold.v1 import coordinator_pb2 as pb

STOPS = (signal.SIGINT, signal.SIGTERM)
"""Signals that end the server in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a server. ``port`` None = ``listening`` is a Unix socket."""

    listening: socket.socket
    port: int | None
    control: bool
    interval_ns: int
    tell: Callable[[int | None, str], None]
    """Prints the address with the token of a link."""


async def run_dashboard(session: Session, client: CoordinatorClient, settings: Settings) -> None:
    """Serve until a signal. ``client`` makes the calls of the page; the feed has its own."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in STOPS:
        loop.add_signal_handler(number, stop.set)
    converter = Converter()
    board = Board()

    def take(view: pb.ClusterView) -> None:
        snapshot = converter.snapshot(view)
        asyncio.run_coroutine_threadsafe(board.take(snapshot), loop)

    def lose(reason: str) -> None:
        asyncio.run_coroutine_threadsafe(board.lose(reason), loop)

    guarded = Guard(settings.port, steady_s)
    dashboard = DashboardHandlers(
        board,
        Calls(client, command_words(session.global_options())),
        guarded,
        account=account_of(os.geteuid()),
        control=settings.control,
    )
    feed = SnapshotFeed(session.connect(), settings.interval_ns, take, lose)
    runner = await serve(dashboard, settings.listening)
    try:
        feed.start()
        _tell_links(loop, settings, guarded)
        await stop.wait()
    finally:
        await runner.cleanup()
        await asyncio.to_thread(feed.stop)


def _tell_links(loop: asyncio.AbstractEventLoop, settings: Settings, guarded: Guard) -> None:
    """Print the first link, and another link for every line on a terminal or from a pipe."""
    settings.tell(settings.port, guarded.new_link())
    # There is no standard input if its descriptor was closed.
    asks = sys.stdin is not None and (sys.stdin.isatty() or _is_pipe(sys.stdin.fileno()))
    if settings.port is None or not asks:
        return

    def next_link() -> None:
        if sys.stdin.readline():
            settings.tell(settings.port, guarded.new_link())
        else:
            loop.remove_reader(sys.stdin.fileno())

    loop.add_reader(sys.stdin.fileno(), next_link)


def _is_pipe(descriptor: int) -> bool:
    return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
