"""Who is at the other end of a call, as far as the kernel or the token says.

Over a unix socket the kernel names the account; the door (`peer_door`) tells it by the name it
gives its own end of the connection behind it. Over TCP whoever has the token is the coordinator's
account.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass

UNKNOWN_UID = -1
PEER_NAME = "wattfold-peer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """An account and where its call came from. ``uid`` -1 = not known."""

    uid: int
    account: str
    address: str

    @property
    def known(self) -> bool:
        """Whether anybody has said who it is."""
        return self.uid != UNKNOWN_UID

    @property
    def operator(self) -> bool:
        """Whether everything may be shown to it: root and the coordinator's own account."""
        return self.uid in (0, os.geteuid())


NOBODY = Peer(uid=UNKNOWN_UID, account="", address="")


def account_of(uid: int) -> str:
    """The name of an account, its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def own_end(uid: int, key: str, number: int) -> str:
    """The name of our end of a connection that is handed on for an account."""
    return f"\0{PEER_NAME}-{key}-{uid}-{number}"


def peer_of(grpc_peer: str, key: str) -> Peer:
    """The peer of a call by gRPC's name for it; ``key`` is that of the door."""
    if not grpc_peer.startswith("unix"):
        return Peer(uid=os.geteuid(), account=account_of(os.geteuid()), address=grpc_peer)
    kind, _, name = grpc_peer.partition(":")
    start = f"{PEER_NAME}-{key}-"
    if kind != "unix-abstract" or not name.startswith(start):
        return NOBODY
    uid = int(name.removeprefix(start).partition("-")[0])
    return Peer(uid=uid, account=account_of(uid), address="unix")
