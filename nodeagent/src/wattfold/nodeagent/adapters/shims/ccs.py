"""A client of the CCS server inside a Charm++ program of this node.

Requests go to the loopback address only. No data from a server are trusted: lengths are limited,
and the caller sets a deadline around every call.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

from wattfold.contract import ccs_protocol as ccs

LOOPBACK = "127.0.0.1"


class CcsError(Exception):
    """The server was unreachable, closed the connection, or sent an invalid answer."""


class CcsClient:
    """Requests to one server. With a key, every request is signed at the given security level."""

    def __init__(
        self, port: int, *, key: bytes | None = None, level: int = 0, host: str = LOOPBACK
    ) -> None:
        self._host = host
        self._port = port
        self._key = key
        self._level = level
        self._session: ccs.Session | None = None

    async def request(self, handler: str, data: bytes = b"", pe: int = 0) -> bytes:
        """Return the reply of a handler; empty if there is no such handler. Raises CcsError."""
        try:
            head = ccs.header(handler, len(data), pe)
            if self._key is None:
                return await self._exchange(head + data)
            return await self._signed(self._key, head, data)
        except ccs.CcsFormatError as error:
            raise CcsError(f"port {self._port}: {error}") from None
        except (OSError, EOFError) as error:
            raise CcsError(f"port {self._port}: {error!r}: no reply to {handler}") from None

    async def pes(self) -> tuple[int, ...]:
        """Return the PEs of every process of the program. Raises CcsError."""
        reply = await self.request("ccs_getinfo")
        try:
            return ccs.parse_info(reply)
        except ccs.CcsFormatError as error:
            raise CcsError(f"port {self._port}: {error}") from None

    async def _exchange(self, message: bytes) -> bytes:
        async with self._connection() as (reader, writer):
            writer.write(message)
            return await _reply(reader)

    async def _signed(self, key: bytes, head: bytes, data: bytes) -> bytes:
        session = self._session or await self._open_session(key)
        challenge = secrets.randbits(32)
        # It is unknown whether a failed request was counted, so the next request opens a new
        # session.
        self._session = None
        async with self._connection() as (reader, writer):
            writer.write(ccs.signed_request(key, self._level, session, challenge, head) + data)
            proof = await reader.readexactly(ccs.HASH_BYTES)
            if not secrets.compare_digest(proof, ccs.sign(key, challenge)):
                raise ccs.CcsFormatError("the CCS server does not know the key")
            reply = await _reply(reader)
        self._session = ccs.Session(
            client=session.client, salt=session.salt, requests=session.requests + 1
        )
        return reply

    async def _open_session(self, key: bytes) -> ccs.Session:
        challenge = secrets.randbits(32)
        async with self._connection() as (reader, writer):
            writer.write(ccs.session_opening(self._level, challenge))
            theirs = ccs.u32(await reader.readexactly(ccs.LENGTH_BYTES))
            writer.write(ccs.sign(key, theirs))
            answer = await reader.readexactly(ccs.HASH_BYTES + 2 * ccs.LENGTH_BYTES)
        return ccs.parse_session(key, challenge, answer)

    @contextlib.asynccontextmanager
    async def _connection(
        self,
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            yield reader, writer
        finally:
            writer.close()


async def _reply(reader: asyncio.StreamReader) -> bytes:
    length = ccs.reply_length(await reader.readexactly(ccs.LENGTH_BYTES))
    return await reader.readexactly(length)
