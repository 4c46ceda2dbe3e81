"""The agent's end of the shim channel, reduced for tests: a real ROUTER socket."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import zmq

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.shim_protocol import ShimFlags, ShimMessage, ShimMessageType
from wattfold.nodeagent.adapters.shims.shim_notice import NoticeFile

DEADLINE_S = 20.0


@dataclass
class AgentEnd:
    """Receives messages of shims on its own socket and sends them masks."""

    path: Path
    seq: int = 0
    identity: bytes = b""
    notice: NoticeFile | None = None
    """File to which masks are written before they are sent."""
    heard: list[ShimMessage] = field(default_factory=list)
    """Every message received, oldest first."""

    def __enter__(self) -> AgentEnd:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(self.endpoint)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()
        self.context.term()
        if self.notice is not None:
            self.notice.close()
            self.notice = None

    def restart(self) -> None:
        """Close the socket and open it again on the same path, without known shims."""
        self.__exit__(None, None, None)
        self.__enter__()

    @property
    def endpoint(self) -> str:
        return f"ipc://{self.path}"

    def send_mask(
        self,
        cores: int,
        *,
        seq: int | None = None,
        flags: ShimFlags = ShimFlags.TEAM_FOLLOWS,
    ) -> int:
        """Send a mask of the CPUs 0 .. cores-1; return its sequence number."""
        if seq is None:
            self.seq += 1
            seq = self.seq
        if self.notice is not None:
            self.notice.write(cores, seq)
        message = ShimMessage(
            type=ShimMessageType.MASK,
            flags=flags,
            seq=seq,
            cores=cores,
            notice=0 if self.notice is None else self.notice.number,
            text=str(CpuSet.of(range(cores))),
        )
        self.send_raw(message.pack())
        return seq

    def take_notes(self) -> NoticeFile:
        """From now on, write masks to a notice as well."""
        self.notice = NoticeFile(self.path.parent, os.geteuid())
        return self.notice

    def send_raw(self, *frames: bytes) -> None:
        self.socket.send_multipart([self.identity, *frames])

    def expect(self, kind: ShimMessageType, deadline_s: float = DEADLINE_S) -> ShimMessage:
        """Return the next message of a kind; skipped messages stay in ``heard``."""
        message = self.poll(kind, deadline_s)
        assert message is not None, f"no {kind.name} within {deadline_s} s; heard {self.heard}"
        return message

    def poll(self, kind: ShimMessageType, deadline_s: float) -> ShimMessage | None:
        end = time.monotonic() + deadline_s
        while (left := end - time.monotonic()) > 0:
            if not self.socket.poll(int(left * 1000) + 1):
                continue
            self.identity, payload = self.socket.recv_multipart()
            message = ShimMessage.unpack(payload)
            self.heard.append(message)
            if message.type is kind:
                return message
        return None

    def wait_until(self, holds: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
        """Receive messages until an external condition holds; the condition is checked often."""
        end = time.monotonic() + deadline_s
        while not holds():
            assert time.monotonic() < end, f"not within {deadline_s} s"
            self.poll(ShimMessageType.HELLO, 0.005)

    def resize(self, cores: int) -> ShimMessage:
        """Send a mask and wait for its acknowledgement."""
        seq = self.send_mask(cores)
        while True:
            ack = self.expect(ShimMessageType.ACK)
            if ack.seq == seq:
                return ack
