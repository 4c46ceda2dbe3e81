"""Wire format of CCS, the client-server protocol of Converse, on which Charm++ programs listen.

One TCP connection carries one request and its reply. With a key (``++server-auth``) a client first
receives a number and a salt (a *session*), and signs the header of every request with it. The
server increments the salt by one per request. Data is not signed. The key keeps strangers out; it
does not protect against an attacker who can modify the traffic. This module opens no sockets.

Source: ``src/conv-ccs`` of Charm++ 8.0, checked against servers of that version.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

REPLY_BYTES_MAX = 1 << 20
HANDLER_BYTES_MAX = 31
"""The name has 32 bytes; the last is NUL."""
KEY_BYTES = 16
HASH_BYTES = 20
LENGTH_BYTES = 4

_REQUEST = struct.Struct(">Ii32s")
_SIGNED = struct.Struct(">BBBBII20s")
_U32 = struct.Struct(">I")
_SHA1, _VERSION, _MESSAGE, _NEW_SESSION = 0x80, 0, 0, 1
_DATA_BYTES_MAX = 0x1FFF_FFFF
"""A first byte from 0x20 on marks another kind of message."""


class CcsFormatError(ValueError):
    """A value that CCS cannot encode, or bytes that are not valid CCS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Session of a client on the server. ``requests`` counts the requests signed so far."""

    client: int
    salt: int
    requests: int = 0

    @property
    def next_salt(self) -> int:
        """Salt of the next request."""
        return (self.salt + self.requests) & 0xFFFF_FFFF


def header(handler: str, data_bytes: int, pe: int) -> bytes:
    """Return the header of a request; PE -1 stands for all PEs. Raises CcsFormatError."""
    name = handler.encode("ascii", "replace")
    if not 0 < len(name) <= HANDLER_BYTES_MAX:
        raise CcsFormatError(f"handler {handler!r} must have 1 to {HANDLER_BYTES_MAX} bytes")
    if data_bytes > _DATA_BYTES_MAX:
        raise CcsFormatError(f"{data_bytes} bytes of data exceed the limit of {_DATA_BYTES_MAX}")
    return _REQUEST.pack(data_bytes, pe, name)


def parse_key(text: str) -> bytes:
    """Return a key from an authentication file; the server reads its digits as *decimal* pairs.

    The key must have exactly 32 decimal digits; the server's reading of other texts is unspecified.
    """
    if len(text) != 2 * KEY_BYTES or not (text.isascii() and text.isdecimal()):
        raise CcsFormatError(f"a CCS key must have {2 * KEY_BYTES} decimal digits")
    return bytes(int(text[at : at + 2]) for at in range(0, len(text), 2))


def sign(key: bytes, salt: int, signed_header: bytes = b"") -> bytes:
    """Return the hash that proves a key: over key, salt and the first 16 bytes of a header."""
    block = key + _U32.pack(salt) + signed_header[:16]
    # The protocol prescribes SHA-1.
    return hashlib.sha1(block.ljust(52, b"\0"), usedforsecurity=False).digest()


def session_opening(level: int, challenge: int) -> bytes:
    """Return the request for a session; the server answers with its own challenge, a u32."""
    return bytes((_SHA1, _VERSION, _NEW_SESSION, level)) + _U32.pack(challenge)


def parse_session(key: bytes, challenge: int, answer: bytes) -> Session:
    """Return the session in the server's 28 bytes. Raises CcsFormatError if its key is wrong."""
    if answer[:HASH_BYTES] != sign(key, challenge):
        raise CcsFormatError("the CCS server does not have the key")
    client, salt = struct.unpack(">II", answer[HASH_BYTES:])
    return Session(client=client, salt=salt)


def signed_request(
    key: bytes, level: int, session: Session, challenge: int, request_header: bytes
) -> bytes:
    """Return the bytes before the data of a signed request."""
    signature = sign(key, session.next_salt, request_header)
    lead = _SIGNED.pack(_SHA1, _VERSION, _MESSAGE, level, session.client, challenge, signature)
    return lead + request_header


def u32(data: bytes) -> int:
    """Return a length or a challenge from the server's bytes."""
    return int(_U32.unpack(data)[0])


def reply_length(data: bytes) -> int:
    """Return the byte count of a reply. Raises CcsFormatError if it exceeds the limit."""
    length = u32(data)
    if length > REPLY_BYTES_MAX:
        raise CcsFormatError(f"a reply of {length} bytes exceeds the limit of {REPLY_BYTES_MAX}")
    return length


def parse_info(reply: bytes) -> tuple[int, ...]:
    """Return the PE counts of all processes from a ``ccs_getinfo`` reply. Raises CcsFormatError."""
    words = struct.unpack(f">{len(reply) // 4}i", reply[: len(reply) // 4 * 4])
    if len(words) < 2 or words[0] != len(words) - 1 or any(pes < 1 for pes in words[1:]):
        raise CcsFormatError(f"ccs_getinfo answered {len(reply)} bytes without PE counts")
    return words[1:]


def set_bitmap_data(current: int, wanted: int) -> bytes:
    """Return the data of ``set_bitmap`` for programs built with ``--enable-shrinkexpand``.

    The data consists of one byte per current PE, the new number of PEs in the byte order of the
    host, and a NUL.
    """
    kept = min(current, wanted)
    return b"\1" * kept + b"\0" * (current - kept) + struct.pack("=i", wanted) + b"\0"
