"""Surroundings of the steps of a job on a node: environment, folder and shell."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass

_SHELL = "/bin/sh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Common settings of all steps of a job on a node."""

    key: bytes
    job: str
    node: str
    cwd: str
    env: Mapping[bytes, bytes]
    shell: str


def start_folder(wanted: bytes, other: str) -> tuple[str, str]:
    """Return the start folder: the requested or the job's folder, and the missing folder's name."""
    if os.path.isdir(wanted) and os.access(wanted, os.X_OK):
        return os.fsdecode(wanted), ""
    missing = wanted.decode("utf-8", "replace")
    return (other if os.path.isdir(other) else "/"), missing


def account_shell() -> str:
    """Return the shell of this account, as in ssh; sh for accounts without a login shell."""
    with contextlib.suppress(OSError, KeyError):
        shell = pwd.getpwuid(os.getuid()).pw_shell
        with open("/etc/shells", encoding="utf-8") as file:
            allowed = {line.strip() for line in file}
        if shell in allowed and os.access(shell, os.X_OK):
            return shell
    return _SHELL
