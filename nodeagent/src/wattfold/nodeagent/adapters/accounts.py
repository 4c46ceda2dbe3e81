"""Accounts that jobs run as."""

from __future__ import annotations

import os
import pwd

from wattfold.nodeagent.core.errors import InvalidRequest, NotPermitted


def account_of(user: str) -> pwd.struct_passwd | None:
    """The account a job is to run as; None = that of the agent. Raises Refused."""
    if not user:
        return None
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise InvalidRequest(f"user {user!r} is not an account of this node") from None
    if account.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise NotPermitted(
            f"user {user!r}: an agent that is not root starts jobs as its own account only"
        )
    return account
