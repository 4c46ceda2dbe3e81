"""The socket for the shims of one job: its peers, their masks and reports, and its limits.

A peer is identified by the kernel's credentials of its connection, never by its messages: its PID
must belong to the job. The peer's own ZeroMQ identity only routes. The event loop serves the socket
directly (no thread, no queue of futures) because a change of mask waits for it.

A job can use up only its own limits. Too many connections, at once or per second, are closed
(``shim_door.py``). While these belong to the job itself, it is confined to its masks, because not
all its processes can be asked. Too many messages stay in the job's own buffers, which stops the
sender. A message that is too large costs its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import zmq

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.shim_protocol import (
    HEADER_BYTES,
    FrameError,
    ShimFlags,
    ShimMessage,
    ShimMessageType,
)
from wattfold.contract.token_bucket import TokenBucket
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.shims.shim_door import CONNECTIONS_MAX, DoorPorts, ShimDoor
from wattfold.nodeagent.adapters.shims.shim_notice import NoticeFile
from wattfold.nodeagent.core.status_text import SelfReport, parse_status

TEXT_BYTES_MAX = 1024
"""Maximum text of a shim's message. Masks may be longer."""
_QUEUED_MAX = 16
_TURN = 64
_PAUSE_S = 0.02
NOTICE_S = 0.001
"""Time for a program with parallel regions to answer a notice before the mask is sent."""
_LOOKUP_COST = 16
"""Looking up a process takes about as long as this number of messages."""
_EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED
_EVENT = struct.Struct("=HI")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskOrder:
    """A mask as sent to a shim."""

    seq: int
    cpus: CpuSet
    team_must_follow: bool


@dataclass(slots=True, kw_only=True)
class Peer:
    """A process with a shim, and its last message."""

    identity: bytes
    pid: int
    pidfd: int
    acknowledged: int = 0
    last: ShimMessage | None = None
    said: SelfReport = field(default_factory=SelfReport)
    notice: NoticeFile | None = None
    reads_notices: bool = False
    unsent: MaskOrder | None = None
    """A mask that is in the notice but not yet sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketCallbacks:
    """Callbacks of a job's socket, by PID."""

    is_member: Callable[[int], bool]
    order_for: Callable[[int], MaskOrder | None]
    """The mask in force; called after a HELLO of a shim."""
    new_notice: Callable[[], NoticeFile]
    """Raises OSError if no notice can be created."""
    shut: Callable[[bool], None]
    """Makes the socket unreachable, or reachable again. Raises OSError."""


