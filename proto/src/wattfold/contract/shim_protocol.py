"""Messages between the shim inside a job and the agent of its node.

One message is one payload: a header of 64 bytes, little-endian, and optionally ASCII text. The C
side of the shim lays out the same bytes. Only encoding and decoding; no sockets.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

MAGIC = 0x31464657
_HEADER = struct.Struct("<IHHQIIQQddII")
HEADER_BYTES = _HEADER.size
assert HEADER_BYTES == 64
TEXT_BYTES_MAX = 4096
FLAG_TEAM_MUST_FOLLOW = 1
"""In a MASK: the team size of parallel regions must follow the mask (mode team)."""


class MessageType(enum.IntEnum):
    """What a message says; see :class:`Message` for who sends it."""

    HELLO = 1
    MASK = 2
    ACK = 3
    STATUS = 4
    BYE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. HELLO, ACK, STATUS, BYE go from shim to agent, MASK from agent to shim.

    ``seq`` grows with every mask of a job. ``cores`` is the size of the mask (MASK) or the team
    size in force (ACK, STATUS). ``done`` and ``total`` are in the program's own unit, total 0 = unknown.
    """

    type: MessageType
    flags: int = 0
    seq: int = 0
    cores: int = 0
    pid: int = 0
    time_ns: int = 0
    regions: int = 0
    done: float = 0.0
    total: float = 0.0
    max_team: int = 0
    text: str = ""


def encode(message: Message) -> bytes:
    """The payload of a message. Raises ValueError for a text that is not ASCII or too long."""
    text = message.text.encode("ascii")
    if len(text) > TEXT_BYTES_MAX:
        raise ValueError(f"text of {len(text)} bytes, more than {TEXT_BYTES_MAX}")
    header = _HEADER.pack(
        MAGIC,
        message.type,
        message.flags,
        message.seq,
        message.cores,
        message.pid,
        message.time_ns,
        message.regions,
        message.done,
        message.total,
        message.max_team,
        0,
    )
    return header + text


def decode(payload: bytes) -> Message | None:
    """The message of a payload; None if it is short, too long, or of unknown magic or type."""
    if not HEADER_BYTES <= len(payload) <= HEADER_BYTES + TEXT_BYTES_MAX:
        return None
    magic, kind, flags, seq, cores, pid, time_ns, regions, done, total, max_team, _ = (
        _HEADER.unpack_from(payload)
    )
    if magic != MAGIC or kind not in set(MessageType):
        return None
    try:
        text = payload[HEADER_BYTES:].decode("ascii")
    except UnicodeDecodeError:
        return None
    return Message(
        type=MessageType(kind),
        flags=flags,
        seq=seq,
        cores=cores,
        pid=pid,
        time_ns=time_ns,
        regions=regions,
        done=done,
        total=total,
        max_team=max_team,
        text=text,
    )
