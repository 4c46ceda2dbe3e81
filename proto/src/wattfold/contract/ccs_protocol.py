"""The bytes of CCS, the client-server protocol of Converse, on which Charm++ programs listen.

One TCP connection carries one request and its reply. With a key (``++server-auth``) a client first
gets a number and a salt (a *session*), and signs the header of every request with it; the server
advances the salt by one per request. Data is not signed: the key keeps strangers out, it does not
protect against somebody who can change what passes between the two. No sockets here.

Source: ``src/conv-ccs`` of Charm++ 8.0, checked against servers of that version.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

REPLY_BYTES_MAX = 1 << 20
HANDLER_BYTES_MAX = 31
"""The name has 32 bytes, the last is NUL."""
KEY_BYTES = 16
HASH_BYTES = 20
LENGTH_BYTES = 4

_REQUEST = struct.Struct(">Ii32s")
_SIGNED = struct.Struct(">BBBBII20s")
_U32 = struct.Struct(">I")
_SHA1, _VERSION, _MESSAGE, _NEW_SESSION = 0x80, 0, 0, 1
_DATA_BYTES_MAX = 0x1FFF_FFFF
"""A first byte from 0x20 on means another kind of message."""


class CcsFormatError(ValueError):
    """What cannot be said in CCS, or was not said in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A client as the server knows it. ``requests`` have been signed so far."""

    client: int
    salt: int
    requests: int = 0

    @property
    def next_salt(self) -> int:
        """The salt of the next request."""
        return (self.salt + self.requests) & 0xFFFF_FFFF


def header(handler: str, data_bytes: int, pe: int) -> bytes:
    """The header of a request; PE -1 is all of them. Raises CcsFormatError."""
    name = handler.encode("ascii", "replace")
    if not 0 < len(name) <= HANDLER_BYTES_MAX:
        raise CcsFormatError(f"handler {handler!r} must have 1 to {HANDLER_BYTES_MAX} bytes")
    if data_bytes > _DATA_BYTES_MAX:
        raise CcsFormatError(f"{data_bytes} bytes of data exceed the limit of {_DATA_BYTES_MAX}")
    return _REQUEST.pack(data_bytes, pe, name)


def parse_key(text: str) -> bytes:
    """A key of an authentication file: the server reads its digits as *decimal* pairs.

    Exactly 32 decimal digits are taken here: what the server makes of others is an accident.
    """
    if len(text) != 2 * KEY_BYTES or not (text.isascii() and text.isdecimal()):
        raise CcsFormatError(f"a CCS key must have {2 * KEY_BYTES} decimal digits")
    return bytes(int(text[at : at + 2]) for at in range(0, len(text), 2))


def sign(key: bytes, salt: int, signed_header: bytes = b"") -> bytes:
    """The hash that proves a key: over key, salt and the first 16 bytes of a header."""
    block = key + _U32.pack(salt) + signed_header[:16]
    # The protocol prescribes SHA-1.
    return hashlib.sha1(block.ljust(52, b"\0"), usedforsecurity=False).digest()


def session_opening(level: int, challenge: int) -> bytes:
    """Asks for a session; the server answers with a challenge of its own, an u32."""
    return bytes((_SHA1, _VERSION, _NEW_SESSION, level)) + _U32.pack(challenge)


def parse_session(key: bytes, challenge: int, answer: bytes) -> Session:
    """The session in the server's 28 bytes. Raises CcsFormatError if it does not have the key."""
    if answer[:HASH_BYTES] != sign(key, challenge):
        raise CcsFormatError("the CCS server does not have the key")
    client, salt = struct.unpack(">II", answer[HASH_BYTES:])
    return Session(client=client, salt=salt)


def signed_request(
    key: bytes, level: int, session: Session, challenge: int, request_header: bytes
) -> bytes:
    """What comes before the data of a signed request."""
    signature = sign(key, session.next_salt, request_header)
    lead = _SIGNED.pack(_SHA1, _VERSION, _MESSAGE, level, session.client, challenge, signature)
    return lead + request_header


def u32(data: bytes) -> int:
    """A length or a challenge as the server sends it."""
    return int(_U32.unpack(data)[0])


def reply_length(data: bytes) -> int:
    """The number of bytes of a reply. Raises CcsFormatError for what nobody would send."""
    length = u32(data)
    if length > REPLY_BYTES_MAX:
        raise CcsFormatError(f"a reply of {length} bytes exceeds the limit of {REPLY_BYTES_MAX}")
    return length


def parse_info(reply: bytes) -> tuple[int, ...]:
    """The PEs of every process, as ``ccs_getinfo`` answers. Raises CcsFormatError."""
    words = struct.unpack(f">{len(reply) // 4}i", reply[: len(reply) // 4 * 4])
    if len(words) < 2 or words[0] != len(words) - 1 or any(pes < 1 for pes in words[1:]):
        raise CcsFormatError(f"ccs_getinfo answered {len(reply)} bytes without PE counts")
    return words[1:]


def set_bitmap_data(current: int, wanted: int) -> bytes:
    """Data of ``set_bitmap`` in programs built with ``--enable-shrinkexpand``.

    One byte per present PE, the new number of PEs in the byte order of the host, a NUL.
    """
    kept = min(current, wanted)
    return b"\1" * kept + b"\0" * (current - kept) + struct.pack("=i", wanted) + b"\0"
