"""The shim socket against a real ZeroMQ peer of this process."""

import asyncio
import os
import socket
import sys
import time
from pathlib import Path

import pytest
from contract.agent.shim_peer import JOB, NEXT, Shim, play, until

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.shim_protocol import ShimFlags, ShimMessage, ShimMessageType
from wattfold.nodeagent.adapters.shims import shim_door
from wattfold.nodeagent.adapters.shims.shim_server import MaskOrder


async def connect(one: socket.socket, path: str) -> None:
    """Connect as soon as the queue of the listener has room."""
    one.setblocking(False)
    async with asyncio.timeout(240):
        while True:
            try:
                return one.connect(path)
            except BlockingIOError:
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
        telling = asyncio.create_task(server.tell(JOB, NEXT.seq, lambda _: NEXT, 10))
        assert (await shim.hear()).seq == 2
        # An acknowledgement of the earlier mask does not count.
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
        assert not await server.tell(JOB, NEXT.seq, lambda _: NEXT, 0.05)

    play(tmp_path, scene)


def test_a_peer_that_leaves_is_not_waited_for(tmp_path):
    async def scene(server, shim):
        await shim.say(ShimMessageType.HELLO)
        await shim.hear()
        telling = asyncio.create_task(server.tell(JOB, NEXT.seq, lambda _: NEXT, 10))
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
            telling = asyncio.create_task(server.tell(JOB, seq, lambda _, order=order: order, 10))
            assert (await shim.hear()).seq == seq
            await shim.say(ShimMessageType.ACK, seq=seq, cores=1)
            assert await telling
        print("mean round trip us", (time.monotonic() - started) / 200 * 1e6)

    play(tmp_path, scene)


def test_reports_in_words_are_kept(tmp_path):
    async def scene(server, shim):
        await shim.say(ShimMessageType.HELLO)
        await shim.say(ShimMessageType.STATUS, regions=1, text="request=6 phase=assembly")
        await until(lambda: server.view(JOB).regions == 1)
        assert (server.view(JOB).cores_wanted, server.view(JOB).phase) == (6, "assembly")
        await shim.say(ShimMessageType.STATUS, regions=2, text="phase=solve")
        await until(lambda: server.view(JOB).regions == 2)
        assert (server.view(JOB).cores_wanted, server.view(JOB).phase) == (0, "solve")

    play(tmp_path, scene)


def test_a_process_of_another_job_is_a_stranger(tmp_path):
    async def scene(server, shim):
        await shim.say(ShimMessageType.HELLO)
        await shim.say(ShimMessageType.ACK, seq=99)
        await until(lambda: server.dropped == 2)
        assert not server.attached(JOB)

    play(tmp_path, scene, job_of=lambda pid: JobId("other"))


NAMESAKE = """
import sys, zmq
from wattfold.contract.shim_protocol import ShimMessage, ShimMessageType
with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
    socket.setsockopt(zmq.ROUTING_ID, b"name")
    socket.connect(sys.argv[1])
    socket.send(ShimMessage(type=ShimMessageType.HELLO).pack())
    socket.recv()
sys.stdin.read()
"""


async def greeted(shim):
    await shim.say(ShimMessageType.HELLO)
    return await shim.socket.poll(500)


def watched_processes():
    links = Path("/proc/self/fd").iterdir()
    return sum("pidfd" in os.readlink(link) for link in links if link.is_symlink())


def test_a_name_that_is_taken_over_leaves_nothing_behind(tmp_path):
    """Leftovers of the first bearer would wake the agent forever after its end."""

    async def scene(server, shim):
        first = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", NAMESAKE, server.endpoint(JOB)), stdin=asyncio.subprocess.PIPE
        )
        await until(lambda: server.attached(JOB))
        async with asyncio.timeout(240):
            # Refused until the server has noticed the end of the first connection.
            while not await greeted(again := Shim(server.endpoint(JOB), name=b"name")):
                again.close()
        try:
            assert watched_processes() == 1
            first.stdin.close()
            await first.wait()
            assert server.attached(JOB)
        finally:
            again.close()

    play(tmp_path, scene, job_of=lambda pid: JOB)


def test_a_message_that_is_too_long_costs_the_connection(tmp_path):
    async def scene(server, shim):
        await shim.say(ShimMessageType.HELLO)
        await shim.hear()
        long = Shim(server.endpoint(JOB))
        await long.socket.send(b"x" * 1_000_000)
        # No part of it arrives, and other peers are served.
        await shim.say(ShimMessageType.STATUS, regions=3)
        await until(lambda: server.view(JOB).regions == 3)
        assert server.dropped == 0
        long.close()

    play(tmp_path, scene)


