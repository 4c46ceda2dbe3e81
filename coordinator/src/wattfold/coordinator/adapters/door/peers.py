"""Identity of callers, from the kernel or the token.

On a unix socket the kernel reports the account and its groups. The public socket (`peer_door`)
passes them on in the address of its inner connection. Over TCP a caller with the token counts as
the account named in the configuration.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass

UNKNOWN_UID = -1
PEER_NAME = "wattfold-peer"
BY_SOCKET = "unix"
"""Address of callers whose account the kernel reported."""
_IN_GROUP = "g"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """An account and the origin of its call. ``uid`` -1 = unknown.

    ``in_group``: it belongs to the operators' group of the configuration.
    """

    uid: int
    account: str
    address: str
    in_group: bool = False

    @property
    def known(self) -> bool:
        """Whether the account is known."""
        return self.uid != UNKNOWN_UID

    @property
    def operator(self) -> bool:
        """Whether it is root, the coordinator's own account, or in the operators' group."""
        return self.known and (self.in_group or self.uid in (0, os.geteuid()))


NOBODY = Peer(uid=UNKNOWN_UID, account="", address="")


def operators_path(path: str) -> str:
    """Return the path of the operators' socket, next to the common socket."""
    return f"{path}.operators"


def account_of(uid: int) -> str:
    """Return the name of an account, or its number if it has no name."""
    return name_of(uid) or str(uid)


def name_of(uid: int) -> str:
    """Return the name of an account; empty if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def own_end(uid: int, key: str, number: int, in_group: bool = False) -> str:
    """Return the address of the inner connection that is opened for an account."""
    mark = f"-{_IN_GROUP}" if in_group else ""
    return f"\0{PEER_NAME}-{key}-{uid}-{number}{mark}"


def own_account() -> Peer:
    """Return the coordinator's account, the default holder of the token."""
    return Peer(uid=os.geteuid(), account=account_of(os.geteuid()), address="")


def peer_of(grpc_peer: str, key: str, token: Peer | None = None) -> Peer:
    """Return the peer of a call from gRPC's name for it.

    ``key`` is the key of the public socket. ``token`` is the token's account; None = our own.
    """
    if not grpc_peer.startswith("unix"):
        holder = token or own_account()
        return Peer(
            uid=holder.uid, account=holder.account, address=grpc_peer, in_group=holder.in_group
        )
    kind, _, name = grpc_peer.partition(":")
    start = f"{PEER_NAME}-{key}-"
    if kind != "unix-abstract" or not name.startswith(start):
        return NOBODY
    number, _, rest = name.removeprefix(start).partition("-")
    uid = int(number)
    in_group = rest.endswith(f"-{_IN_GROUP}")
    return Peer(uid=uid, account=account_of(uid), address=BY_SOCKET, in_group=in_group)
