"""Who connects to the socket of a job, how often, and what is done when it is too much.

ZeroMQ accepts whoever the kernel lets through, and the kernel tells accounts apart, not jobs. As
long as there are few, nobody is looked at. Where there are more connections than a job may have,
at once or a second, it is a *flood*: the socket is then out of reach for moments (its name goes;
who is connected stays so), processes that are not of the job are sent away, and those of the job
have a limit of their own. It ends when nobody was sent away for a while.

A program that is kept out meanwhile obeys what is written down beside the socket, and tries again.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from wattfold.contract.ids import JobId
from wattfold.nodeagent import logs
from wattfold.nodeagent.core.budget import Budget

CONNECTIONS_MAX = 512
RATE_PER_S = 100
PAUSE_S_MIN, PAUSE_S_MAX = 0.1, 0.4
"""Between two times it is put back, longer as the flood lasts: each lets a queue of them in."""
QUIET_S = 3.0
"""Without anybody sent away: the flood is over."""
_CREDENTIALS = struct.Struct("=iII")


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorPorts:
    """What the door of a job asks, and moves."""

    is_member: Callable[[int], bool]
    """Whether a process is of the job."""
    shut: Callable[[bool], None]
    """Takes the socket out of reach, or puts it back. Raises OSError."""
    changed: Callable[[], None]
    """Called when members are kept out, or not any more."""


class ShimDoor:
    """One job's. Connections are known by their descriptors in this process."""

    def __init__(self, job: JobId, ports: DoorPorts) -> None:
        self.overrun = ""
        """Why processes of the job itself may be kept out; empty = they are not."""
        self.flood = ""
        """What there is too much of; empty = nothing."""
        self.path = ""
        """The name of the socket, by which its connections are told from other descriptors."""
        self.sent_away = 0
        self._job = job
        self._ports = ports
        self._all = Budget(rate_per_s=RATE_PER_S, burst=2 * CONNECTIONS_MAX)
        self._members = Budget(rate_per_s=RATE_PER_S, burst=2 * CONNECTIONS_MAX)
        self._open: set[int] = set()
        self._quiet_from_ns = 0
        self._turn_due: asyncio.TimerHandle | None = None
        self._pause_s = PAUSE_S_MIN
        self._known: dict[int, bool] = {}
        """Processes looked up since the last turn; a flood comes from few."""

    def accepted(self, connection: int) -> None:
        """There is one more."""
        self._open.add(connection)
        if not self._all.take(time.monotonic_ns()):
            self._press(f"more than {RATE_PER_S} connections per second")
        elif len(self._open) > CONNECTIONS_MAX:
            self._press(f"more than {CONNECTIONS_MAX} connections")
        if self.flood:
            self._judge(connection)

    def disconnected(self, connection: int) -> None:
        """There is one less."""
        self._open.discard(connection)

    def close(self) -> None:
        """Does nothing any more."""
        if self._turn_due is not None:
            self._turn_due.cancel()

    def _press(self, why: str) -> None:
        self._quiet_from_ns = time.monotonic_ns()
        self._shut(shut=True)
        if self.flood:
            return
        self.flood = why
        logs.warning("shim_connections_flooded", job=self._job, why=why)
        for connection in list(self._open):
            self._judge(connection, held=True)
        self._wait()

    def _judge(self, connection: int, *, held: bool = False) -> None:
        """Lets a connection be, or ends it. ``held``: it was there before the flood."""
        found = _connection(connection, self.path)
        if found is None:
            return
        with found:
            if not self._is_member(_pid_of(found)):
                self._send_away(connection, found)
            elif held:
                return
            elif not self._members.take(time.monotonic_ns()):
                self._keep_out(
                    f"more than {RATE_PER_S} connections per second from its own processes"
                )
                self._send_away(connection, found)
            elif len(self._open) > CONNECTIONS_MAX:
                self._keep_out(f"more than {CONNECTIONS_MAX} connections from its own processes")
                self._send_away(connection, found)

    def _is_member(self, pid: int) -> bool:
        if pid not in self._known:
            self._known[pid] = self._ports.is_member(pid)
        return self._known[pid]

    def _send_away(self, connection: int, found: socket.socket) -> None:
        self.sent_away += 1
        self._quiet_from_ns = time.monotonic_ns()
        # ZeroMQ hears the end of it, and closes it: not its word for it yet, but it will not count.
        self._open.discard(connection)
        try:
            found.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it has gone by itself

    def _keep_out(self, why: str) -> None:
        if not self.overrun:
            logs.warning("shim_connections_refused", job=self._job, why=why)
            self.overrun = why
            self._ports.changed()

    def _wait(self) -> None:
        self._turn_due = asyncio.get_running_loop().call_later(self._pause_s, self._turn)

    def _turn(self) -> None:
        """Lets some in again, and looks whether it is over."""
        self._known.clear()
        self._shut(shut=False)
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
        if time.monotonic_ns() - self._quiet_from_ns < QUIET_S * 1e9:
            self._wait()
            return
        logs.info("shim_connections_recovered", job=self._job, sent_away=self.sent_away)
        self.flood = self.overrun = ""
        self._turn_due, self._pause_s = None, PAUSE_S_MIN
        self._ports.changed()

    def _shut(self, *, shut: bool) -> None:
        try:
            self._ports.shut(shut)
        except OSError as error:
            logs.warning("shim_listener_unchanged", job=self._job, why=error)


def _connection(descriptor: int, path: str) -> socket.socket | None:
    """A copy of a descriptor, if it is a connection to this socket.

    Its number may be that of something else by now: the copy cannot change any more.
    """
    try:
        copy = os.dup(descriptor)
    except OSError:
        return None
    try:
        found = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return None
    if found.family == socket.AF_UNIX and found.getsockname() == path:
        return found
    found.close()
    return None


def _pid_of(found: socket.socket) -> int:
    credentials = found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid: int = _CREDENTIALS.unpack(credentials)[0]
    return pid
