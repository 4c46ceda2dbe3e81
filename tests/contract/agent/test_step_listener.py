"""The listener for remote shells: real connections, most of which break the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from wattfold.contract.ids import JobId
from wattfold.contract.step_protocol import FrameKind, FrameReader, StepError, job_line
from wattfold.nodeagent.adapters.jobs.step_folders import NoStepHostError
from wattfold.nodeagent.adapters.jobs.step_listener import WAITING_PEER_MAX, StepListener

HERE = JobId("here")
Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
Taken = list[tuple[JobId, int | None]]
Scene = Callable[[StepListener, Connect, Taken], Awaitable[None]]


def play(tmp_path: Path, kind: str, scene: Scene, line_s: float = 60) -> None:
    taken: Taken = []

    def hand_over(conn: socket.socket, job: JobId, uid: int | None) -> None:
        if job != HERE:
            raise NoStepHostError(f"no step host of job {job} on this node")
        taken.append((job, uid))
        conn.send(b"handed over")

    async def run() -> None:
        listener = StepListener(hand_over, line_s)
        listen = f"unix:{tmp_path}/s" if kind == "unix" else "127.0.0.1:0"
        address = listener.start(listen, open_to_all=False)

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            if kind == "unix":
                return await asyncio.open_unix_connection(f"{tmp_path}/s")
            return await asyncio.open_connection("127.0.0.1", int(address.removeprefix("tcp:")))

        try:
            async with asyncio.timeout(240):
                await scene(listener, connect, taken)
        finally:
            listener.close()
        with pytest.raises(OSError):  # noqa: PT011 - refused, or no such file
            await connect()

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_a_connection_goes_to_the_host_of_its_job(tmp_path: Path, kind: str) -> None:
    async def scene(listener: StepListener, connect: Connect, taken: Taken) -> None:
        reader, writer = await connect()
        # A slow line is also a valid line.
        for byte in job_line(HERE):
            writer.write(bytes([byte]))
            await writer.drain()
        assert await reader.read() == b"handed over"
        assert taken == [(HERE, os.geteuid() if kind == "unix" else None)]
        assert listener.waiting == 0
        writer.close()

    play(tmp_path, kind, scene)


def test_a_job_that_is_not_here_may_be_so_later(tmp_path: Path) -> None:
    async def scene(listener: StepListener, connect: Connect, taken: Taken) -> None:
        reader, writer = await connect()
        writer.write(job_line(JobId("elsewhere")))
        frames = FrameReader({FrameKind.ERROR})
        frames.feed(await reader.read())
        (frame,) = frames.frames()
        assert StepError.unpack(frame.body).not_yet
        writer.close()

    play(tmp_path, "unix", scene)


@pytest.mark.parametrize(
    "data", [b"\n", b"GET / HTTP/1.0\r\n\r\n", b"x" * 500, b"WFSTEP1 here\nand more", b"\0" * 81]
)
def test_other_first_lines_end_the_connection(tmp_path: Path, data: bytes) -> None:
    async def scene(listener: StepListener, connect: Connect, taken: Taken) -> None:
        reader, writer = await connect()
        writer.write(data)
        with contextlib.suppress(ConnectionError):
            answer = await reader.read()
            assert b"handed over" not in answer
        await until(lambda: listener.waiting == 0)
        assert taken == []
        writer.close()

    play(tmp_path, "unix", scene)


def test_who_says_nothing_is_dropped_in_time(tmp_path: Path) -> None:
    async def scene(listener: StepListener, connect: Connect, taken: Taken) -> None:
        reader, writer = await connect()
        writer.write(b"WFSTEP1 he")
        assert await reader.read() == b""
        assert listener.waiting == 0
        writer.close()

    play(tmp_path, "unix", scene, line_s=0.05)


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_a_crowd_keeps_nobody_out(tmp_path: Path, kind: str) -> None:
    async def scene(listener: StepListener, connect: Connect, taken: Taken) -> None:
        crowd = [await connect() for _ in range(WAITING_PEER_MAX + 40)]
        await until(lambda: listener.waiting == WAITING_PEER_MAX)
        reader, writer = await connect()
        writer.write(job_line(HERE))
        assert await reader.read() == b"handed over"
        # The oldest connections were closed; the newest still wait.
        assert await crowd[0][0].read() == b""
        assert not crowd[-1][0].at_eof()
        for _, other in [*crowd, (reader, writer)]:
            other.close()

    play(tmp_path, kind, scene)


def test_peers_that_hang_up_leave_nothing(tmp_path: Path) -> None:
    async def scene(listener: StepListener, connect: Connect, taken: Taken) -> None:
        for _ in range(20):
            _, writer = await connect()
            writer.close()
            await writer.wait_closed()
        await until(lambda: listener.waiting == 0)

    play(tmp_path, "unix", scene)


def test_the_socket_is_open_to_those_who_have_jobs(tmp_path: Path) -> None:
    async def run() -> None:
        for everyone, mode in ((True, 0o666), (False, 0o600)):
            listener = StepListener(lambda *_: None)
            listener.start(f"unix:{tmp_path}/s", open_to_all=everyone)
            assert (tmp_path / "s").stat().st_mode & 0o777 == mode
            listener.close()
            assert not (tmp_path / "s").exists()

    asyncio.run(run())
