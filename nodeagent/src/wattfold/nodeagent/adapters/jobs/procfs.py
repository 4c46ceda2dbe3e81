"""Processes of a job in /proc: members, CPU time, threads and memory.

Members are the descendants of the job's keeper. It adopts orphans, so no process escapes by a new
session. Times of /proc have a resolution of one clock tick (10 ms) but do not drift.
"""

from __future__ import annotations

import contextlib
import enum
import os
from collections.abc import Container
from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent.ending import descendants, threads_of

__all__ = ["descendants", "threads_of"]
_TICK_NS = NS_PER_S // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PARENTS_MAX = 1000
_ENVIRONMENT_BYTES_MAX = 1 << 20


class Takes(enum.Enum):
    """Effect of a signal on a process if it were sent now."""

    CAUGHT = "caught"
    """The process has a handler."""
    WAITS = "waits"
    """Blocked in a sleeping process, such as a process with a thread for its signals."""
    BLOCKED = "blocked"
    """Blocked, perhaps only briefly: in the handler of another signal, or in `vfork`."""
    NOT = "not"
    """The kernel's default action, which usually ends the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """Fields of /proc/PID/stat that the agent uses. Times are in nanoseconds."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    own_cpu_ns: int
    reaped_cpu_ns: int
    threads: int
    start_ticks: int
    memory_bytes: int
    last_cpu: int


def read_stat(pid: int, thread: int | None = None) -> Stat | None:
    """Return the state of a process or thread; None if it has ended."""
    path = f"/proc/{pid}/stat" if thread is None else f"/proc/{pid}/task/{thread}/stat"
    try:
        with open(path, "rb", buffering=0) as file:
            text = file.read(4096)
    except OSError:
        return None
    # The name may contain blanks and brackets: fields are counted from its last bracket.
    fields = text.rpartition(b")")[2].split()
    return Stat(
        pid=pid if thread is None else thread,
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        own_cpu_ns=(int(fields[11]) + int(fields[12])) * _TICK_NS,
        reaped_cpu_ns=(int(fields[13]) + int(fields[14])) * _TICK_NS,
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
        memory_bytes=int(fields[21]) * _PAGE_BYTES,
        last_cpu=int(fields[36]),
    )


def environment(pid: int) -> dict[str, str]:
    """Return the initial environment of a process; empty if it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            text = file.read(_ENVIRONMENT_BYTES_MAX)
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in text.split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, sign, value in pairs if sign}


def with_environment(entry: bytes) -> list[int]:
    """Return all processes of this host that started with this entry in their environment.

    Processes with an environment that this account may not read are left out.
    """
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                text = file.read(_ENVIRONMENT_BYTES_MAX)
        except OSError:
            continue
        if entry in text.split(b"\0"):
            found.append(int(name))
    return found


def ancestor(pid: int, candidates: Container[int]) -> int | None:
    """Return the nearest candidate among this process and its ancestors."""
    for _ in range(_PARENTS_MAX):
        if pid in candidates:
            return pid
        stat = read_stat(pid)
        if stat is None or stat.parent <= 1:
            return None
        pid = stat.parent
    return None


def takes(pid: int, number: int) -> Takes:
    """Return the effect of a signal on a process, from the state of its first thread."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            fields = dict(line.split(b":", 1) for line in file.read().splitlines())
    except OSError:
        return Takes.NOT
    has = {name: int(fields[name], 16) >> (number - 1) & 1 for name in (b"SigCgt", b"SigBlk")}
    if has[b"SigCgt"]:
        return Takes.CAUGHT
    if not has[b"SigBlk"]:
        return Takes.NOT
    return Takes.WAITS if fields[b"State"].split()[0] == b"S" else Takes.BLOCKED


def same_process(pid: int, start_ticks: int) -> bool:
    """Whether this PID is still the same process, by its start time, and has not ended."""
    stat = read_stat(pid)
    return stat is not None and stat.start_ticks == start_ticks and stat.state not in "ZX"


def cpu_ns(keeper: int, members: list[int]) -> int:
    """Return the CPU time of a job: reaped by its keeper, and used by its members until now."""
    # The keeper first: a process that ends in between is missed instead of counted twice.
    top = read_stat(keeper)
    total = 0 if top is None else top.reaped_cpu_ns
    for pid in members:
        stat = read_stat(pid)
        if stat is not None:
            total += stat.own_cpu_ns + stat.reaped_cpu_ns
    return total


def set_affinity(pids: list[int], cpus: CpuSet) -> int:
    """Set the affinity of all threads of these processes. Returns the number of threads."""
    count = 0
    mask = list(cpus)
    for pid in pids:
        for thread in threads_of(pid):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(thread, mask)
                count += 1
    return count
