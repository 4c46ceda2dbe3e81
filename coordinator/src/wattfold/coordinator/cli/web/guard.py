"""Rules that every request must meet, and the sessions of browsers.

The server speaks for one account. On a loopback port, a browser proves that it belongs to this
account with a link: its fragment has a token that works once. On a Unix socket, the kernel names
the account of the other end. The browser then gets a session, which it sends in a header that no
page of another origin can add. Cookies would not do: they are sent to all ports of a host.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping

LINK_S = 300.0
"""Time for which a link may be opened for the first time."""
SESSIONS_MAX = 32
"""Sessions that are valid at a time; a new one ends the oldest."""
LINKS_MAX = 8
BODY_BYTES_MAX = 64 * 1024

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_LOCAL = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::(?P<port>\d{1,5}))?")
_CREDENTIALS = struct.Struct("3i")


class Guard:
    """The links and sessions of a server.

    ``port`` is the loopback port, or None for a server on a Unix socket: the browser then uses the
    port of its own end of a tunnel. ``now`` returns seconds of a steady clock.
    """

    def __init__(self, port: int | None, now: Callable[[], float]) -> None:
        self.port = port
        self._now = now
        self._links: deque[tuple[str, float]] = deque(maxlen=LINKS_MAX)
        self._sessions: deque[str] = deque(maxlen=SESSIONS_MAX)

    def new_link(self) -> str:
        """Return the token of a new link."""
        token = secrets.token_urlsafe(24)
        self._links.append((token, self._now() + LINK_S))
        return token

    def open_session(self, link: str) -> str:
        """Return a new session for a link, or on a Unix socket without a link; empty = refused."""
        if self.port is not None and not self._redeem(link):
            return ""
        session = secrets.token_urlsafe(32)
        self._sessions.append(session)
        return session

    def knows(self, session: str) -> bool:
        """Whether a session is valid."""
        given = session.encode("utf-8", "replace")
        found = [hmac.compare_digest(each.encode("ascii"), given) for each in self._sessions]
        return any(found)

    def names_us(self, host: str) -> bool:
        """Whether the header `Host` names this server, and not a rebound name of another page."""
        match = _LOCAL.fullmatch(host)
        if match is None:
            return False
        return self.port is None or match["port"] == str(self.port)

    def own_page(self, origin: str, host: str) -> bool:
        """Whether the header `Origin` is that of our page."""
        return self.names_us(host) and origin == f"http://{host}"

    def _redeem(self, link: str) -> bool:
        given, now_s = link.encode("utf-8", "replace"), self._now()
        for token, until_s in list(self._links):
            if hmac.compare_digest(token.encode("ascii"), given):
                self._links.remove((token, until_s))
                return now_s <= until_s
        return False


def peer_uid(connection: socket.socket) -> int:
    """Return the account of the other end of a Unix socket."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1])


def may_connect(uid: int) -> bool:
    """Whether an account may use a server of this account."""
    return uid in (0, os.geteuid())
