"""Address of the coordinator: the default address, and the check of a given address.

The coordinator uses the same rule for its default address.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from wattfold.coordinator.adapters.door.peers import operators_path

MAX_SOCKET_PATH_BYTES = 107
"""sun_path of unix(7) holds 108 bytes, including the closing zero."""


def default_address(
    environ: Mapping[str, str] | None = None, run_user: str | os.PathLike[str] = "/run/user"
) -> str:
    """Return the default address: a socket in the runtime directory of the user.

    The runtime directory is $XDG_RUNTIME_DIR, else /run/user/UID if it exists, else ~/.wattfold.
    """
    env = os.environ if environ is None else environ
    runtime = env.get("XDG_RUNTIME_DIR", "")
    if runtime:
        folder = runtime
    elif os.path.isdir(os.path.join(run_user, str(os.getuid()))):
        folder = os.path.join(run_user, str(os.getuid()))
    else:
        folder = os.path.join(env.get("HOME") or os.path.expanduser("~"), ".wattfold")
    return f"unix:{os.path.join(folder, 'wattfold', 'coordinator.sock')}"


def entrance(address: str) -> str:
    """Return the address to connect to: the socket of operators, if this account may open it.

    It must belong to the account of the common socket. In a folder such as /tmp, another account
    could have created it.
    """
    path = socket_path(address)
    own = operators_path(path)
    try:
        same = os.stat(own).st_uid == os.stat(path).st_uid
    except OSError:
        return address
    return f"unix:{own}" if path and same and os.access(own, os.W_OK) else address


def socket_path(address: str) -> str:
    """Return the path of a local address; empty for a host and a port."""
    return address.removeprefix("unix:") if address.startswith("unix:") else ""


def checked_address(text: str) -> str:
    """Return the address if it is `unix:/path` or `host:port`. Raises ValueError."""
    if text.startswith("unix:"):
        return _checked_socket(text)
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise ValueError(f"not an address: {text!r}; expected unix:/path/to.sock or host:port")
    return text


def _checked_socket(text: str) -> str:
    path = text.removeprefix("unix:")
    if path.startswith("///"):
        path = path[2:]
    if not path.startswith("/"):
        raise ValueError(f"not an absolute socket path: {text!r}; expected unix:/path/to.sock")
    length = len(os.fsencode(path))
    if length > MAX_SOCKET_PATH_BYTES:
        raise ValueError(
            f"socket path of {length} bytes is above the limit of {MAX_SOCKET_PATH_BYTES} bytes; "
            "choose a shorter path"
        )
    return f"unix:{path}"
