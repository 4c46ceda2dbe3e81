"""Processes of a session, and processes below a process. It uses only the standard library."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator


def session_members(leader: int) -> Iterator[int]:
    """Return the processes of a session, without zombies."""
    return _processes(lambda fields: int(fields[3]) == leader)


def below(root: int) -> list[int]:
    """Return the processes below a process, without this process and zombies."""
    found, parents = {}, {}
    for pid, fields in _stats():
        parents[pid], found[pid] = int(fields[1]), fields[0]
    members = {root}
    grown = True
    while grown:
        new = {pid for pid, parent in parents.items() if parent in members} - members
        members |= new
        grown = bool(new)
    return [p for p in members - {root, os.getpid()} if found.get(p, "Z") not in "ZX"]


def _processes(wanted: Callable[[list[str]], bool]) -> Iterator[int]:
    return (pid for pid, fields in _stats() if fields[0] not in "ZX" and wanted(fields))


def _stats() -> Iterator[tuple[int, list[str]]]:
    """Yield PIDs and the fields of their stat from the state on: parent, group, session."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                yield int(name), file.read().rpartition(b")")[2].decode("ascii").split()
