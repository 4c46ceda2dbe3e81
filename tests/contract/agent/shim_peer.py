"""A shim in this process, for test scenes with the agent's shim server."""

from __future__ import annotations

import asyncio
import os

import zmq
import zmq.asyncio

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.shim_protocol import ShimMessage, ShimMessageType
from wattfold.nodeagent.adapters.shims.shim_server import MaskOrder, ShimServer

JOB = JobId("j")
FIRST = MaskOrder(seq=1, cpus=CpuSet.parse("0-3"), team_must_follow=True)
NEXT = MaskOrder(seq=2, cpus=CpuSet.parse("0-1"), team_must_follow=True)


class Shim:
    """A shim as the agent sees it."""

    def __init__(self, endpoint: str, name: bytes = b"") -> None:
        self.context = zmq.asyncio.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        if name:
            self.socket.setsockopt(zmq.ROUTING_ID, name)
        self.socket.connect(endpoint)

    async def say(self, kind: ShimMessageType, **fields: object) -> None:
        await self.socket.send(ShimMessage(type=kind, **fields).pack())

    async def hear(self) -> ShimMessage:
        return ShimMessage.unpack(await asyncio.wait_for(self.socket.recv(), 10))

    def close(self) -> None:
        self.socket.close()
        self.context.term()


def play(tmp_path, scene, job_of=lambda pid: JOB if pid == os.getpid() else None):
    async def run():
        server = ShimServer(tmp_path / "shims", job_of, lambda job, pid: FIRST)
        server.start()
        server.open(JOB, os.geteuid())
        shim = Shim(server.endpoint(JOB))
        try:
            await scene(server, shim)
        finally:
            shim.close()
            server.close()

    asyncio.run(run())


async def until(condition) -> None:
    async with asyncio.timeout(240):
        while not condition():
            await asyncio.sleep(0)
