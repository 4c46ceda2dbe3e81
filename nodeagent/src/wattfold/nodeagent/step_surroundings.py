"""Surroundings of the steps of a job on a node: environment, folder and shell."""

from __future__ import annotations

import contextlib
import os
import pwd
import resource
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


def surroundings(key: bytes, job: str, node: str, first: int) -> Surroundings:
    """Return the settings of this process, or those of the first process of its job (0 = none).

    A host that the agent starts for a running job takes over environment, folder, umask and soft
    limits of the job's first process. Raises OSError.
    """
    cwd, env = os.getcwd(), dict(os.environb)
    if first:
        env = _environment_of(first)
        # The link is followed when a step starts.
        cwd = f"/proc/{first}/cwd"
        _take_limits_of(first)
    return Surroundings(key=key, job=job, node=node, cwd=cwd, env=env, shell=account_shell())


def _environment_of(pid: int) -> dict[bytes, bytes]:
    with open(f"/proc/{pid}/environ", "rb") as file:
        pairs = [entry.partition(b"=") for entry in file.read().split(b"\0")]
    return {name: value for name, equals, value in pairs if name and equals}


def _take_limits_of(pid: int) -> None:
    for which in {getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}:
        soft, _ = resource.prlimit(pid, which)
        _, hard = resource.getrlimit(which)
        if hard != resource.RLIM_INFINITY and (soft == resource.RLIM_INFINITY or soft > hard):
            soft = hard
        resource.setrlimit(which, (soft, hard))
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        umask = next(line for line in file if line.startswith("Umask:"))
    os.umask(int(umask.split()[1], 8))


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
