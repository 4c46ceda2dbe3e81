"""Limit on the connections to the agent from one address.

gRPC accepts connections itself and limits only their total (`CONNECTIONS_MAX`). Every host that
reaches the port may hold some, with or without the token. So that one address cannot hold all of
them, the newest connections beyond its limit are closed; the coordinator's connection is older. The
check runs at intervals, and only if the process has many descriptors. Over a unix socket only root
and the agent's account can connect.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections import defaultdict
from dataclasses import dataclass

from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.beat import next_beat

CONNECTIONS_MAX = 1024
CONNECTIONS_MAX_OF_ONE = 64
"""Per address. A coordinator has one connection, a restarted coordinator two for some seconds."""
DESCRIPTORS_MIN = 256
"""With fewer descriptors there is no check: an agent with many jobs has about as many."""
LOOK_S = 0.5
TELL_S = 10.0


@dataclass(frozen=True, slots=True)
class _Connection:
    """A connection. The kernel numbers socket inodes upwards: the newest has the highest."""

    inode: int
    descriptor: int
    device: int


class ConnectionLimit:
    """The limit for one listening address, HOST:PORT."""

    def __init__(self, address: str) -> None:
        self._port = int(address.rpartition(":")[2])
        self._closed = 0
        self._told_s = -TELL_S

    async def look_for_ever(self) -> None:
        """Check until cancelled."""
        while True:
            await next_beat(LOOK_S)
            self.look()

    def look(self) -> int:
        """Close the surplus connections of each address. Returns the number closed."""
        descriptors = os.listdir("/proc/self/fd")
        if len(descriptors) <= DESCRIPTORS_MIN:
            return 0
        found: defaultdict[str, list[_Connection]] = defaultdict(list)
        for descriptor in map(int, descriptors):
            self._sort_in(descriptor, found)
        closed = 0
        for host, connections in found.items():
            surplus = sorted(connections, key=lambda one: one.inode)[CONNECTIONS_MAX_OF_ONE:]
            closed += sum(_shut(connection) for connection in surplus)
            self._tell(host, len(surplus))
        return closed

    def _sort_in(self, descriptor: int, found: defaultdict[str, list[_Connection]]) -> None:
        copy = _socket_of(descriptor)
        if copy is None:
            return
        with copy:
            try:
                if copy.getsockname()[1] == self._port:
                    info = os.fstat(copy.fileno())
                    connection = _Connection(info.st_ino, descriptor, info.st_dev)
                    found[copy.getpeername()[0]].append(connection)
            except OSError:
                return  # It is a listening socket, or it has lost its peer.

    def _tell(self, host: str, surplus: int) -> None:
        now_s = asyncio.get_running_loop().time() if surplus else 0.0
        self._closed += surplus
        if surplus and now_s >= self._told_s + TELL_S:
            logs.warning(
                "connections_closed",
                address=host,
                closed=self._closed,
                reason=f"more than {CONNECTIONS_MAX_OF_ONE} connections of one address",
            )
            self._told_s, self._closed = now_s, 0


def _socket_of(descriptor: int) -> socket.socket | None:
    """Return a copy of a TCP socket's descriptor; None if the number has another file now."""
    try:
        copy = os.dup(descriptor)
    except OSError:
        return None
    if not stat.S_ISSOCK(os.fstat(copy).st_mode):
        os.close(copy)
        return None
    found = socket.socket(fileno=copy)
    if found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM:
        return found
    found.close()
    return None


def _shut(connection: _Connection) -> bool:
    """End a connection. gRPC owns the descriptor and closes it after that."""
    copy = _socket_of(connection.descriptor)
    if copy is None:
        return False
    with copy:
        info = os.fstat(copy.fileno())
        if (info.st_ino, info.st_dev) != (connection.inode, connection.device):
            return False
        try:
            copy.shutdown(socket.SHUT_RDWR)
        except OSError:
            return False  # The connection has already ended.
    return True
