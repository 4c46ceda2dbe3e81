"""The message between an agent and the shim inside a job's process, as bytes.

One message is one frame: a 64-byte little-endian header and an optional ASCII text. The agent
binds a ROUTER socket for every job, each shim of it connects a DEALER. The C side of
the same layout is ``runtime_shims/csrc/wire.c``. No sockets here; frames that do not fit raise
FrameError, and both sides drop them.
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
    """Bytes that are not a message, or a message that has no bytes."""


class ShimMessageType(IntEnum):
    """What a message says, and who says it."""

    HELLO = 1
    """Shim: at every (re)connection. Text: the OpenMP runtime, seq: the last acknowledged."""
    MASK = 2
    """Agent: the cores of the job. Text: their CPU list."""
    ACK = 3
    """Shim: the mask of this seq holds; no region with a larger team runs or will run."""
    STATUS = 4
    """Shim: every 500 ms while something changes."""
    BYE = 5
    """Shim: at normal exit, best effort."""


class ShimFlags(IntFlag):
    """Flags of a MASK, and of a HELLO."""

    NONE = 0
    TEAM_FOLLOWS = 1
    """MASK: in team mode the size of teams must follow the mask."""
    READS_NOTICES = 2
    """HELLO: regions obey what is written to the notice, which may be before the message."""


# A number: the complement of a flag has known bits only.
_KNOWN_FLAGS = int(ShimFlags.TEAM_FOLLOWS | ShimFlags.READS_NOTICES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimMessage:
    """One message. Fields a type does not use stay 0."""

    type: ShimMessageType
    flags: ShimFlags = ShimFlags.NONE
    seq: int = 0
    """Number of the mask; grows strictly within a job."""
    cores: int = 0
    """MASK: cores in the mask. From the shim: team size in force, 0 if not known yet."""
    pid: int = 0
    """Process of the sender. Informative: a peer is known by its kernel credentials alone."""
    time_ns: int = 0
    """CLOCK_MONOTONIC of the sender at the event."""
    regions: int = 0
    """Parallel regions started so far."""
    done: float = 0.0
    """The program's own count of work done; 0 if it never reported."""
    total: float = 0.0
    """The program's own count of all work; 0 if unknown."""
    max_team: int = 0
    """Largest team asked for and granted so far."""
    notice: int = 0
    """MASK: number of the file beside the socket, ``notice.NUMBER``, whose first eight bytes (of
    the machine) hold the team size of the newest mask in their low half; 0 = there is none."""
    text: str = ""

    def pack(self) -> bytes:
        """The frame of this message. Raises FrameError for values that do not fit."""
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
        """Reads a frame. Raises FrameError for anything that ``pack`` would not have written."""
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
