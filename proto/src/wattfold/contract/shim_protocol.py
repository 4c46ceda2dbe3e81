"""Messages between an agent and the shim inside a job's process, as bytes.

One message is one frame: a 64-byte little-endian header and an optional ASCII text. The agent binds
a ROUTER socket for every job, and each shim of the job connects a DEALER. The C side of this layout
is ``runtime_shims/csrc/wire.c``. This module opens no sockets. Invalid frames raise FrameError, and
both sides drop them.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag

MAGIC = 0x31464657
"""The bytes ``WFF1``."""
TEXT_BYTES_MAX = 65_536

_HEADER = struct.Struct("<IHHQIIQQddII")
HEADER_BYTES = _HEADER.size


class FrameError(ValueError):
    """Bytes that are not a message, or a message that cannot be encoded."""


class ShimMessageType(IntEnum):
    """Kind of a message. Each description names its sender."""

    HELLO = 1
    """Shim: at every (re)connection. Text: the OpenMP runtime; seq: the last acknowledged mask."""
    MASK = 2
    """Agent: the cores of the job. Text: their CPU list."""
    ACK = 3
    """Shim: the mask of this seq is in force; no region with a larger team runs or will run."""
    STATUS = 4
    """Shim: every 500 ms while values change."""
    BYE = 5
    """Shim: at normal exit, best effort."""


class ShimFlags(IntFlag):
    """Flags of a MASK, and of a HELLO."""

    NONE = 0
    TEAM_FOLLOWS = 1
    """MASK: in team mode, the size of teams must follow the mask."""
    READS_NOTICES = 2
    """HELLO: regions obey the notice file, which may be written before the message."""


# An int, because the complement of a flag keeps only known bits.
_KNOWN_FLAGS = int(ShimFlags.TEAM_FOLLOWS | ShimFlags.READS_NOTICES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimMessage:
    """One message. Fields that a type does not use stay 0."""

    type: ShimMessageType
    flags: ShimFlags = ShimFlags.NONE
    seq: int = 0
    """Number of the mask; grows strictly within a job."""
    cores: int = 0
    """MASK: cores in the mask. From the shim: team size in force, 0 = not yet known."""
    pid: int = 0
    """Process of the sender, informative only: the kernel credentials identify a peer."""
    time_ns: int = 0
    """CLOCK_MONOTONIC of the sender at the event."""
    regions: int = 0
    """Parallel regions started so far."""
    done: float = 0.0
    """Work done in the program's own units; 0 = never reported."""
    total: float = 0.0
    """Total work in the program's own units; 0 = unknown."""
    max_team: int = 0
    """Largest team requested and granted so far."""
    notice: int = 0
    """MASK: number of the file next to the socket, ``notice.NUMBER``; 0 = no file.

    The low half of its first eight bytes, in the byte order of the machine, holds the team size of
    the newest mask.
    """
    text: str = ""

    def pack(self) -> bytes:
        """Return the frame of this message. Raises FrameError for values that do not fit."""
        _check(self)
        try:
            header = _HEADER.pack(
                MAGIC,
                self.type,
                self.flags,
                self.seq,
                self.cores,
                self.pid,
                self.time_ns,
                self.regions,
                self.done,
                self.total,
                self.max_team,
                self.notice,
            )
            return header + self.text.encode("ascii")
        except (struct.error, UnicodeEncodeError) as error:
            raise FrameError(f"{self.type.name} has a value that does not fit: {error}") from error

    @classmethod
    def unpack(cls, frame: bytes) -> ShimMessage:
        """Parse a frame. Raises FrameError for anything that ``pack`` would not write."""
        if not HEADER_BYTES <= len(frame) <= HEADER_BYTES + TEXT_BYTES_MAX:
            raise FrameError(
                f"a frame has {HEADER_BYTES} to {HEADER_BYTES + TEXT_BYTES_MAX} bytes, "
                f"got {len(frame)}"
            )
        fields = _HEADER.unpack_from(frame)
        magic, kind, flags, *numbers = fields
        if magic != MAGIC:
            raise FrameError(f"magic {magic:#010x} is not the magic of a shim")
        seq, cores, pid, time_ns, regions, done, total, max_team, notice = numbers
        try:
            message = cls(
                type=ShimMessageType(kind),
                flags=ShimFlags(flags),
                seq=seq,
                cores=cores,
                pid=pid,
                time_ns=time_ns,
                regions=regions,
                done=done,
                total=total,
                max_team=max_team,
                notice=notice,
                text=frame[HEADER_BYTES:].decode("ascii"),
            )
        except (ValueError, UnicodeDecodeError) as error:
            raise FrameError(str(error)) from error
        _check(message)
        return message


def _check(message: ShimMessage) -> None:
    for name, value in (("done", message.done), ("total", message.total)):
        if not math.isfinite(value) or value < 0:
            raise FrameError(f"{name} must be a finite number from 0, got {value}")
    if message.flags & ~_KNOWN_FLAGS:
        raise FrameError(f"unknown flags {int(message.flags):#x}")
    if len(message.text) > TEXT_BYTES_MAX:
        raise FrameError(f"text has {len(message.text)} characters, limit {TEXT_BYTES_MAX}")
