"""The unix socket people connect to: takes down who they are, and passes their bytes on.

gRPC tells nothing of the account behind a connection, so it listens on a second socket, in a folder
that only the coordinator's account can enter. For each connection the door asks the kernel for the
account at its other end, gives its own end to gRPC a name that says so, and carries bytes both
ways. It runs on a thread with a loop of its own: large answers do not delay the core.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import struct
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.peers import own_end

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 1024
CONNECTIONS_MAX_OF_ONE = 512
KEPT_FOR_OPERATORS = 64
"""Of all connections: users who take what they can must not keep those out who could end that."""
BACKLOG = 256
HIGH_WATER_BYTES = 256 * 1024
START_S = 10.0
_CREDENTIALS = struct.Struct("3i")
_SO_PEERGROUPS = getattr(socket, "SO_PEERGROUPS", 59)
_GROUPS_BYTES_MAX = 1024
"""The most that Python reads of an option: 256 groups."""
_GID = struct.Struct("I")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """Who may connect: mode and group of the socket, and the group whose members are operators."""

    mode: int = 0o600
    gid: int | None = None
    operators_gid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The account at the other end of a connection."""

    uid: int
    in_group: bool

    @property
    def operator(self) -> bool:
        """As in `peers.Peer`."""
        return self.in_group or self.uid in (0, os.geteuid())


class PeerDoor:
    """A listening socket whose connections go on to another one, by name of their account."""

    def __init__(
        self,
        path: Path,
        behind: Path,
        entrance: Entrance = Entrance(),
    ) -> None:
        """Binds ``path`` in the place of a socket that nobody listens on.

        ``behind`` is the socket of the server. Raises OSError.
        """
        self.key = secrets.token_hex(8)
        self._path = path
        self._entrance = entrance
        self._listening = _bound(path, entrance)
        self._made = path.stat().st_ino
        self._folder = os.open(behind.parent, os.O_PATH | os.O_DIRECTORY)
        # By way of the folder's descriptor: socket addresses have 108 bytes, paths may have more.
        self.behind = f"/proc/self/fd/{self._folder}/{behind.name}"
        self._of_uid: Counter[int] = Counter()
        self._number = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="peer-door", daemon=True)

    def open(self) -> None:
        """Begins to let callers in; the server behind must listen already."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(START_S)

    def close(self) -> None:
        """Ends all connections and the thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(START_S)
        self._listening.close()
        with contextlib.suppress(OSError):
            if self._path.stat().st_ino == self._made:
                self._path.unlink()
        os.close(self._folder)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _listen(self) -> None:
        await self._loop.create_unix_server(
            lambda: _Outer(self), sock=self._listening, backlog=BACKLOG
        )

    def admit(self, outer: socket.socket) -> Caller | None:
        """The account at the other end; None where no more connections are taken."""
        size = _CREDENTIALS.size
        _, uid, gid = _CREDENTIALS.unpack(
            outer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        )
        caller = Caller(uid=uid, in_group=self._is_operator(outer, uid, gid))
        most = CONNECTIONS_MAX - (0 if caller.operator else KEPT_FOR_OPERATORS)
        if self._of_uid.total() >= most or self._of_uid[uid] >= CONNECTIONS_MAX_OF_ONE:
            log.warning(line("connection_refused", uid=uid, why="too many connections"))
            return None
        self._of_uid[uid] += 1
        return caller

    def _is_operator(self, outer: socket.socket, uid: int, gid: int) -> bool:
        """Whether the process at the other end is in the group of operators, by the kernel."""
        wanted = self._entrance.operators_gid
        if wanted is None or gid == wanted:
            return wanted is not None
        try:
            data = outer.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUPS_BYTES_MAX)
        except OSError as error:
            log.warning(line("groups_not_known", uid=uid, why=error, means="not an operator"))
            return False
        return wanted in {found for (found,) in _GID.iter_unpack(data)}

    def leave(self, caller: Caller) -> None:
        """A connection has ended."""
        self._of_uid[caller.uid] -= 1

    def connect(self, caller: Caller) -> socket.socket:
        """A connection to the server behind that says whose it is. Raises OSError."""
        self._number += 1
        inner = socket.socket(socket.AF_UNIX)
        try:
            inner.bind(own_end(caller.uid, self.key, self._number, caller.in_group))
            inner.setblocking(False)
            inner.connect(self.behind)
        except OSError:
            inner.close()
            raise
        return inner


def _bound(path: Path, entrance: Entrance) -> socket.socket:
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    try:
        listening.bind(str(path))
        # A service manager may forbid the call where it is not needed.
        if entrance.gid is not None and path.stat().st_gid != entrance.gid:
            os.chown(path, -1, entrance.gid)
        path.chmod(entrance.mode)
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(mask)
    return listening


class _End(asyncio.Protocol):
    """One end of a connection; what comes in goes out at the other, as fast as that takes it."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(HIGH_WATER_BYTES)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class _Inner(_End):
    """The server's end."""

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            # That callers go in the middle of an answer is ordinary; that the server does is not.
            log.warning(line("connection_cut", why=exc))
        super().connection_lost(exc)


class _Outer(_End):
    """The caller's end. Nothing of what it says is read before the other end is there."""

    def __init__(self, door: PeerDoor) -> None:
        super().__init__()
        self._door = door
        self._caller: Caller | None = None
        self._joining: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        self._caller = self._door.admit(transport.get_extra_info("socket"))
        if self._caller is None:
            self.transport.abort()
            return
        loop = asyncio.get_running_loop()
        # Not at once: asyncio of Python 3.11.2 begins to read after this call all the same.
        loop.call_soon(self.transport.pause_reading)
        self._joining = loop.create_task(self._join(self._caller))

    async def _join(self, caller: Caller) -> None:
        assert self.transport is not None
        inner = _Inner()
        # Before it is connected: the server speaks first, and nothing of that may be dropped.
        inner.other = self
        try:
            connection = self._door.connect(caller)
            await asyncio.get_running_loop().create_connection(lambda: inner, sock=connection)
        except OSError as error:
            log.warning(line("connection_refused", uid=caller.uid, why=error))
            self.transport.abort()
            return
        self.other = inner
        assert inner.transport is not None
        if self.transport.is_closing():
            inner.transport.close()
            return
        self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._caller is not None:
            self._door.leave(self._caller)
