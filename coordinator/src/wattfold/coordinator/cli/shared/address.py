"""Where the coordinator listens: the rule for the default address and the check of a given one.

Reads only its arguments, so that the coordinator can follow the same rule.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

MAX_SOCKET_PATH_BYTES = 107
"""sun_path of unix(7) holds 108 bytes with the closing zero."""


def default_address(
    environ: Mapping[str, str] | None = None, run_user: str | os.PathLike[str] = "/run/user"
) -> str:
    """The address used when none is given: a socket in the runtime directory of the user.

    The runtime directory is $XDG_RUNTIME_DIR, else /run/user/UID if there is one, else ~/.wattfold.
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


def checked_address(text: str) -> str:
    """The address itself if it is `unix:/path` or `host:port`. Raises ValueError."""
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
