"""The public unix sockets: identify the account of each connection and forward its bytes.

There are two sockets. Connections wait for the coordinator in a queue of the socket, and an account
that connects in a loop fills this queue. So operators have a separate socket, which no other
account can open.

gRPC does not report the account behind a connection. So it listens on an inner socket, in a folder
that only the coordinator's account can enter. For each outer connection this module reads the
account from the kernel, opens an inner connection from an address that contains the account, and
copies bytes both ways. It runs on a thread with a separate event loop, so that large answers do not
delay the core.
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
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.door.door_limits import Caller, DoorLimits
from wattfold.coordinator.adapters.door.peers import operators_path, own_end
from wattfold.coordinator.adapters.log_throttle import LogThrottle

log = logging.getLogger(__name__)

BACKLOG = 1024
ACCEPTS_AT_ONCE = 64
"""Maximum number of accepts from one socket before the other socket and connections get a turn."""
ACCEPT_PAUSE_S = 0.2
"""Pause after an accept that failed for lack of descriptors or memory."""
HIGH_WATER_BYTES = 256 * 1024
START_S = 10.0
_CREDENTIALS = struct.Struct("3i")
_SO_PEERGROUPS = getattr(socket, "SO_PEERGROUPS", 59)
_GROUPS_BYTES_MAX = 1024
"""Maximum that Python reads of a socket option: 256 groups."""
_GID = struct.Struct("I")
_ACL_ATTRIBUTE, _ACL_VERSION = "system.posix_acl_access", 2
_ACL_USER_OBJ, _ACL_GROUP_OBJ, _ACL_GROUP, _ACL_MASK, _ACL_OTHER = 0x01, 0x04, 0x08, 0x10, 0x20
_ACL_READ_WRITE, _ACL_NO_ID = 6, 0xFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """Mode and group of the socket, and the group whose members are operators."""

    mode: int = 0o600
    gid: int | None = None
    operators_gid: int | None = None


@dataclass(frozen=True, slots=True)
class _Listener:
    """A listening socket for callers. ``made`` is the inode of its file."""

    path: Path
    socket: socket.socket
    made: int
    operators_only: bool = False


class PeerDoor:
    """Listening sockets that forward connections, with the account's name, to an inner socket."""

    def __init__(
        self,
        path: Path,
        behind: Path,
        entrance: Entrance = Entrance(),
    ) -> None:
        """Bind ``path``, replacing an existing file. ``behind`` is the socket of the server.

        Raises OSError.
        """
        self.key = secrets.token_hex(8)
        self._entrance = entrance
        self._listeners = [_listener(path, entrance)]
        if (operators := _operators_listener(path, entrance)) is not None:
            self._listeners.append(operators)
        self._folder = os.open(behind.parent, os.O_PATH | os.O_DIRECTORY)
        # The folder's descriptor keeps the path short: socket addresses are limited to 108 bytes.
        self.behind = f"/proc/self/fd/{self._folder}/{behind.name}"
        self._limits = DoorLimits()
        self.throttle = LogThrottle(log.warning)
        self._taking: set[asyncio.Task[None]] = set()
        self._number = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="peer-door", daemon=True)

    def open(self) -> None:
        """Begin to accept callers. The inner server must already listen."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(START_S)

    def close(self) -> None:
        """End all connections and the thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(START_S)
        for listener in self._listeners:
            listener.socket.close()
            with contextlib.suppress(OSError):
                if listener.path.stat().st_ino == listener.made:
                    listener.path.unlink()
        os.close(self._folder)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        for listener in self._listeners:
            self._loop.remove_reader(listener.socket)
        # A connection that was just accepted may start another task.
        while tasks := asyncio.all_tasks(self._loop):
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _listen(self) -> None:
        for listener in self._listeners:
            listener.socket.setblocking(False)
            listener.socket.listen(BACKLOG)
            self._accept_from(listener)

    def _accept_from(self, listener: _Listener) -> None:
        self._loop.add_reader(listener.socket, self._accept, listener)

    def _accept(self, listener: _Listener) -> None:
        """Accept callers, or close their connections before anything is created for them."""
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                outer, _ = listener.socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self.throttle.tell("accept_failed", socket=listener.path, why=error)
                self._loop.remove_reader(listener.socket)
                self._loop.call_later(ACCEPT_PAUSE_S, self._accept_from, listener)
                return
            caller = self._admit(outer, listener)
            if caller is None:
                outer.close()
                continue
            taking = self._loop.create_task(self._take(outer, caller))
            self._taking.add(taking)
            taking.add_done_callback(self._taking.discard)

    async def _take(self, outer: socket.socket, caller: Caller) -> None:
        outer.setblocking(False)
        await self._loop.connect_accepted_socket(lambda: _Outer(self, caller), outer)

    def _admit(self, outer: socket.socket, listener: _Listener) -> Caller | None:
        """Return the account at the other end; None if its connection is refused."""
        size = _CREDENTIALS.size
        _, uid, gid = _CREDENTIALS.unpack(
            outer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        )
        caller = Caller(uid=uid, in_group=self._is_operator(outer, uid, gid))
        if listener.operators_only and not caller.operator:
            why = "not an operator"
        else:
            why = self._limits.refusal(caller)
        if why:
            self.throttle.tell("connection_refused", uid=uid, why=why)
            return None
        return caller

    def _is_operator(self, outer: socket.socket, uid: int, gid: int) -> bool:
        """Whether the process at the other end is in the operators' group, by the kernel."""
        wanted = self._entrance.operators_gid
        if wanted is None or gid == wanted:
            return wanted is not None
        try:
            data = outer.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUPS_BYTES_MAX)
        except OSError as error:
            means = "not an operator"
            self.throttle.tell("groups_not_known", uid=uid, why=error, means=means)
            return False
        return wanted in {found for (found,) in _GID.iter_unpack(data)}

    def leave(self, caller: Caller) -> None:
        """Record the end of a connection."""
        self._limits.leave(caller)

    def connect(self, caller: Caller) -> socket.socket:
        """Open a connection to the inner server, bound to the caller's account. Raises OSError."""
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


