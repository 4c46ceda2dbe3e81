"""The shim socket against a real ZeroMQ peer of this process."""

import asyncio
import os
import time

import pytest
import zmq
import zmq.asyncio

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.shim_protocol import ShimFlags, ShimMessage, ShimMessageType
from wattfold.nodeagent.adapters.shim_server import MaskOrder, ShimServer

JOB = JobId("j")
FIRST = MaskOrder(seq=1, cpus=CpuSet.parse("0-3"), team_must_follow=True)
NEXT = MaskOrder(seq=2, cpus=CpuSet.parse("0-1"), team_must_follow=True)


class Shim:
    """A shim as the agent sees it."""

    def __init__(self, endpoint: str) -> None:
        self.context = zmq.asyncio.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
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
        server = ShimServer(tmp_path / "shim.sock", job_of, lambda job: FIRST)
        server.start(open_to_all=False)
        shim = Shim(server.endpoint)
        try:
            await scene(server, shim)
        finally:
            shim.close()
            server.close()

    asyncio.run(run())


async def until(condition) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


def test_a_greeting_is_answered_with_the_mask(tmp_path):
    async def scene(server, shim):
        await shim.say(ShimMessageType.HELLO, text="libgomp")
        mask = await shim.hear()
        assert (mask.type, mask.seq, mask.cores, mask.text) == (ShimMessageType.MASK, 1, 4, "0-3")
        assert mask.flags is ShimFlags.TEAM_FOLLOWS
        assert server.attached(JOB)

    play(tmp_path, scene)


def test_a_mask_is_acknowledged(tmp_path):
    async def scene(server, shim):
        await shim.say(ShimMessageType.HELLO)
        await shim.hear()
        telling = asyncio.create_task(server.tell(JOB, NEXT, 10))
        assert (await shim.hear()).seq == 2
        # An acknowledgement of the mask before does not count.
        await shim.say(ShimMessageType.ACK, seq=1, cores=4)
        await until(lambda: server.view(JOB).team_size == 4)
        assert not telling.done()
        await shim.say(ShimMessageType.ACK, seq=2, cores=2)
        assert await telling
        assert server.view(JOB).team_size == 2

    play(tmp_path, scene)


def test_silence_ends_at_the_deadline(tmp_path):
    async def scene(server, shim):
        await shim.say(ShimMessageType.HELLO)
        await shim.hear()
        assert not await server.tell(JOB, NEXT, 0.05)

    play(tmp_path, scene)


def test_a_peer_that_leaves_is_not_waited_for(tmp_path):
    async def scene(server, shim):
        await shim.say(ShimMessageType.HELLO)
        await shim.hear()
        telling = asyncio.create_task(server.tell(JOB, NEXT, 10))
        await shim.hear()
        await shim.say(ShimMessageType.BYE)
        assert await telling
        assert not server.attached(JOB)

    play(tmp_path, scene)


def test_reports_are_kept(tmp_path):
    async def scene(server, shim):
        await shim.say(ShimMessageType.HELLO)
        await shim.say(ShimMessageType.STATUS, cores=3, regions=7, done=1.5, total=9.0)
        await until(lambda: server.view(JOB).regions == 7)
        view = server.view(JOB)
        assert (view.team_size, view.done, view.total) == (3, 1.5, 9.0)

    play(tmp_path, scene)


@pytest.mark.parametrize("frame", [b"", b"x" * 64, b"\0" * 200])
def test_nonsense_is_counted_and_dropped(tmp_path, frame):
    async def scene(server, shim):
        await shim.socket.send(frame)
        await until(lambda: server.dropped == 1)
        assert not server.attached(JOB)

    play(tmp_path, scene)


def test_a_stranger_is_dropped(tmp_path):
    async def scene(server, shim):
        await shim.say(ShimMessageType.HELLO)
        await until(lambda: server.dropped == 1)
        assert not server.attached(JOB)

    play(tmp_path, scene, job_of=lambda pid: None)


def test_round_trips_are_counted_not_lost(tmp_path):
    async def scene(server, shim):
        await shim.say(ShimMessageType.HELLO)
        await shim.hear()
        started = time.monotonic()
        for seq in range(2, 202):
            order = MaskOrder(seq=seq, cpus=CpuSet.parse("0"), team_must_follow=False)
            telling = asyncio.create_task(server.tell(JOB, order, 10))
            assert (await shim.hear()).seq == seq
            await shim.say(ShimMessageType.ACK, seq=seq, cores=1)
            assert await telling
        print("mean round trip us", (time.monotonic() - started) / 200 * 1e6)

    play(tmp_path, scene)