class ShimSocket:
    """The socket of one job. ``bind`` gets the socket's bind method and makes it reachable."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        job: JobId,
        uid: int,
        ports: SocketCallbacks,
        changed: Callable[[], None],
    ) -> None:
        self.job = job
        self.peers: dict[bytes, Peer] = {}
        self.door = ShimDoor(
            job, DoorPorts(is_member=ports.is_member, shut=ports.shut, changed=changed)
        )
        self.dropped = 0
        self.held_back = 0
        self._notices_fail = False
        self._ports = ports
        self._changed = changed
        self._messages = TokenBucket(rate_per_s=3200, burst=4096)
        self._greetings = TokenBucket(rate_per_s=1, burst=64)
        self._paused: asyncio.TimerHandle | None = None
        self._socket = context.socket(zmq.ROUTER)
        self._set_limits(uid)
        self._monitor = self._watched(context)

    def serve(self, bind: Callable[[Callable[[str], object]], None]) -> None:
        """Bind and serve. Raises OSError (of which ZMQError is a subclass)."""
        loop = asyncio.get_running_loop()
        try:
            bind(self._socket.bind)
        except BaseException:
            self._monitor.close()
            self._socket.close()
            raise
        loop.add_reader(int(self._socket.getsockopt(zmq.FD)), self._drain)
        loop.add_reader(int(self._monitor.getsockopt(zmq.FD)), self._count)
        self.door.path = self._socket.getsockopt_string(zmq.LAST_ENDPOINT).removeprefix("ipc://")
        # The descriptor reports nothing until a read has found the queue empty.
        self._count()

    def close(self) -> None:
        """Close the socket and forget all peers. Further calls do nothing."""
        if self._socket.closed:
            return
        loop = asyncio.get_running_loop()
        self.door.close()
        for peer in list(self.peers.values()):
            self._forget(peer)
        if self._paused is not None:
            self._paused.cancel()
        for socket in (self._socket, self._monitor):
            loop.remove_reader(int(socket.getsockopt(zmq.FD)))
        self._socket.disable_monitor()
        self._monitor.close()
        self._socket.close()

    def tell(self, peer: Peer, order: MaskOrder) -> None:
        """Send a mask. A program with parallel regions reads it from the notice first.

        The message would wake four threads while the team changes, on the cores that the team
        needs.
        """
        known = peer.notice is not None and order.team_must_follow
        if known and peer.reads_notices and peer.last is not None and peer.last.regions:
            self._write_notice(peer, order)
            peer.unsent = order
            asyncio.get_running_loop().call_later(NOTICE_S, self._send_late, peer, order)
        else:
            self.send(peer, order)

    def catch_up(self) -> None:
        """Read the messages that have arrived, within the limits of the job."""
        self._drain()

    def _send_late(self, peer: Peer, order: MaskOrder) -> None:
        if peer.unsent is order and self.peers.get(peer.identity) is peer:
            self.send(peer, order)

    def send(self, peer: Peer, order: MaskOrder) -> None:
        """Send a mask. A peer that is no longer connected is forgotten."""
        peer.unsent = None
        notice = self._write_notice(peer, order)
        message = ShimMessage(
            type=ShimMessageType.MASK,
            flags=ShimFlags.TEAM_FOLLOWS if order.team_must_follow else ShimFlags.NONE,
            seq=order.seq,
            cores=len(order.cpus),
            pid=os.getpid(),
            time_ns=time.monotonic_ns(),
            notice=notice,
            text=str(order.cpus),
        )
        try:
            self._socket.send_multipart([peer.identity, message.pack()], zmq.NOBLOCK)
        except zmq.Again:
            logs.warning("shim_not_reading", job=self.job, pid=peer.pid)
        except zmq.ZMQError:
            self._forget(peer)
        # Sending may consume the edge of the descriptor.
        asyncio.get_running_loop().call_soon(self._drain)

    def _write_notice(self, peer: Peer, order: MaskOrder) -> int:
        """Write a mask to the notice of a peer. Returns its number; 0 = no notice."""
        if not order.team_must_follow:
            if peer.notice is not None:
                peer.notice.write(0, order.seq)
            return 0
        if peer.notice is None and not self._notices_fail:
            try:
                peer.notice = self._ports.new_notice()
            except OSError as error:
                self._notices_fail = True
                logs.info("shim_notices_disabled", job=self.job, reason=str(error))
        if peer.notice is None:
            return 0
        peer.notice.write(len(order.cpus), order.seq)
        return peer.notice.number

    def _set_limits(self, uid: int) -> None:
        options = {
            zmq.LINGER: 0,
            zmq.MAXMSGSIZE: HEADER_BYTES + TEXT_BYTES_MAX,
            zmq.ROUTER_MANDATORY: 1,
            zmq.SNDHWM: _QUEUED_MAX,
            zmq.RCVHWM: _QUEUED_MAX,
            zmq.BACKLOG: 64,
            # Close connections that never send their protocol version.
            zmq.HANDSHAKE_IVL: 5000,
        }
        for option, value in options.items():
            self._socket.setsockopt(option, value)
        # In a library without this filter, the mode of the socket keeps others out.
        with contextlib.suppress(zmq.ZMQError):
            self._socket.setsockopt(zmq.IPC_FILTER_UID, uid)

    def _watched(self, context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
        address = f"inproc://monitor-{self.job}-{id(self)}"
        self._socket.monitor(address, _EVENTS)
        monitor = context.socket(zmq.PAIR)
        monitor.setsockopt(zmq.LINGER, 0)
        # Without room for an event, ZeroMQ's own thread would wait, and all jobs with it.
        monitor.setsockopt(zmq.RCVHWM, 0)
        monitor.connect(address)
        return monitor

    def _count(self) -> None:
        """Count connections. The descriptor is edge-triggered: read until empty."""
        for _ in range(_TURN):
            if self._monitor.closed:
                return
            try:
                frames = self._monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            event, connection = _EVENT.unpack_from(frames[0])
            if event == zmq.EVENT_DISCONNECTED:
                self.door.disconnected(connection)
            else:
                self.door.accepted(connection)
        # Other tasks come first.
        asyncio.get_running_loop().call_soon(self._count)

    def _drain(self) -> None:
        """Read messages. The descriptor is edge-triggered: read until empty."""
        if self._socket.closed or self._paused is not None:
            return
        now_ns = time.monotonic_ns()
        for _ in range(_TURN):
            if not self._messages.take(now_ns):
                self._pause()
                return
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            try:
                self._take(frames)
            except Exception as error:  # noqa: BLE001 - a bad message harms only itself
                self.dropped += 1
                logs.warning("shim_message_failed", job=self.job, error=repr(error))
            if self._socket.closed:
                return
        # Other tasks come first.
        asyncio.get_running_loop().call_soon(self._drain)

    def _pause(self) -> None:
        if not self.held_back:
            logs.warning(
                "shim_messages_flooded", job=self.job, most_per_s=self._messages.rate_per_s
            )
        self.held_back += 1
        self._paused = asyncio.get_running_loop().call_later(_PAUSE_S, self._go_on)

    def _go_on(self) -> None:
        self._paused = None
        self._drain()

    def _take(self, frames: list[zmq.Frame]) -> None:
        message = _message(frames)
        pid = _peer_pid(frames[-1])
        if message is None or pid is None:
            self.dropped += 1
            return
        peer = self.peers.get(frames[0].bytes)
        if peer is None or peer.pid != pid:
            peer = self._attach(frames[0].bytes, pid)
        if peer is None:
            self.dropped += 1
            return
        self._handle(peer, message)

    def _handle(self, peer: Peer, message: ShimMessage) -> None:
        if message.type is ShimMessageType.HELLO:
            if self._greetings.take(time.monotonic_ns()):
                logs.info("shim_attached", job=self.job, pid=peer.pid, runtime=message.text[:64])
            self._messages.charge(_LOOKUP_COST)
            peer.reads_notices = ShimFlags.READS_NOTICES in message.flags
            order = self._ports.order_for(peer.pid)
            if order is not None:
                self.send(peer, order)
        elif message.type is ShimMessageType.ACK:
            peer.acknowledged = max(peer.acknowledged, message.seq)
            if peer.unsent is not None and message.seq >= peer.unsent.seq:
                self.send(peer, peer.unsent)
            # An acknowledgement reports the team size, but may lack the counters.
            if peer.last is None or message.regions >= peer.last.regions:
                peer.last = message
            else:
                peer.last = replace(peer.last, cores=message.cores)
            self._changed()
        elif message.type is ShimMessageType.STATUS:
            peer.last, peer.said = message, parse_status(message.text)
        elif message.type is ShimMessageType.BYE:
            self._forget(peer)

    def _attach(self, identity: bytes, pid: int) -> Peer | None:
        try:
            # Opened before the lookup, so that the watched process is the process looked up.
            pidfd = os.pidfd_open(pid)
        except OSError:
            return None
        if len(self.peers) >= CONNECTIONS_MAX or not self._ports.is_member(pid):
            os.close(pidfd)
            self._messages.charge(_LOOKUP_COST)
            if self._greetings.take(time.monotonic_ns()):
                logs.warning("shim_unknown", job=self.job, pid=pid)
            return None
        for old in [p for p in self.peers.values() if p.pid == pid or p.identity == identity]:
            # The process has executed another program, or has taken the identity of a disconnected
            # peer. The old connection is obsolete.
            self._forget(old)
        peer = Peer(identity=identity, pid=pid, pidfd=pidfd)
        self.peers[identity] = peer
        asyncio.get_running_loop().add_reader(pidfd, self._forget, peer)
        return peer

    def _forget(self, peer: Peer) -> None:
        if self.peers.get(peer.identity) is not peer:
            return
        del self.peers[peer.identity]
        asyncio.get_running_loop().remove_reader(peer.pidfd)
        os.close(peer.pidfd)
        if peer.notice is not None:
            peer.notice.close()
        self._changed()


def _message(frames: list[zmq.Frame]) -> ShimMessage | None:
    try:
        return ShimMessage.unpack(frames[1].bytes) if len(frames) == 2 else None
    except FrameError:
        return None


def _peer_pid(frame: zmq.Frame) -> int | None:
    try:
        address = str(frame.get("Peer-Address"))
        return int(address.rpartition(":")[2])
    except (zmq.ZMQError, ValueError):
        return None
