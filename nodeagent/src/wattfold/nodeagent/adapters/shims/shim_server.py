"""Sockets for the shims of local jobs, one per job, and the messages through them.

A socket is opened when its job starts and closed when it ends, so there are at most as many as the
node has cores. Each takes 4 descriptors, one more in team mode, and every connection up to 3.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import zmq

from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_MS, NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.jobs.turns import Chances
from wattfold.nodeagent.adapters.shims.shim_folder import ShimFolder
from wattfold.nodeagent.adapters.shims.shim_notice import TeamsFile
from wattfold.nodeagent.adapters.shims.shim_socket import (
    MaskOrder,
    Peer,
    ShimSocket,
    SocketCallbacks,
)
from wattfold.nodeagent.core.patience import Patience

__all__ = ["MaskOrder", "ShimServer", "ShimView"]
_ZMQ_SOCKETS_MAX = 16_384
_SLICE_NS = 50 * NS_PER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimView:
    """Last reports of the shims of a job."""

    attached: bool = False
    regions: int = 0
    done: float = 0.0
    total: float = 0.0
    team_size: int = 0
    phase: str = ""
    cores_wanted: int = 0
    message: str = ""
    """Why shims may not reach the agent; empty = they may."""


@dataclass(slots=True, kw_only=True)
class _Waiter:
    job: JobId
    seq: int
    done: asyncio.Future[None]


class ShimServer:
    """The shims of all jobs, their masks and their reports."""

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
        self._teams: dict[JobId, TeamsFile | None] = {}
        self._waiters: list[_Waiter] = []
        self._context = zmq.Context(io_threads=1)
        self._context.set(zmq.MAX_SOCKETS, _ZMQ_SOCKETS_MAX)
        self._first: zmq.Socket[bytes] | None = None

    def start(self) -> None:
        """Create the folder of the sockets. Raises OSError or StateDirError."""
        self._folder.prepare()
        # The library starts its threads with the first socket, and ends the process if it cannot.
        # So this happens now instead of at the first job, when the node may have no processes left.
        self._first = self._context.socket(zmq.PAIR)

    def endpoint(self, job: JobId) -> str:
        """Return the endpoint for the shims of a job, which is the same after a restart."""
        return f"ipc://{self._folder.path(job)}"

    def keep_only(self, jobs: Collection[JobId]) -> None:
        """Remove files that an earlier agent has left for other jobs."""
        self._folder.keep_only(jobs)

    def open(self, job: JobId, uid: int) -> None:
        """Bind the socket of a job that runs as this account. Raises OSError."""
        ports = SocketCallbacks(
            is_member=lambda pid: self._find_job(pid) == job,
            order_for=lambda pid: self._order_for(job, pid),
            new_notice=lambda: self._folder.notice(job, uid),
            shut=lambda shut: self._folder.shut(job, shut=shut),
        )
        socket = ShimSocket(self._context, job, uid, ports, self._settle)
        socket.serve(lambda bind: self._folder.bind(job, uid, bind))
        self._sockets[job] = socket

    def publish(self, job: JobId, uid: int, teams: Sequence[int], seq: int) -> None:
        """Publish team sizes for programs that have not received their mask.

        The first value is for processes without a task, the others for each task. Their number
        never changes.
        """
        if job not in self._teams:
            try:
                self._teams[job] = self._folder.teams(job, uid, teams, seq)
            except OSError as error:
                # Programs then follow the first mask that they receive.
                logs.info("shim_teams_disabled", job=job, reason=str(error))
                self._teams[job] = None
        file = self._teams[job]
        if file is not None:
            file.write(teams, seq)

    def close_job(self, job: JobId) -> None:
        """Close the socket of a job that has ended, if it has one."""
        if self._close(job):
            self._folder.remove(job)
            self._settle()

    def close(self) -> None:
        """Close and remove all sockets."""
        for job in list(self._sockets):
            self._close(job)
        self._settle()
        if self._first is not None:
            self._first.close()
        self._context.term()
        self._folder.close()

    def _close(self, job: JobId) -> bool:
        file = self._teams.pop(job, None)
        if file is not None:
            file.close()
        socket = self._sockets.pop(job, None)
        if socket is not None:
            socket.close()
        return socket is not None

    @property
    def dropped(self) -> int:
        """Number of invalid messages, or messages from processes outside the job."""
        return sum(socket.dropped for socket in self._sockets.values())

    def attached(self, job: JobId) -> bool:
        """Whether a shim of the job is connected, or has been refused because of the limit."""
        socket = self._sockets.get(job)
        return socket is not None and bool(socket.peers or socket.door.overrun)

    def view(self, job: JobId) -> ShimView:
        """Return the last reports of the shims: sums of counts, and values of the busiest shim."""
        peers = self._peers(job)
        heard = [(peer.last, peer) for peer in peers if peer.last is not None]
        if not heard:
            return ShimView(attached=self.attached(job), message=self._flood(job))
        main, speaker = max(heard, key=lambda h: (h[0].total > 0, h[0].regions, h[0].cores))
        return ShimView(
            attached=True,
            regions=sum(message.regions for message, _ in heard),
            done=main.done,
            total=main.total,
            team_size=main.cores,
            phase=speaker.said.phase or max(peer.said.phase for peer in peers),
            cores_wanted=sum(peer.said.cores for peer in peers),
            message=self._flood(job),
        )

    async def tell(
        self, job: JobId, seq: int, order_for: Callable[[int], MaskOrder], deadline_s: float
    ) -> bool:
        """Send masks to all shims of a job. Returns whether all acknowledged ``seq`` in time.

        ``order_for`` gives the mask for a PID. Returns False while some processes of the job are
        refused, because they were not asked. Time in which a shim could not run, or in which this
        agent did not run, does not count for the shim.
        """
        socket = self._sockets.get(job)
        chances = Chances(peer.pid for peer in self._peers(job))
        for peer in self._peers(job):
            if socket is not None:
                socket.tell(peer, order_for(peer.pid))
        waiter = _Waiter(job=job, seq=seq, done=asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        try:
            self._settle()
            in_time = await self._patiently(waiter, chances, deadline_s)
        finally:
            self._waiters.remove(waiter)
        return in_time and (socket is None or not socket.door.overrun)

    async def _patiently(self, waiter: _Waiter, chances: Chances, deadline_s: float) -> bool:
        began_ns = looked_ns = time.monotonic_ns()
        patience = Patience(began_ns=began_ns, deadline_ns=round(deadline_s * NS_PER_S))
        until_ns = patience.until_ns(0)
        while not await _done_by(waiter.done, min(until_ns, looked_ns + _SLICE_NS)):
            # Messages that arrived while this agent did not run count as in time.
            self._catch_up(waiter.job)
            late = [p.pid for p in self._peers(waiter.job) if p.acknowledged < waiter.seq]
            before_ns, looked_ns = looked_ns, time.monotonic_ns()
            until_ns = patience.until_ns(chances.lost_ns(late, looked_ns - before_ns))
            if not late or looked_ns >= until_ns:
                return not late
        return True

    def _catch_up(self, job: JobId) -> None:
        socket = self._sockets.get(job)
        if socket is not None:
            socket.catch_up()

    def acknowledged(self, job: JobId, seq: int) -> bool:
        """Whether all shims of the job have acknowledged this mask or a later mask."""
        return all(peer.acknowledged >= seq for peer in self._peers(job))

    def _flood(self, job: JobId) -> str:
        socket = self._sockets.get(job)
        return "" if socket is None else socket.door.overrun or socket.door.flood

    def _peers(self, job: JobId) -> list[Peer]:
        socket = self._sockets.get(job)
        return [] if socket is None else list(socket.peers.values())

    def _settle(self) -> None:
        for waiter in self._waiters:
            if not waiter.done.done() and self.acknowledged(waiter.job, waiter.seq):
                waiter.done.set_result(None)


async def _done_by(done: asyncio.Future[None], until_ns: int) -> bool:
    """Wait for the future. Also true if it is done when this task runs again."""
    left_s = (until_ns - time.monotonic_ns()) / NS_PER_S
    await asyncio.wait([done], timeout=max(0.0, left_s))
    return done.done()
