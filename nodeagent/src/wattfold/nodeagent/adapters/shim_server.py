"""The sockets that the shims of local jobs connect to, one a job, and what is told through them.

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
from wattfold.nodeagent.adapters.shim_folder import ShimFolder
from wattfold.nodeagent.adapters.shim_notice import TeamsFile
from wattfold.nodeagent.adapters.shim_socket import JobPorts, MaskOrder, Peer, ShimSocket
from wattfold.nodeagent.adapters.turns import Chances
from wattfold.nodeagent.core.patience import Patience

__all__ = ["MaskOrder", "ShimServer", "ShimView"]
_ZMQ_SOCKETS_MAX = 16_384
_SLICE_NS = 50 * NS_PER_MS


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
    message: str = ""
    """Why shims may not reach the agent; empty = they may."""


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
        self._teams: dict[JobId, TeamsFile | None] = {}
        self._waiters: list[_Waiter] = []
        self._context = zmq.Context(io_threads=1)
        self._context.set(zmq.MAX_SOCKETS, _ZMQ_SOCKETS_MAX)

    def start(self) -> None:
        """Makes the folder of the sockets. Raises OSError or StateDirError."""
        self._folder.prepare()

    def endpoint(self, job: JobId) -> str:
        """Where the shims of a job connect to; the same after a restart."""
        return f"ipc://{self._folder.path(job)}"

    def keep_only(self, jobs: Collection[JobId]) -> None:
        """Removes what an agent that is gone has left of other jobs."""
        self._folder.keep_only(jobs)

    def open(self, job: JobId, uid: int) -> None:
        """Binds the socket of a job that runs as this account. Raises OSError."""
        ports = JobPorts(
            is_member=lambda pid: self._find_job(pid) == job,
            order_for=lambda pid: self._order_for(job, pid),
            new_notice=lambda: self._folder.notice(job, uid),
            shut=lambda shut: self._folder.shut(job, shut=shut),
        )
        socket = ShimSocket(self._context, job, uid, ports, self._settle)
        socket.serve(lambda bind: self._folder.bind(job, uid, bind))
        self._sockets[job] = socket

    def publish(self, job: JobId, uid: int, teams: Sequence[int], seq: int) -> None:
        """Writes down how large teams may be, for programs that have not been told their mask.

        Of a process of no task, and then of each task; always as many.
        """
        if job not in self._teams:
            try:
                self._teams[job] = self._folder.teams(job, uid, teams, seq)
            except OSError as error:
                # Programs then go by the first mask they are sent.
                logs.info("shim_teams_disabled", job=job, why=str(error))
                self._teams[job] = None
        file = self._teams[job]
        if file is not None:
            file.write(teams, seq)

    def close_job(self, job: JobId) -> None:
        """Closes the socket of a job that has ended, if it has one."""
        if self._close(job):
            self._folder.remove(job)
            self._settle()

    def close(self) -> None:
        """Closes all sockets and removes them."""
        for job in list(self._sockets):
            self._close(job)
        self._settle()
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
        """Messages that were none, or not from a process of the job."""
        return sum(socket.dropped for socket in self._sockets.values())

    def attached(self, job: JobId) -> bool:
        """Whether a shim of the job is connected, or there are more than may be."""
        socket = self._sockets.get(job)
        return socket is not None and bool(socket.peers or socket.door.overrun)

    def view(self, job: JobId) -> ShimView:
        """The last reports of the job's shims: counts added up, the rest of the busiest one."""
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
        """Sends masks to all shims of a job, by pid; True if all acknowledged ``seq`` in time.

        Never while some of the job's own are kept out: they have not been asked. Time in which a
        shim could not run, or this agent did not, is not the shim's.
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
            # What came while this agent did not run has come in time.
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
        """Whether all shims of the job have acknowledged this mask or a later one."""
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
    """Waits for it until then; also true if it was done when this task came to run again."""
    left_s = (until_ns - time.monotonic_ns()) / NS_PER_S
    await asyncio.wait([done], timeout=max(0.0, left_s))
    return done.done()
