"""Ends processes that make others faster than they can be found.

A process that is killed makes room for another one below the limit of its account, so that killing
what is found never ends; one that is stopped keeps its place, and makes no others from the moment
the signal was sent: the kernel looks for signals before a new process counts. So all are stopped,
again and again until nobody new is found, and then killed. A control group does it at once.

Says nothing of whether all have ended: `keeper` knows that. Standard library only, little of it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Collection, Iterable, Iterator

MEMBERS_MAX = 65_536
_PASSES_MAX = 64


def end_round(groups: Iterable[str], find: Callable[[], Collection[int]]) -> None:
    """Kills what is in these control groups, and what ``find`` finds. Some may be left."""
    for group in groups:
        with contextlib.suppress(OSError):
            _end_group(group)
    _end_found(find)


def descendants(root: int) -> list[int]:
    """All processes below ``root``, parents first, without itself."""
    found: list[int] = []
    queue = [root]
    while queue and len(found) < MEMBERS_MAX:
        children = children_of(queue.pop())
        found.extend(children)
        queue.extend(children)
    return found


def children_of(pid: int) -> list[int]:
    """The children of all threads of a process, those that wait to be reaped too."""
    found: list[int] = []
    for thread in threads_of(pid):
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                found.extend(int(text) for text in _whole(file.read).split())
        except OSError:
            continue
    return found


def threads_of(pid: int) -> list[int]:
    """Threads of a process; empty when it is gone."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def _whole(read: Callable[[int], bytes]) -> bytes:
    # These files answer with a page at a time.
    parts = [read(1 << 20)]
    while parts[-1]:
        parts.append(read(1 << 20))
    return b"".join(parts)


def members_of(group: str) -> list[int]:
    """The processes in a control group. Raises OSError."""
    with open(os.path.join(group, "cgroup.procs"), "rb", buffering=0) as file:
        # Version 2 tells 0 for a process outside of the reader's namespace of processes.
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
    """Kills a group as a whole: by one write from Linux 5.14 on, else frozen. Raises OSError."""
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
    """Nothing in a frozen group makes a process; what is killed there ends when it is thawed."""
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
