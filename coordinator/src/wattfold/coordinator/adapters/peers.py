"""Who is at the other end of a call, as far as the kernel or the token says.

Over a unix socket the kernel names the account and its groups; the door (`peer_door`) tells it by
the name it gives its own end of the connection behind it. Over TCP whoever has the token is the
account that the configuration names.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass

UNKNOWN_UID = -1
PEER_NAME = "wattfold-peer"
BY_SOCKET = "unix"
"""Address of callers whose account the kernel has named."""
_IN_GROUP = "g"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """An account and where its call came from. ``uid`` -1 = not known.

    ``in_group``: it is in the group of operators that the configuration names.
    """

    uid: int
    account: str
    address: str
    in_group: bool = False

    @property
    def known(self) -> bool:
        """Whether anybody has said who it is."""
        return self.uid != UNKNOWN_UID

    @property
    def operator(self) -> bool:
        """Root, the coordinator's own account, and members of the group of operators."""
        return self.known and (self.in_group or self.uid in (0, os.geteuid()))


NOBODY = Peer(uid=UNKNOWN_UID, account="", address="")


def account_of(uid: int) -> str:
    """The name of an account, its number where it has none."""
    return name_of(uid) or str(uid)


def name_of(uid: int) -> str:
    """The name of an account, empty where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def own_end(uid: int, key: str, number: int, in_group: bool = False) -> str:
    """The name of our end of a connection that is handed on for an account."""
    mark = f"-{_IN_GROUP}" if in_group else ""
    return f"\0{PEER_NAME}-{key}-{uid}-{number}{mark}"


def own_account() -> Peer:
    """Whoever has the token, where the configuration says nothing else."""
    return Peer(uid=os.geteuid(), account=account_of(os.geteuid()), address="")


def peer_of(grpc_peer: str, key: str, token: Peer | None = None) -> Peer:
    """The peer of a call by gRPC's name for it.

    ``key`` is that of the door; ``token`` the account of the token, None = our own.
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
