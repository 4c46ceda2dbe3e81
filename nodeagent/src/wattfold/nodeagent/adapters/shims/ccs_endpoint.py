"""Search in /proc for the CCS server of a job and the processes of its program.

A job states in its environment the port it listens on (``WATTFOLD_CCS_PORT``) and the key
(``WATTFOLD_CCS_KEY``). The agent accepts this only if the kernel confirms that a process of the
same job holds the socket that listens on the port. So no job can direct the agent to another
program.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wattfold.contract.ccs_protocol import CcsFormatError, parse_key
from wattfold.contract.processor_map import KEY_VARIABLE, MARKER, PORT_VARIABLE
from wattfold.nodeagent.adapters.jobs import procfs

_SOCKETS_BYTES_MAX = 1 << 22
_LISTEN = b"0A"
_SHELLS = ("bash", "dash", "sh")


class CcsStatementError(ValueError):
    """The statement of a job about its CCS server is wrong. The message names the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CcsEndpoint:
    """A port on which a process of the job listens, with its key."""

    port: int
    key: bytes | None
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CharmProcess:
    """One process of a program, and its usage."""

    pid: int
    cpu_ns: int
    memory_bytes: int


def find_endpoint(members: Iterable[int]) -> CcsEndpoint | None:
    """Return the CCS server of a job; None if it states none. Raises CcsStatementError."""
    stated: tuple[str, str] | None = None
    # Every process of a job inherits the statement. Ports are looked up once.
    listening: dict[int, set[int]] = {}
    for pid in members:
        environment = procfs.environment(pid)
        if PORT_VARIABLE not in environment:
            continue
        stated = environment[PORT_VARIABLE], environment.get(KEY_VARIABLE, "")
        port = _port(stated[0])
        if port not in listening:
            listening[port] = _listeners(port)
        held = next((inode for inode in _sockets(pid) if inode in listening[port]), None)
        if held is not None:
            return CcsEndpoint(port=port, key=_key(stated[1]), inode=held)
    if stated is not None:
        raise CcsStatementError(f"no process of the job listens on CCS port {stated[0]} (yet)")
    return None


def follows_maps(members: Iterable[int]) -> bool:
    """Whether a process of the job shows, by an open file, that it accepts maps now."""
    marker = f"/memfd:{MARKER} "
    return any(target.startswith(marker) for pid in members for target in _open_files(pid))


def charm_processes(members: Iterable[int]) -> list[CharmProcess]:
    """Return the processes of a program started by charmrun, by its variable and one executable.

    With an interpreter these may be more processes: its children have the same executable.
    """
    found: list[CharmProcess] = []
    program = ""
    for pid in members:
        if "NETSTART" not in procfs.environment(pid):
            continue
        executable = _executable(pid)
        # The script of a remote shell has the variable too, and comes first.
        if not executable or os.path.basename(executable) in _SHELLS:
            continue
        program = program or executable
        stat = procfs.read_stat(pid)
        if executable != program or stat is None or stat.state in "ZX":
            continue
        found.append(CharmProcess(pid=pid, cpu_ns=stat.own_cpu_ns, memory_bytes=stat.memory_bytes))
    return found


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 65_536):
        raise CcsStatementError(f"{PORT_VARIABLE}={text[:32]!r} is not a port")
    return int(text)


def _key(text: str) -> bytes | None:
    try:
        return parse_key(text) if text else None
    except CcsFormatError as error:
        # The text is a secret.
        raise CcsStatementError(f"{KEY_VARIABLE}: {error}") from None


def _executable(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def _listeners(port: int) -> set[int]:
    """Return inodes of the TCP sockets listening on a port, in the agent's network namespace."""
    found: set[int] = set()
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/self/net/{table}", "rb") as file:
                lines = file.read(_SOCKETS_BYTES_MAX).splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) < 10 or fields[3] != _LISTEN:
                continue
            if int(fields[1].rpartition(b":")[2], 16) == port:
                found.add(int(fields[9]))
    return found


def _sockets(pid: int) -> Iterator[int]:
    """Return the inodes of the open sockets of a process."""
    for target in _open_files(pid):
        if target.startswith("socket:["):
            yield int(target[len("socket:[") : -1])


def _open_files(pid: int) -> Iterator[str]:
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError):
            yield os.readlink(f"/proc/{pid}/fd/{name}")
