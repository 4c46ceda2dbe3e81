"""The socket for Slurm's plugin: who may use it, and what many or silent peers can do."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from wattfold.nodeagent.adapters.jobs.adopt_listener import CONNECTIONS_MAX, AdoptListener
from wattfold.nodeagent.core.adoption import StepMessage, TaskForked
from wattfold.nodeagent.core.errors import WrongState

TASK = b"wattfold-adopt=1\ncall=task\njob=7\nstep=0\ntask=0\npid=5\n"
NOBODY = 65534


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "adopt.sock"


def client(path: Path) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.settimeout(60)
    peer.connect(str(path))
    return peer


def ask(path: Path, packet: bytes) -> bytes:
    with client(path) as peer:
        try:
            peer.send(packet)
            return peer.recv(65536)
        except (ConnectionResetError, BrokenPipeError):
            return b""


def served(
    path: Path,
    test: Callable[[list[tuple[StepMessage, int]]], Awaitable[None]],
    limit_s: float = 60,
) -> None:
    """Run a test beside a listener that collects its messages and refuses steps named 9."""
    taken: list[tuple[StepMessage, int]] = []

    async def answer(message: StepMessage, pid: int) -> dict[str, str]:
        if message.step == "9":
            raise WrongState("no cores")
        taken.append((message, pid))
        return {"A": "b"}

    async def go() -> None:
        listener = AdoptListener(path, answer, limit_s)
        listener.start()
        try:
            async with asyncio.timeout(120):
                await test(taken)
        finally:
            listener.close()
        assert not path.exists()

    asyncio.run(go())


def test_a_message_and_its_answer(path: Path) -> None:
    async def test(taken: list[tuple[StepMessage, int]]) -> None:
        assert await asyncio.to_thread(ask, path, TASK) == b"ok\nA=b\n"
        message = TaskForked(job="slurm-7", step="0", task=0, pid=5)  # type: ignore[arg-type]
        assert taken == [(message, os.getpid())], "the kernel tells who sent it"

    served(path, test)


def test_refusals_are_answered(path: Path) -> None:
    async def test(taken: list[tuple[StepMessage, int]]) -> None:
        wrong = await asyncio.to_thread(ask, path, TASK.replace(b"step=0", b"step=9"))
        assert wrong == b"no\nno cores\n"
        assert (await asyncio.to_thread(ask, path, b"hello")).startswith(b"no\nthe message is not")
        assert (await asyncio.to_thread(ask, path, b"x" * 60000)).startswith(b"no\nthe message is")
        assert not taken

    served(path, test)


def test_silent_and_too_many_peers_delay_nobody(path: Path) -> None:
    async def test(taken: list[tuple[StepMessage, int]]) -> None:
        silent = [await asyncio.to_thread(client, path) for _ in range(CONNECTIONS_MAX)]
        assert await asyncio.to_thread(ask, path, TASK) == b"", "closed at once"
        for peer in silent:
            peer.close()
        while await asyncio.to_thread(ask, path, TASK) != b"ok\nA=b\n":
            pass

    served(path, test)


def test_a_silent_peer_is_disconnected(path: Path) -> None:
    async def test(taken: list[tuple[StepMessage, int]]) -> None:
        with await asyncio.to_thread(client, path) as peer:
            assert await asyncio.to_thread(peer.recv, 100) == b""

    served(path, test, limit_s=0.05)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_only_root_may_hand_steps_over(path: Path) -> None:
    program = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET);"
        f"s.connect({str(path)!r}); s.send({TASK!r}); print(s.recv(999))"
    )

    def call() -> subprocess.CompletedProcess[str]:
        command = ["/usr/bin/python3", "-c", program]
        return subprocess.run(command, user=NOBODY, capture_output=True, text=True, timeout=60)

    async def test(taken: list[tuple[StepMessage, int]]) -> None:
        assert "PermissionError" in (await asyncio.to_thread(call)).stderr
        # Even if the file would let it through.
        path.chmod(0o666)
        answer = (await asyncio.to_thread(call)).stdout
        assert "account 65534 may not hand steps over" in answer
        assert not taken

    served(path, test)
