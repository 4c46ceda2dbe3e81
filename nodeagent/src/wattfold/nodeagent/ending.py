"""End of processes that fork faster than they can be found.

A killed process makes room for another below the limit of its account, so killing the processes
found might never end. A stopped process keeps its place and cannot fork once the signal was sent,
because the kernel checks for signals before a fork completes. So all processes are stopped in
several passes until no new process is found, and then killed. A control group does this at once.
This module does not report whether all have ended. Keepers end processes by the same rules
(`runtime_shims/keeper/ending.c`).
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Collection, Iterable, Iterator

MEMBERS_MAX = 65_536
_PASSES_MAX = 64


def end_round(groups: Iterable[str], find: Callable[[], Collection[int]]) -> None:
    """Kill the processes in these groups and those that ``find`` returns. Some may remain."""
    for group in groups:
        with contextlib.suppress(OSError):
            _end_group(group)
    _end_found(find)


def descendants(root: int) -> list[int]:
    """Return all processes below ``root``, parents first, without itself."""
    found: list[int] = []
    queue = [root]
    while queue and len(found) < MEMBERS_MAX:
        children = children_of(queue.pop())
        found.extend(children)
        queue.extend(children)
    return found


def children_of(pid: int) -> list[int]:
    """Return the children of all threads of a process, including zombies."""
    found: list[int] = []
    for thread in threads_of(pid):
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                found.extend(int(text) for text in _whole(file.read).split())
        except OSError:
            continue
    return found


def threads_of(pid: int) -> list[int]:
    """Return the threads of a process; empty if it has ended."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def _whole(read: Callable[[int], bytes]) -> bytes:
    # These files return one page per read.
    parts = [read(1 << 20)]
    while parts[-1]:
        parts.append(read(1 << 20))
    return b"".join(parts)


def members_of(group: str) -> list[int]:
    """Return the processes in a control group. Raises OSError."""
    with open(os.path.join(group, "cgroup.procs"), "rb", buffering=0) as file:
        # Version 2 lists 0 for a process outside the reader's PID namespace.
        return [pid for text in _whole(file.read).split() if (pid := int(text))]


def _end_found(find: Callable[[], Collection[int]]) -> None:
    stopped: set[int] = set()
    for _ in range(_PASSES_MAX):
        fresh = set(find()) - stopped
        if not fresh:
            break
        _send(fresh, signal.SIGSTOP)
        stopped |= fresh
    _send(stopped.union(find()), signal.SIGKILL)


def _end_group(group: str) -> None:
    """Kill a whole group: by one write from Linux 5.14 on, or else frozen. Raises OSError."""
    kill = os.path.join(group, "cgroup.kill")
    if os.path.exists(kill):
        _write(kill, "1")
        return
    with _frozen(group):
        killed: set[int] = set()
        while fresh := set(members_of(group)) - killed:
            _send(fresh, signal.SIGKILL)
            killed |= fresh


@contextlib.contextmanager
def _frozen(group: str) -> Iterator[None]:
    """Freeze a group. No process in it can fork, and killed processes end when it is thawed."""
    path, hold, let_go = os.path.join(group, "cgroup.freeze"), "1", "0"
    if not os.path.exists(path):
        path, hold, let_go = os.path.join(group, "freezer.state"), "FROZEN", "THAWED"
    _write(path, hold)
    try:
        yield
    finally:
        _write(path, let_go)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _send(pids: Collection[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
