"""Accounts of jobs."""

from __future__ import annotations

import os
import pwd

from wattfold.nodeagent.core.errors import InvalidRequest, NotPermitted


def account_of(user: str, uid: int | None = None) -> pwd.struct_passwd | None:
    """Return the account of a job; None = the agent's account. Raises Refused.

    ``uid`` is the number of the account at the submission (None: unknown). Files of a shared file
    system belong to numbers, so the account must have the same number here.
    """
    if not user and uid in (None, os.geteuid()):
        return None
    account = _known(user, uid)
    if uid is not None and account.pw_uid != uid:
        raise InvalidRequest(
            f"user {user!r} has uid {account.pw_uid} on this node and {uid} where the job was"
            " submitted; give the account the same uid on all nodes"
        )
    if account.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise NotPermitted(
            f"user {account.pw_name!r}: without root the agent starts only jobs of its own account,"
            f" {_own_name()!r}; run the agent as root"
        )
    return account


def _known(user: str, uid: int | None) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user) if user else pwd.getpwuid(uid or 0)
    except KeyError:
        named = repr(user) if user else f"with uid {uid}"
        raise InvalidRequest(f"user {named} has no account on this node") from None


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
