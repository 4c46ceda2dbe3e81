"""Diagnosis of an unreachable coordinator: one connection to its address, and its first answer.

gRPC describes such failures in texts that change with its version. This module asks the kernel and
the other side instead: it connects, begins HTTP/2 as gRPC does, and examines the first bytes.
"""

from __future__ import annotations

import os
import pwd
import socket
import stat

from wattfold.coordinator.cli.shared.connection.address import socket_path
from wattfold.coordinator.cli.shared.errors import (
    BusyError,
    NoAccessError,
    OtherServerError,
    TimedOutError,
    UnknownHostError,
    UnreachableError,
)

CONNECT_S = 3.0
ANSWER_S = 1.0
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""RFC 9113, 3.4: the preface of a client and its empty SETTINGS frame."""
_SETTINGS, _FRAME_TYPE = 4, 3
_TLS_RECORDS = (0x15, 0x16)
"""Alert and handshake: possible first bytes of a TLS server."""


def connection_failure(address: str, shown: str = "") -> UnreachableError | None:
    """Return why nothing answers at an address, or None if a gRPC server does.

    ``shown``: the address for people, if it differs.
    """
    shown = shown or address
    path = socket_path(address)
    try:
        answer = _first_bytes(path or _host_and_port(address))
    except (FileNotFoundError, ConnectionRefusedError) as error:
        return UnreachableError(
            f"no coordinator at {shown} ({_reason(error)}); start it with `wattfold-coordinator`, "
            "or give another address with --coordinator ADDRESS"
        )
    except PermissionError:
        return NoAccessError(
            f"{_account()} may not open {_described(path) or shown}; ask an administrator for "
            "access, or give another address with --coordinator ADDRESS"
        )
    except (socket.gaierror, UnicodeError) as error:
        return UnknownHostError(
            f"unknown host in the address {shown} ({_reason(error)}); correct the name, or give "
            "another address with --coordinator ADDRESS"
        )
    except BlockingIOError:
        return busy(shown)
    except TimeoutError:
        return TimedOutError(
            f"no connection to {shown} within {CONNECT_S:g} s; check the host, its firewall and "
            "the network between"
        )
    except OSError as error:
        return UnreachableError(f"cannot connect to {shown}: {_reason(error)}")
    return _meaning(answer, shown, is_local=bool(path))


def busy(shown: str) -> BusyError:
    """Return the failure of a coordinator that listens but accepts no connection."""
    return BusyError(
        f"the coordinator at {shown} is busy: it takes no more connections of this account now; "
        "try again later, with fewer commands at once"
    )


def _meaning(answer: bytes | None, shown: str, *, is_local: bool) -> UnreachableError | None:
    if answer is not None and answer[_FRAME_TYPE : _FRAME_TYPE + 1] == bytes([_SETTINGS]):
        return None
    if not answer and is_local:
        # The coordinator closes connections beyond its limits, or leaves them in the queue.
        return busy(shown)
    if answer is None:
        return TimedOutError(
            f"the server at {shown} takes connections and does not answer; try again, or check its "
            "log"
        )
    other = "give the address of the coordinator with --coordinator ADDRESS"
    if answer[:1] and answer[0] in _TLS_RECORDS:
        return OtherServerError(
            f"the server at {shown} speaks TLS, which no coordinator does; {other}"
        )
    did = "answers in another protocol" if answer else "closes connections at once"
    return OtherServerError(f"the server at {shown} {did}, so it is not a coordinator; {other}")


def _first_bytes(where: str | tuple[str, int]) -> bytes | None:
    """Return the first bytes of a server; None without any, empty if it ends the connection.

    Raises OSError without a connection, UnicodeError for a name that cannot be looked up.
    """
    if isinstance(where, str):
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(CONNECT_S)
            connection.connect(where)
        except OSError:
            connection.close()
            raise
    else:
        connection = socket.create_connection(where, CONNECT_S)
    with connection:
        connection.settimeout(ANSWER_S)
        try:
            connection.sendall(_PREFACE)
            return connection.recv(_FRAME_TYPE + 1, socket.MSG_WAITALL)
        except TimeoutError:
            return None
        except OSError:
            return b""


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else str(error)
    return (text or type(error).__name__).lower()


def _account() -> str:
    try:
        return f"account {pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"account {os.getuid()}"


def _described(path: str) -> str:
    """Return the socket with its mode and owner, as far as this account sees them."""
    if not path:
        return ""
    try:
        found = os.stat(path)
    except OSError:
        return f"the folder of the socket {path}"
    try:
        owner = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        owner = str(found.st_uid)
    return f"the socket {path} (mode {stat.S_IMODE(found.st_mode):04o}, owner {owner})"
