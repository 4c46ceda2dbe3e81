"""Accounts and groups of the configuration, looked up when the coordinator starts."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from wattfold.coordinator.adapters.door.ownership import JobRules
from wattfold.coordinator.adapters.door.peer_door import Entrance
from wattfold.coordinator.adapters.door.peers import Peer, own_account

MODES = ("0600", "0660", "0666")
"""Modes of the socket: for the own account and root, for a group, for all users."""


class AccessError(Exception):
    """A setting cannot be applied. The message names the setting and the reason."""

    def __init__(self, reason: str, setting: str = "") -> None:
        super().__init__(reason)
        self.setting = setting


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """Settings as configured. ``root_jobs`` None = only if the coordinator runs as root."""

    socket_mode: str = MODES[0]
    socket_group: str = ""
    operators: str = ""
    token_account: str = ""
    root_jobs: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Access rights that follow from the settings on this host."""

    entrance: Entrance
    token: Peer
    rules: JobRules
    operators: str
    """Name of the operators' group; empty = none."""


def looked_up(settings: AccessSettings) -> Access:
    """Look up accounts and groups. Raises AccessError."""
    operators_gid = _gid("operators", settings.operators)
    entrance = Entrance(
        mode=int(settings.socket_mode, 8),
        gid=_gid("socket_group", settings.socket_group),
        operators_gid=operators_gid,
    )
    root_jobs = settings.root_jobs
    return Access(
        entrance=entrance,
        token=_holder(settings.token_account, operators_gid),
        rules=JobRules(root_jobs=os.geteuid() == 0 if root_jobs is None else root_jobs),
        operators=settings.operators,
    )


def check_folders(path: Path, entrance: Entrance) -> None:
    """Raise AccessError if users who may use a socket cannot reach it."""
    if entrance.mode == 0o600:
        return
    for folder in path.absolute().parents:
        info = folder.stat()
        by_group = info.st_mode & stat.S_IXGRP and info.st_gid == entrance.gid
        if not (info.st_mode & stat.S_IXOTH or by_group):
            raise AccessError(
                f"socket {path} has mode {entrance.mode:04o}, but other accounts cannot "
                f"enter {folder} (mode {stat.S_IMODE(info.st_mode):04o}); put the socket "
                "into another folder, such as /run/wattfold, or change the mode of the "
                "folder to 0711"
            )


def _gid(setting: str, group: str) -> int | None:
    if not group:
        return None
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise AccessError(
            f"{setting} = {group!r}: this group does not exist on this host", setting
        ) from None


def _holder(account: str, operators_gid: int | None) -> Peer:
    if not account:
        return own_account()
    try:
        found = pwd.getpwnam(account)
    except KeyError:
        raise AccessError(
            f"token_account = {account!r}: this account does not exist on this host",
            "token_account",
        ) from None
    in_group = operators_gid in os.getgrouplist(account, found.pw_gid)
    return Peer(uid=found.pw_uid, account=account, address="", in_group=in_group)
