"""Limits on the connections to the socket of a job: their number, rate and owners.

ZeroMQ accepts every connection that the kernel permits, and the kernel distinguishes accounts, not
jobs. With few connections, no process is examined. Too many connections, at once or per second, are
a *flood*. The socket is then unreachable for short times (its name is removed; existing connections
stay). Processes of other jobs are disconnected, and the processes of this job have a separate
limit. The flood ends when no process was disconnected for some time. A program that is refused
meanwhile follows the file next to the socket, and retries.
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
from wattfold.contract.token_bucket import TokenBucket
from wattfold.nodeagent import logs

CONNECTIONS_MAX = 512
RATE_PER_S = 100
PAUSE_S_MIN, PAUSE_S_MAX = 0.1, 0.4
"""Pause before the socket is reachable again. It grows during a flood.

Each time the socket is reachable, the connections in its queue get in.
"""
QUIET_S = 3.0
"""The flood is over after this time without a disconnected process."""
_CREDENTIALS = struct.Struct("=iII")


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorPorts:
    """Callbacks of the limits of a job."""

    is_member: Callable[[int], bool]
    """Whether a process belongs to the job."""
    shut: Callable[[bool], None]
    """Makes the socket unreachable, or reachable again. Raises OSError."""
    changed: Callable[[], None]
    """Called when members are refused, or no longer refused."""


class ShimDoor:
    """Connection limits of one job. Connections are identified by descriptors of this process."""

    def __init__(self, job: JobId, ports: DoorPorts) -> None:
        self.overrun = ""
        """Why processes of the job itself may be refused; empty = they are not."""
        self.flood = ""
        """The exceeded limit; empty = none."""
        self.path = ""
        """The path of the socket, which distinguishes its connections from other descriptors."""
        self.sent_away = 0
        self._job = job
        self._ports = ports
        self._all = TokenBucket(rate_per_s=RATE_PER_S, burst=2 * CONNECTIONS_MAX)
        self._members = TokenBucket(rate_per_s=RATE_PER_S, burst=2 * CONNECTIONS_MAX)
        self._open: set[int] = set()
        self._quiet_from_ns = 0
        self._turn_due: asyncio.TimerHandle | None = None
        self._pause_s = PAUSE_S_MIN
        self._known: dict[int, bool] = {}
        """Processes looked up since the last turn. A flood comes from few processes."""

    def accepted(self, connection: int) -> None:
        """Count a new connection."""
        self._open.add(connection)
        if not self._all.take(time.monotonic_ns()):
            self._press(f"more than {RATE_PER_S} connections per second")
        elif len(self._open) > CONNECTIONS_MAX:
            self._press(f"more than {CONNECTIONS_MAX} connections")
        if self.flood:
            self._judge(connection)

    def disconnected(self, connection: int) -> None:
        """Count the end of a connection."""
        self._open.discard(connection)

    def close(self) -> None:
        """Cancel the pending turn."""
        if self._turn_due is not None:
            self._turn_due.cancel()

    def _press(self, why: str) -> None:
        self._quiet_from_ns = time.monotonic_ns()
        self._shut(shut=True)
        if self.flood:
            return
        self.flood = why
        logs.warning("shim_connections_flooded", job=self._job, reason=why)
        for connection in list(self._open):
            self._judge(connection, held=True)
        self._wait()

    def _judge(self, connection: int, *, held: bool = False) -> None:
        """Keep a connection or end it. ``held``: it existed before the flood."""
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
        # ZeroMQ will notice the end and close the connection. It stops counting now.
        self._open.discard(connection)
        try:
            found.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it has already ended

    def _keep_out(self, why: str) -> None:
        if not self.overrun:
            logs.warning("shim_connections_refused", job=self._job, reason=why)
            self.overrun = why
            self._ports.changed()

    def _wait(self) -> None:
        self._turn_due = asyncio.get_running_loop().call_later(self._pause_s, self._turn)

    def _turn(self) -> None:
        """Let some processes in again, and check whether the flood is over."""
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
            logs.warning("shim_listener_unchanged", job=self._job, reason=error)


def _connection(descriptor: int, path: str) -> socket.socket | None:
    """Return a copy of a descriptor if it is a connection to this socket.

    The number may belong to another file by now, but the copy cannot change.
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
