"""Whether processes had a chance to run: what the kernel tells of the turns of their threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from wattfold.nodeagent.adapters import procfs
from wattfold.nodeagent.core.patience import Turns, lost_ns

_THREADS_MAX = 64
"""Of each process; the thread of a shim is among the first."""


class Chances:
    """What processes lose of the time from now on; of one that cannot be read that is nothing."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._before = {pid: _turns(pid) for pid in pids}
        self._lost_ns: Counter[int] = Counter()

    def lost_ns(self, pids: Iterable[int], elapsed_ns: int) -> int:
        """The most that one of these has lost so far; so much time has passed since last asked."""
        most_ns = 0
        for pid in pids:
            before, now = self._before.get(pid, {}), _turns(pid)
            self._before[pid] = now
            lost = [lost_ns(before[t], now[t], elapsed_ns) for t in now if t in before]
            self._lost_ns[pid] += max(lost, default=0)
            most_ns = max(most_ns, self._lost_ns[pid])
        return most_ns


def _turns(pid: int) -> dict[int, Turns]:
    found = {}
    for thread in sorted(procfs.threads_of(pid))[:_THREADS_MAX]:
        stat = procfs.read_stat(pid, thread)
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat", "rb", buffering=0) as file:
                _, waited_ns, turns = (int(word) for word in file.read(256).split())
        except (OSError, ValueError):
            continue
        if stat is not None:
            found[thread] = Turns(state=stat.state, waited_ns=waited_ns, turns=turns)
    return found
