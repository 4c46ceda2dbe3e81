"""The sockets that the shims of local jobs connect to, one a job, and what is told through them.

A socket is opened when its job starts and closed when it ends, so there are at most as many as the
node has cores. Each takes 4 descriptors, and every connection up to 3 more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import zmq

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.shim_folder import ShimFolder
from wattfold.nodeagent.adapters.shim_socket import JobPorts, MaskOrder, Peer, ShimSocket

__all__ = ["MaskOrder", "ShimServer", "ShimView"]
_ZMQ_SOCKETS_MAX = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimView:
    """What the shims of a job have reported last."""

    attached: bool = False
    regions: int = 0
    done: float = 0.0
    total: float = 0.0
    team_size: int = 0
    phase: str = ""
    cores_wanted: int = 0


@dataclass(slots=True, kw_only=True)
class _Waiter:
    job: JobId
    seq: int
    done: asyncio.Future[None]


class ShimServer:
    """All jobs' shims, their masks and their reports."""

    def __init__(
        self,
        root: Path,
        find_job: Callable[[int], JobId | None],
        order_for: Callable[[JobId, int], MaskOrder | None],
    ) -> None:
        self._folder = ShimFolder(root)
        self._find_job = find_job
        self._order_for = order_for
        self._sockets: dict[JobId, ShimSocket] = {}
        self._waiters: list[_Waiter] = []
        self._context = zmq.Context(io_threads=1)
        self._context.set(zmq.MAX_SOCKETS, _ZMQ_SOCKETS_MAX)

    def start(self) -> None:
        """Makes the folder of the sockets. Raises OSError or StateDirError."""
        self._folder.prepare()

    def endpoint(self, job: JobId) -> str:
        """Where the shims of a job connect to; the same after a restart."""
        return f"ipc://{self._folder.path(job)}"

    def open(self, job: JobId, uid: int) -> None:
        """Binds the socket of a job that runs as this account. Raises OSError."""
        ports = JobPorts(
            is_member=lambda pid: self._find_job(pid) == job,
            order_for=lambda pid: self._order_for(job, pid),
            new_notice=lambda: self._folder.notice(job, uid),
        )
        socket = ShimSocket(self._context, job, uid, ports, self._settle)
        socket.serve(lambda bind: self._folder.bind(job, uid, bind))
        self._sockets[job] = socket

    def close_job(self, job: JobId) -> None:
        """Closes the socket of a job that has ended, if it has one."""
        socket = self._sockets.pop(job, None)
        if socket is not None:
            socket.close()
            self._folder.remove(job)
            self._settle()

    def close(self) -> None:
        """Closes all sockets and removes them."""
        for job in list(self._sockets):
            self.close_job(job)
        self._context.term()
        self._folder.close()

    @property
    def dropped(self) -> int:
        """Messages that were none, or not from a process of the job."""
        return sum(socket.dropped for socket in self._sockets.values())

    def attached(self, job: JobId) -> bool:
        """Whether a shim of the job is connected, or there were more than may be."""
        socket = self._sockets.get(job)
        return socket is not None and bool(socket.peers or socket.overrun)

    def view(self, job: JobId) -> ShimView:
        """The last reports of the job's shims: counts added up, the rest of the busiest one."""
        peers = self._peers(job)
        heard = [(peer.last, peer) for peer in peers if peer.last is not None]
        if not heard:
            return ShimView(attached=self.attached(job))
        main, speaker = max(heard, key=lambda h: (h[0].total > 0, h[0].regions, h[0].cores))
        return ShimView(
            attached=True,
            regions=sum(message.regions for message, _ in heard),
            done=main.done,
            total=main.total,
            team_size=main.cores,
            phase=speaker.said.phase or max(peer.said.phase for peer in peers),
            cores_wanted=sum(peer.said.cores for peer in peers),
        )

    async def tell(
        self, job: JobId, seq: int, order_for: Callable[[int], MaskOrder], deadline_s: float
    ) -> bool:
        """Sends masks to all shims of a job, by pid; True if all acknowledged ``seq`` in time."""
        socket = self._sockets.get(job)
        if socket is not None and socket.overrun:
            return False
        for peer in self._peers(job):
            if socket is not None:
                socket.tell(peer, order_for(peer.pid))
        waiter = _Waiter(job=job, seq=seq, done=asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        try:
            self._settle()
            async with asyncio.timeout(deadline_s):
                await waiter.done
        except TimeoutError:
            return False
        finally:
            self._waiters.remove(waiter)
        return socket is None or not socket.overrun

    def acknowledged(self, job: JobId, seq: int) -> bool:
        """Whether all shims of the job have acknowledged this mask or a later one."""
        return all(peer.acknowledged >= seq for peer in self._peers(job))

    def _peers(self, job: JobId) -> list[Peer]:
        socket = self._sockets.get(job)
        return [] if socket is None else list(socket.peers.values())

    def _settle(self) -> None:
        for waiter in self._waiters:
            if not waiter.done.done() and self.acknowledged(waiter.job, waiter.seq):
                waiter.done.set_result(None)