def _listener(path: Path, entrance: Entrance) -> _Listener:
    path.unlink(missing_ok=True)
    listening = _bound(path)
    try:
        # A service manager may forbid the call even if it would change nothing.
        if entrance.gid is not None and path.stat().st_gid != entrance.gid:
            os.chown(path, -1, entrance.gid)
        path.chmod(entrance.mode)
    except OSError:
        listening.close()
        raise
    return _Listener(path, listening, path.stat().st_ino)


def _operators_listener(path: Path, entrance: Entrance) -> _Listener | None:
    """Return the operators' socket; None if only the coordinator can open the common socket."""
    own = Path(operators_path(str(path)))
    try:
        own.unlink(missing_ok=True)
        if entrance.mode == Entrance().mode:
            return None
        listening = _bound(own)
    except OSError as error:
        # Operators can still use the common socket, where they only lack a separate queue.
        log.warning(line("operators_socket_missing", socket=own, reason=error))
        return None
    if entrance.operators_gid is not None:
        try:
            os.setxattr(own, _ACL_ATTRIBUTE, _acl_of_group(entrance.operators_gid))
        except OSError as error:
            means = "members of the group of operators use the common socket"
            log.warning(line("operators_socket_private", socket=own, reason=error, means=means))
    return _Listener(own, listening, own.stat().st_ino, operators_only=True)


def _bound(path: Path) -> socket.socket:
    """Return a socket that only its own account and root can open. Raises OSError."""
    bound = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    try:
        bound.bind(str(path))
    except OSError:
        bound.close()
        raise
    finally:
        os.umask(mask)
    return bound


def _acl_of_group(gid: int) -> bytes:
    """Return the ACL with read and write for the owner and one group (Linux, posix_acl_xattr.h).

    An ACL is used because only CAP_CHOWN may give a file to a group of other users.
    """
    entries = (
        (_ACL_USER_OBJ, _ACL_READ_WRITE, _ACL_NO_ID),
        (_ACL_GROUP_OBJ, 0, _ACL_NO_ID),
        (_ACL_GROUP, _ACL_READ_WRITE, gid),
        (_ACL_MASK, _ACL_READ_WRITE, _ACL_NO_ID),
        (_ACL_OTHER, 0, _ACL_NO_ID),
    )
    return struct.pack("<I", _ACL_VERSION) + b"".join(struct.pack("<HHI", *e) for e in entries)


class _End(asyncio.Protocol):
    """One end of a connection. Its input goes to the other end, at the speed of that end."""

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

    def __init__(self, throttle: LogThrottle) -> None:
        super().__init__()
        self._throttle = throttle

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            # Callers may disconnect in the middle of an answer; the server may not.
            self._throttle.tell("connection_cut", why=exc)
        super().connection_lost(exc)


class _Outer(_End):
    """The caller's end. Its input is not read until the inner end is connected."""

    def __init__(self, door: PeerDoor, caller: Caller) -> None:
        super().__init__()
        self._door = door
        self._caller = caller
        self._joining: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        loop = asyncio.get_running_loop()
        # Not immediately: asyncio of Python 3.11.2 begins to read after this call regardless.
        loop.call_soon(self.transport.pause_reading)
        self._joining = loop.create_task(self._join(self._caller))

    async def _join(self, caller: Caller) -> None:
        assert self.transport is not None
        inner = _Inner(self._door.throttle)
        # Set before connecting: the server sends first, and none of that may be lost.
        inner.other = self
        try:
            connection = self._door.connect(caller)
            await asyncio.get_running_loop().create_connection(lambda: inner, sock=connection)
        except OSError as error:
            self._door.throttle.tell("connection_refused", uid=caller.uid, why=error)
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
        self._door.leave(self._caller)
