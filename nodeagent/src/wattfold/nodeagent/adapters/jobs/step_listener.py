"""Socket for remote shells that look for the step host of a job.

It reads one line, and passes the connection on. The agent handles no other part of a step. Every
process that reaches the socket may connect, so waiting connections are limited: in time, in total,
and per peer (the account on a unix socket, the address on TCP). If there is no room, the oldest
connection of the peer with the most connections is closed. The agent never waits for a peer and
never runs anything for a peer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.ids import JobId
from wattfold.contract.step_protocol import (
    JOB_LINE_BYTES_MAX,
    StepError,
    StepProtocolError,
    parse_job_line,
)
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.jobs.step_folders import NoStepHostError

LINE_S = 5.0
WAITING_MAX = 512
WAITING_PEER_MAX = 64
_ACCEPTS_MAX = 64
_PAUSE_S = 0.5
_PEER = struct.Struct("3i")

HandOver = Callable[[socket.socket, JobId, int | None], None]
"""Receives connection, job, and account of the peer (if known). Raises NoStepHostError."""


@dataclass(slots=True)
class _Waiting:
    conn: socket.socket
    peer: str
    uid: int | None
    line: bytes = b""
    timer: asyncio.TimerHandle | None = None


class StepListener:
    """A listening socket of the agent. Used from the event loop only."""

    def __init__(self, hand_over: HandOver, line_s: float = LINE_S) -> None:
        """``line_s``: time in which a peer must send its line."""
        self._hand_over = hand_over
        self._line_s = line_s
        self._listener: socket.socket | None = None
        self._path: Path | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._retry: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Number of connections that have not sent their line yet."""
        return len(self._waiting)

    def start(self, listen: str, *, open_to_all: bool) -> str:
        """Listen on unix:PATH or HOST:PORT. Returns the address to publish. Raises OSError."""
        if listen.startswith("unix:"):
            self._path = Path(listen.removeprefix("unix:"))
            self._listener = _bind_unix(self._path, 0o666 if open_to_all else 0o600)
            address = listen
        else:
            host, _, port = listen.rpartition(":")
            host = host.strip("[]")
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._listener = socket.create_server((host, int(port)), family=family, backlog=256)
            address = f"tcp:{self._listener.getsockname()[1]}"
        self._listener.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listener, self._accept)
        return address

    def close(self) -> None:
        """Stop listening and close waiting connections. Running steps are not affected."""
        loop = asyncio.get_running_loop()
        if self._retry is not None:
            self._retry.cancel()
        if self._listener is not None:
            loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for waiting in list(self._waiting.values()):
            self._drop(waiting)
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        assert self._listener is not None
        for _ in range(_ACCEPTS_MAX):
            try:
                conn, address = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue
            except OSError as error:
                self._pause(error)
                return
            self._admit(conn, address)

    def _pause(self, error: OSError) -> None:
        """Out of descriptors or memory: waiting connections stay in the kernel's queue."""
        assert self._listener is not None
        logs.warning("step_connection_failed", reason=error)
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)

        def again() -> None:
            if self._listener is not None:
                loop.add_reader(self._listener, self._accept)

        self._retry = loop.call_later(_PAUSE_S, again)

    def _admit(self, conn: socket.socket, address: object) -> None:
        conn.setblocking(False)
        uid = None
        if conn.family == socket.AF_UNIX:
            creds = conn.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            uid = _PEER.unpack(creds)[1]
        peer = f"uid {uid}" if uid is not None else str(address[0])  # type: ignore[index]
        self._make_room(peer)
        waiting = _Waiting(conn, peer, uid)
        self._waiting[conn.fileno()] = waiting
        loop = asyncio.get_running_loop()
        loop.add_reader(conn, self._read, waiting)
        waiting.timer = loop.call_later(self._line_s, self._drop, waiting)

    def _make_room(self, peer: str) -> None:
        counts = Counter(waiting.peer for waiting in self._waiting.values())
        if counts[peer] >= WAITING_PEER_MAX:
            crowd = peer
        elif len(self._waiting) >= WAITING_MAX:
            crowd = counts.most_common(1)[0][0]
        else:
            return
        self._drop(next(w for w in self._waiting.values() if w.peer == crowd))

    def _read(self, waiting: _Waiting) -> None:
        try:
            data = waiting.conn.recv(JOB_LINE_BYTES_MAX + 1 - len(waiting.line))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        waiting.line += data
        if data and b"\n" not in data and len(waiting.line) <= JOB_LINE_BYTES_MAX:
            return
        self._release(waiting)
        with waiting.conn as conn:
            if data:
                self._serve(conn, waiting)

    def _serve(self, conn: socket.socket, waiting: _Waiting) -> None:
        try:
            self._hand_over(conn, parse_job_line(waiting.line), waiting.uid)
            return
        except StepProtocolError as error:
            answer = StepError(text=str(error))
        except NoStepHostError as error:
            # The job may be about to start. The remote shell knows how long to retry.
            answer = StepError(text=str(error), not_yet=True)
        with contextlib.suppress(OSError):
            conn.send(answer.frame().pack())

    def _release(self, waiting: _Waiting) -> None:
        asyncio.get_running_loop().remove_reader(waiting.conn)
        del self._waiting[waiting.conn.fileno()]
        if waiting.timer is not None:
            waiting.timer.cancel()

    def _drop(self, waiting: _Waiting) -> None:
        if self._waiting.get(waiting.conn.fileno()) is waiting:
            self._release(waiting)
            waiting.conn.close()


def _bind_unix(path: Path, mode: int) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o777 & ~mode)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    path.chmod(mode)
    listener.listen(256)
    return listener
