"""The socket the shims of local jobs connect to.

A peer is identified by the credentials the kernel gives with its connection, never by what it says:
its pid is looked up in the process trees of the jobs. The peer's own ZeroMQ identity only routes.
The socket is served straight from the event loop (no thread, no queue of futures) because a change
of mask waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import zmq

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.shim_protocol import (
    HEADER_BYTES,
    TEXT_BYTES_MAX,
    FrameError,
    ShimFlags,
    ShimMessage,
    ShimMessageType,
)
from wattfold.nodeagent import logs

PEERS_MAX = 4096
_BATCH_MAX = 256
UNIX_PATH_MAX = 107


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskOrder:
    """A mask as the shims are told it."""

    seq: int
    cpus: CpuSet
    team_must_follow: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimView:
    """What the shims of a job have reported last."""

    attached: bool = False
    regions: int = 0
    done: float = 0.0
    total: float = 0.0
    team_size: int = 0


@dataclass(slots=True, kw_only=True)
class _Peer:
    identity: bytes
    pid: int
    pidfd: int
    job: JobId
    acknowledged: int = 0
    last: ShimMessage | None = None


@dataclass(slots=True, kw_only=True)
class _Waiter:
    job: JobId
    seq: int
    done: asyncio.Future[None]


class ShimServer:
    """Peers, their masks and their reports."""

    def __init__(
        self,
        path: Path,
        find_job: Callable[[int], JobId | None],
        mask_of: Callable[[JobId], MaskOrder | None],
    ) -> None:
        if len(str(path)) > UNIX_PATH_MAX:
            raise OSError(f"{path}: longer than {UNIX_PATH_MAX} bytes, the limit of a unix socket")
        self.path = path
        self.endpoint = f"ipc://{path}"
        self.dropped = 0
        self._find_job = find_job
        self._mask_of = mask_of
        self._peers: dict[bytes, _Peer] = {}
        self._waiters: list[_Waiter] = []
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, HEADER_BYTES + TEXT_BYTES_MAX)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.SNDHWM, 64)

    def start(self, *, open_to_all: bool) -> None:
        """Binds the socket. ``open_to_all``: jobs run as other accounts than the agent."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        self._socket.bind(self.endpoint)
        self.path.chmod(0o666 if open_to_all else 0o600)
        fd = int(self._socket.getsockopt(zmq.FD))
        asyncio.get_running_loop().add_reader(fd, self._drain)

    def close(self) -> None:
        """Closes the socket and forgets all peers."""
        asyncio.get_running_loop().remove_reader(int(self._socket.getsockopt(zmq.FD)))
        for peer in list(self._peers.values()):
            self._forget(peer)
        self._socket.close()
        self._context.term()
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()

    def attached(self, job: JobId) -> bool:
        """Whether a shim of the job is connected."""
        return any(peer.job == job for peer in self._peers.values())

    def view(self, job: JobId) -> ShimView:
        """The last reports of the job's shims: regions added up, the rest of the busiest one."""
        last = [p.last for p in self._peers.values() if p.job == job and p.last is not None]
        if not last:
            return ShimView(attached=self.attached(job))
        main = max(last, key=lambda m: (m.total > 0, m.regions, m.cores))
        return ShimView(
            attached=True,
            regions=sum(message.regions for message in last),
            done=main.done,
            total=main.total,
            team_size=main.cores,
        )

    async def tell(self, job: JobId, order: MaskOrder, deadline_s: float) -> bool:
        """Sends a mask to all shims of a job; True if all acknowledged it in time."""
        for peer in [p for p in self._peers.values() if p.job == job]:
            self._send(peer, order)
        waiter = _Waiter(job=job, seq=order.seq, done=asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        try:
            self._settle()
            async with asyncio.timeout(deadline_s):
                await waiter.done
        except TimeoutError:
            return False
        finally:
            self._waiters.remove(waiter)
        return True

    def acknowledged(self, job: JobId, seq: int) -> bool:
        """Whether all shims of the job have acknowledged this mask or a later one."""
        return all(p.acknowledged >= seq for p in self._peers.values() if p.job == job)

    def _drain(self) -> None:
        """Takes what has arrived. The descriptor is edge-triggered: read until empty."""
        for _ in range(_BATCH_MAX):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            try:
                self._take(frames)
            except Exception as error:  # noqa: BLE001 - a bad message harms only itself
                self.dropped += 1
                logs.warning("shim_message_failed", error=repr(error))
        asyncio.get_running_loop().call_soon(self._drain)

    def _take(self, frames: list[zmq.Frame]) -> None:
        message = _message(frames)
        pid = _peer_pid(frames[-1])
        if message is None or pid is None:
            self.dropped += 1
            return
        peer = self._peers.get(frames[0].bytes)
        if peer is None or peer.pid != pid:
            peer = self._attach(frames[0].bytes, pid)
        if peer is None:
            self.dropped += 1
            return
        self._handle(peer, message)

    def _handle(self, peer: _Peer, message: ShimMessage) -> None:
        if message.type is ShimMessageType.HELLO:
            logs.info("shim_attached", job=peer.job, pid=peer.pid, runtime=message.text)
            order = self._mask_of(peer.job)
            if order is not None:
                self._send(peer, order)
        elif message.type is ShimMessageType.ACK:
            peer.acknowledged = max(peer.acknowledged, message.seq)
            # An acknowledgement tells the team size; its counters may be left out.
            if peer.last is None or message.regions >= peer.last.regions:
                peer.last = message
            else:
                peer.last = replace(peer.last, cores=message.cores)
            self._settle()
        elif message.type is ShimMessageType.STATUS:
            peer.last = message
        elif message.type is ShimMessageType.BYE:
            self._forget(peer)

    def _attach(self, identity: bytes, pid: int) -> _Peer | None:
        if len(self._peers) >= PEERS_MAX:
            return None
        try:
            # Opened before the lookup: the process that is looked up is the one that is watched.
            pidfd = os.pidfd_open(pid)
        except OSError:
            return None
        job = self._find_job(pid)
        if job is None:
            os.close(pidfd)
            logs.warning("shim_unknown", pid=pid)
            return None
        for old in [p for p in self._peers.values() if p.pid == pid]:
            # The process has executed another program: its old connection is gone.
            self._forget(old)
        peer = _Peer(identity=identity, pid=pid, pidfd=pidfd, job=job)
        self._peers[identity] = peer
        asyncio.get_running_loop().add_reader(pidfd, self._forget, peer)
        return peer

    def _forget(self, peer: _Peer) -> None:
        if self._peers.get(peer.identity) is not peer:
            return
        del self._peers[peer.identity]
        asyncio.get_running_loop().remove_reader(peer.pidfd)
        os.close(peer.pidfd)
        self._settle()

    def _send(self, peer: _Peer, order: MaskOrder) -> None:
        message = ShimMessage(
            type=ShimMessageType.MASK,
            flags=ShimFlags.TEAM_FOLLOWS if order.team_must_follow else ShimFlags.NONE,
            seq=order.seq,
            cores=len(order.cpus),
            pid=os.getpid(),
            time_ns=time.monotonic_ns(),
            text=str(order.cpus),
        )
        try:
            self._socket.send_multipart([peer.identity, message.pack()], zmq.NOBLOCK)
        except zmq.Again:
            logs.warning("shim_does_not_read", job=peer.job, pid=peer.pid)
        except zmq.ZMQError:
            self._forget(peer)
        # Sending may swallow the edge of the descriptor.
        asyncio.get_running_loop().call_soon(self._drain)

    def _settle(self) -> None:
        for waiter in self._waiters:
            if not waiter.done.done() and self.acknowledged(waiter.job, waiter.seq):
                waiter.done.set_result(None)


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
