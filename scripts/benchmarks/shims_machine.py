"""The machine below the shim's benchmark: its scheduler settings, and load of other programs."""

from __future__ import annotations

import ctypes
import os
import platform
import time
from contextlib import suppress
from pathlib import Path

AGENT_SLICE_NS = 100_000
RESET_ON_FORK = 1
OURS = ("wattfold", "ZMQbg/")
"""Names of the threads that the shim adds to a process."""


class _Attributes(ctypes.Structure):
    """The kernel's struct sched_attr, first version."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    ]


def take_short_turns() -> None:
    """Ask the kernel for short turns for all current threads, as the agent should.

    The agent must not wait behind busy programs. Programs started from here do not inherit it.
    """
    sched_setattr = {"x86_64": 314, "aarch64": 274}.get(platform.machine())
    if sched_setattr is None:
        return
    wish = _Attributes(size=ctypes.sizeof(_Attributes), flags=RESET_ON_FORK, runtime=AGENT_SLICE_NS)
    for task in Path("/proc/self/task").iterdir():
        # Kernels without support ignore the request; the measured values then show that.
        ctypes.CDLL(None).syscall(sched_setattr, int(task.name), ctypes.byref(wish), 0)


def take_real_time(process: int, *, on: bool = True) -> None:
    """Put the agent (this process) and a program into the real-time class, or the agent back.

    The agent and the shim's threads get priority over the program's own threads. Raises
    PermissionError without the right to do so.
    """
    high, low = os.sched_param(20), os.sched_param(10)
    policy = os.SCHED_FIFO if on else os.SCHED_OTHER
    for task in Path("/proc/self/task").iterdir():
        os.sched_setscheduler(int(task.name), policy, high if on else os.sched_param(0))
    for task in Path(f"/proc/{process}/task").iterdir() if on else ():
        with suppress(ProcessLookupError, FileNotFoundError):
            ours = (task / "comm").read_text().startswith(OURS)
            os.sched_setscheduler(int(task.name), policy, high if ours else low)


def _ticks_of(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


class Others:
    """Share of a core that all other processes used since the last call."""

    def __init__(self, *processes: int) -> None:
        self._processes = processes
        self._ticks, self._at = self._taken(), time.monotonic()

    def _taken(self) -> int:
        """Ticks of all CPUs that were neither idle nor ours. Time stolen by a host counts."""
        fields = [int(f) for f in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        idle, waiting = fields[3], fields[4]
        return sum(fields) - idle - waiting - sum(_ticks_of(p) for p in self._processes)

    def share(self) -> float:
        ticks, now = self._taken(), time.monotonic()
        used = (ticks - self._ticks) / os.sysconf("SC_CLK_TCK") / max(now - self._at, 1e-9)
        self._ticks, self._at = ticks, now
        return used
