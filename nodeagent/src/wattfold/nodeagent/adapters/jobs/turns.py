"""CPU starvation of processes: whether their threads had a chance to run, from /proc."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.core.patience import Turns, lost_ns

_THREADS_MAX = 64
"""Maximum number of threads per process. The thread of a shim is among the first."""


class Chances:
    """Time that processes lose from now on; 0 for a process that cannot be read."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._before = {pid: _turns(pid) for pid in pids}
        self._lost_ns: Counter[int] = Counter()

    def lost_ns(self, pids: Iterable[int], elapsed_ns: int) -> int:
        """Return the maximum loss of these processes. ``elapsed_ns``: time since the last call."""
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