def test_a_flood_is_held_back_and_does_not_starve_another_job(tmp_path):
    other = JobId("other")

    async def scene(server, shim):
        server.open(other, os.geteuid())
        flood = Shim(server.endpoint(other))
        await flood.say(ShimMessageType.HELLO)
        await flood.hear()
        await shim.say(ShimMessageType.HELLO)
        await shim.hear()
        sent = 0
        noise = ShimMessage(type=ShimMessageType.STATUS, regions=1).pack()

        async def send_all() -> None:
            nonlocal sent
            while True:
                await flood.socket.send(noise)
                sent += 1

        sending = asyncio.create_task(send_all())
        socket = server._sockets[other]
        await until(lambda: socket.held_back > 3)
        telling = asyncio.create_task(server.tell(JOB, NEXT.seq, lambda _: NEXT, 10))
        assert (await shim.hear()).seq == 2
        await shim.say(ShimMessageType.ACK, seq=2, cores=2)
        assert await telling
        sending.cancel()
        flood.close()

    # Both peers are this process, so the job depends on the caller.
    jobs = iter([other, JOB])
    play(tmp_path, scene, job_of=lambda pid: next(jobs))


def test_more_connections_than_a_job_may_have_harm_only_that_job(tmp_path, caplog):
    """Connections from foreign processes are not counted: only the account can connect."""
    other = JobId("other")
    owner = [JOB]

    async def scene(server, shim):
        server.open(other, os.geteuid())
        await shim.say(ShimMessageType.HELLO)
        await shim.hear()
        path = server.endpoint(other).removeprefix("ipc://")
        owner[0] = other
        crowd = []
        try:
            for _ in range(shim_door.CONNECTIONS_MAX + 1):
                one = socket.socket(socket.AF_UNIX)
                crowd.append(one)
                await connect(one, path)
            # Until the job counts as attached, its connections may not have been queried.
            await until(lambda: server.attached(other))
            assert not await server.tell(other, 2, lambda _: NEXT, 10)
            assert server.view(other).message.endswith("from its own processes")
            assert caplog.text.count("shim_connections_refused") == 1
        finally:
            for one in crowd:
                one.close()
        telling = asyncio.create_task(server.tell(JOB, NEXT.seq, lambda _: NEXT, 10))
        assert (await shim.hear()).seq == 2
        await shim.say(ShimMessageType.ACK, seq=2, cores=2)
        assert await telling
        await until(lambda: not server.view(other).message)
        assert not server.attached(other)
        assert await server.tell(other, 2, lambda _: NEXT, 10)

    play(tmp_path, scene, job_of=lambda _: owner[0])


def test_connections_of_strangers_are_ended_and_the_job_is_asked_as_ever(tmp_path):
    async def scene(server, shim):
        await shim.say(ShimMessageType.HELLO)
        await shim.hear()
        is_stranger[0] = True
        crowd = []
        try:
            for _ in range(shim_door.CONNECTIONS_MAX + 1):
                one = socket.socket(socket.AF_UNIX)
                crowd.append(one)
                await connect(one, server.endpoint(JOB).removeprefix("ipc://"))
            await until(lambda: server.view(JOB).message)
            for one in crowd:
                async with asyncio.timeout(240):
                    while not ended(one):
                        await asyncio.sleep(0)
        finally:
            for one in crowd:
                one.close()

    # All connections come from this process, so `job_of` decides whether they are strangers.
    is_stranger = [False]
    play(tmp_path, scene, job_of=lambda _: None if is_stranger[0] else JOB)


def ended(one: socket.socket) -> bool:
    """Whether the peer has closed the connection after its greeting."""
    try:
        while one.recv(4096):
            pass
    except BlockingIOError:
        return False
    except ConnectionResetError:
        pass
    return True


def test_descriptors_are_not_taken_for_connections_by_their_number(tmp_path):
    """The number may belong to another file by the time the event of ZeroMQ arrives."""
    pair = socket.socketpair(socket.AF_UNIX)
    shut = []
    ports = shim_door.DoorPorts(is_member=lambda _: False, shut=shut.append, changed=lambda: None)

    async def scene():
        door = shim_door.ShimDoor(JOB, ports)
        door.path = str(tmp_path / "sock")
        for _ in range(shim_door.CONNECTIONS_MAX * 3):
            door.accepted(pair[0].fileno())
        assert door.flood
        assert shut[0] is True
        assert door.sent_away == 0
        door.close()

    asyncio.run(scene())
    with pair[0], pair[1]:
        pair[0].send(b"still here")
        assert pair[1].recv(16) == b"still here"


def test_descriptors_of_a_socket_are_those_stated(tmp_path):
    async def scene(server, shim):
        await shim.say(ShimMessageType.HELLO)
        await shim.hear()
        before = len(os.listdir("/proc/self/fd"))
        for number in range(10):
            server.open(JobId(f"other{number}"), os.geteuid())
        assert len(os.listdir("/proc/self/fd")) - before == 40
        for number in range(10):
            server.close_job(JobId(f"other{number}"))

    play(tmp_path, scene)


def test_nothing_is_left(tmp_path):
    async def scene(server, shim):
        assert (tmp_path / "shims" / "j" / "sock").is_socket()

    play(tmp_path, scene)
    assert not list(tmp_path.iterdir())


def test_a_name_too_long_for_a_socket_is_shortened(tmp_path):
    name = JobId("x" * 63)

    async def scene(server, shim):
        server.open(name, os.geteuid())
        path = server.endpoint(name).removeprefix("ipc://")
        assert len(path) <= 107
        assert server.endpoint(name) != server.endpoint(JobId("y" * 63))
        server.close_job(name)

    play(tmp_path, scene)
