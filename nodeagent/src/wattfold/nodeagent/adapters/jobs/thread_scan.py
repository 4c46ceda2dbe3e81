"""Scan of all threads of a job: last CPUs, number of runnable threads, and context switches.

CPU time since the last scan counts for the CPU on which a thread ran last, in clock ticks of 10 ms.
Files stay open between scans, which reduces the cost of a thread from 16 to 5 us. The file of an
ended thread returns ESRCH, and a new thread with the same number has another file.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field

from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent.adapters.jobs import procfs

FILES_OPEN_MAX = 2048
_TICK_NS = NS_PER_S // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SWITCHES = b"voluntary_ctxt_switches:"


@dataclass(slots=True, kw_only=True)
class Scan:
    """Result of one scan of a job. Usage is counted since the previous scan."""

    used_ns: Counter[int] = field(default_factory=Counter)
    threads: int = 0
    runnable: int = 0
    voluntary: int = 0
    involuntary: int = 0
    memory_bytes: int = 0


class KeptFiles:
    """Files kept open for all scanners of an agent. Beyond the limit they are opened each time."""

    def __init__(self, limit: int = FILES_OPEN_MAX) -> None:
        self._left = limit

    def read(self, path: str, file: int) -> tuple[int, bytes]:
        """Return the descriptor for the next read, and the contents of a file. Raises OSError."""
        if file >= 0:
            return file, os.pread(file, 4096, 0)
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(file, 4096, 0)
        except OSError:
            os.close(file)
            raise
        if self._left > 0:
            self._left -= 1
            return file, data
        os.close(file)
        return -1, data

    def close(self, file: int) -> None:
        """Release a descriptor."""
        if file >= 0:
            os.close(file)
            self._left += 1


@dataclass(slots=True)
class _Thread:
    used_ns: int = 0
    voluntary: int = 0
    involuntary: int = 0
    stat: int = -1
    status: int = -1


class ThreadScanner:
    """Scans the threads of one job."""

    def __init__(self, files: KeptFiles, *, adopted: bool = False) -> None:
        self._files = files
        # The earlier usage of an adopted job is unknown; a new job begins at zero.
        self._first = adopted
        self._threads: dict[tuple[int, int], _Thread] = {}

    def scan(self, members: list[int], *, switches: bool = True) -> Scan:
        """Scan all threads of these processes. Switches cost more than all other values."""
        found, seen = Scan(), dict[tuple[int, int], _Thread]()
        for pid in members:
            memory_bytes = 0
            for tid in procfs.threads_of(pid):
                key = (pid, tid)
                thread = self._threads.pop(key, None) or _Thread()
                seen[key] = thread
                try:
                    resident = self._look(key, thread, found)
                    if switches:
                        self._count_switches(key, thread, found)
                except OSError:
                    self._close(seen.pop(key))
                    continue
                memory_bytes = max(memory_bytes, resident)
            found.memory_bytes += memory_bytes
        self.close()
        self._threads = seen
        self._first = self._first and not switches
        return found

    def close(self) -> None:
        """Close all files."""
        for thread in self._threads.values():
            self._close(thread)
        self._threads = {}

    def _close(self, thread: _Thread) -> None:
        self._files.close(thread.stat)
        self._files.close(thread.status)
        thread.stat = thread.status = -1

    def _look(self, key: tuple[int, int], thread: _Thread, found: Scan) -> int:
        path = f"/proc/{key[0]}/task/{key[1]}/stat"
        thread.stat, stat = self._files.read(path, thread.stat)
        # The name may contain blanks and brackets: fields are counted from its last bracket.
        fields = stat[stat.rindex(b")") + 2 :].split(None, 37)
        used_ns = (int(fields[11]) + int(fields[12])) * _TICK_NS
        if not self._first:
            found.used_ns[int(fields[36])] += max(0, used_ns - thread.used_ns)
        thread.used_ns = used_ns
        found.threads += 1
        found.runnable += fields[0] == b"R"
        return int(fields[21]) * _PAGE_BYTES

    def _count_switches(self, key: tuple[int, int], thread: _Thread, found: Scan) -> None:
        path = f"/proc/{key[0]}/task/{key[1]}/status"
        thread.status, status = self._files.read(path, thread.status)
        voluntary, involuntary = _switches(status)
        if not self._first:
            found.voluntary += max(0, voluntary - thread.voluntary)
            found.involuntary += max(0, involuntary - thread.involuntary)
        thread.voluntary, thread.involuntary = voluntary, involuntary


def _switches(status: bytes) -> tuple[int, int]:
    at = status.rfind(b"\n" + _SWITCHES)
    if at < 0:
        return 0, 0
    words = status[at:].split(None, 4)
    return int(words[1]), int(words[3])
