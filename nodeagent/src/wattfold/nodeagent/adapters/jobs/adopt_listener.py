"""Socket for Slurm's plugin, open only to root.

A connection carries one packet and its answer. Connections are limited in number and time. The
kernel tells the account and the process of the peer, so a message cannot name another slurmstepd.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

from wattfold.nodeagent import logs
from wattfold.nodeagent.core.adoption import (
    MESSAGE_BYTES_MAX,
    StepMessage,
    accepted,
    parse_message,
    refused,
)
from wattfold.nodeagent.core.errors import NotPermitted, Refused

CONNECTIONS_MAX = 64
MESSAGE_S = 1.0
_CREDENTIALS = struct.Struct("=iII")

Answer = Callable[[StepMessage, int], Awaitable[dict[str, str]]]
"""Handles a message of the process with this PID. Returns variables. Raises Refused."""


class AdoptListener:
    """The listening socket ``path``."""

    def __init__(self, path: Path, answer: Answer, message_s: float = MESSAGE_S) -> None:
        """``message_s``: time in which a peer must send its packet, in seconds."""
        self._path = path
        self._answer = answer
        self._message_s = message_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None

    def start(self) -> None:
        """Listen. Raises OSError."""
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        before = os.umask(0o177)
        try:
            listener.bind(str(self._path))
        finally:
            os.umask(before)
        listener.listen(CONNECTIONS_MAX)
        self._listener = listener
        asyncio.get_running_loop().add_reader(listener, self._accept)

    def close(self) -> None:
        """Stop listening."""
        if self._listener is None:
            return
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        self._listener = None
        self._path.unlink(missing_ok=True)
        for task in self._tasks:
            task.cancel()

    def _accept(self) -> None:
        assert self._listener is not None
        while True:
            try:
                peer, _ = self._listener.accept()
            except (BlockingIOError, ConnectionError):
                return
            except OSError as error:
                logs.warning("adoption_not_accepted", reason=error)
                return
            if len(self._tasks) >= CONNECTIONS_MAX:
                # The step starts at once, without Wattfold.
                peer.close()
                continue
            peer.setblocking(False)
            task = asyncio.get_running_loop().create_task(self._serve(peer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, peer: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with peer, contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(self._message_s):
                packet = await loop.sock_recv(peer, MESSAGE_BYTES_MAX + 1)
            if not packet:
                return
            try:
                pid = _peer_of(peer)
                answer = accepted(await self._answer(parse_message(packet), pid))
            except Refused as refusal:
                logs.info("step_not_adopted", reason=refusal)
                answer = refused(str(refusal))
            async with asyncio.timeout(self._message_s):
                await loop.sock_sendall(peer, answer)


def _peer_of(peer: socket.socket) -> int:
    """Return the PID of the peer. Raises NotPermitted unless it has the account of the agent."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(credentials)
    if uid not in (0, os.geteuid()):
        raise NotPermitted(f"account {uid} may not hand steps over; only root may")
    return int(pid)
