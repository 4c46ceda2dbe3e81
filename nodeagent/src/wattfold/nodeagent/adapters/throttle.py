"""Holding a job to CPU time: the CPU bandwidth controller, or stop and continue signals.

Used by the emulated power zones only. A quota is in CPU seconds a second.

Signals do not tell who sent them, and a user may stop his own job at any time. So the throttle
continues only what it has stopped itself: a process found stopped at its turn is left alone, and
one for which another SIGSTOP is waiting when it is to go on stays stopped (``keeper.py``). What
remains: a stop that comes within the microseconds in which ours is sent and not yet delivered is
the same signal for the kernel, and is undone with ours.
"""

# Each way of throttling needs other arguments of the port.
# ruff: noqa: ARG002
from __future__ import annotations

import enum
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent.adapters.cpuset import (
    enable_controllers,
    make_group,
    remove_group,
    write_group,
)
from wattfold.nodeagent.keeper import continue_stopped, read_stop

PERIOD_US = 50_000
QUOTA_US_MIN = 1_000
PERIOD_US_MAX = 1_000_000
_BURST_NS = 50_000_000
_DEBT_S_MAX = 1.0


class ThrottleMechanism(enum.Enum):
    """How an emulated cap slows jobs."""

    CPU_BANDWIDTH = "cpu-bandwidth"
    SIGNALS = "signals"


class Throttle(Protocol):
    """Holds jobs to quotas. ``tick_ns`` is how often it wants :meth:`tick` called."""

    mechanism: ThrottleMechanism
    tick_ns: int

    def prepare(self, job: JobId, quota: float) -> tuple[Path, ...]:
        """Makes what holds a job that is to start; files its process writes itself into."""
        ...

    def set_quota(self, job: JobId, quota: float) -> None:
        """Changes the quota of a job. Raises OSError."""
        ...

    def quota_writes(self, job: JobId, quota: float) -> list[tuple[Path, str]]:
        """What another process writes for this quota; nothing if only the agent can hold it."""
        ...

    def stopped_path(self, job: JobId) -> Path | None:
        """Where it keeps what it has stopped of a job, in case it is killed; None = nothing."""
        ...

    def tick(self, job: JobId, cpu_ns: int, now_ns: int, members: Callable[[], list[int]]) -> None:
        """Gives the CPU time a job has used, for a throttle that steers by it."""
        ...

    def release(self, job: JobId) -> None:
        """Lets a job run unhindered from now on (it is to die, or the agent leaves it)."""
        ...

    def suspend(self, job: JobId, *, suspended: bool) -> None:
        """Keeps its hands off a job that was stopped on request, until it is continued."""
        ...

    def remove(self, job: JobId) -> None:
        """Forgets a job that has ended."""
        ...

    def close(self) -> None:
        """Removes what was made for the node, if no job is left."""
        ...


def quota_and_period_us(quota: float) -> tuple[int, int]:
    """Quota and period of the bandwidth controller; a small quota gets a longer period."""
    quota_us = int(quota * PERIOD_US)
    if quota_us >= QUOTA_US_MIN:
        return quota_us, PERIOD_US
    period_us = int(QUOTA_US_MIN / quota) if quota > 0 else PERIOD_US_MAX
    return QUOTA_US_MIN, min(period_us, PERIOD_US_MAX)


class BandwidthThrottle:
    """Quotas by cpu.cfs_quota_us (v1) or cpu.max (v2), one cgroup for every job."""

    mechanism = ThrottleMechanism.CPU_BANDWIDTH
    tick_ns = 50_000_000

    def __init__(self, root: Path, node: str, *, v2: bool) -> None:
        self._v2 = v2
        self._node = root / "wattfold" / node
        self._set: dict[JobId, tuple[int, int]] = {}
        for group in (self._node.parent, self._node):
            make_group(group)
            if v2:
                enable_controllers(group.parent)

    def prepare(self, job: JobId, quota: float) -> tuple[Path, ...]:
        group = self._node / job
        if self._v2:
            enable_controllers(self._node)
        make_group(group)
        self.set_quota(job, quota)
        return (group / "cgroup.procs",)

    def set_quota(self, job: JobId, quota: float) -> None:
        values = quota_and_period_us(quota)
        if self._set.get(job) == values:
            return
        for path, text in self.quota_writes(job, quota):
            write_group(path, text)
        self._set[job] = values

    def quota_writes(self, job: JobId, quota: float) -> list[tuple[Path, str]]:
        quota_us, period_us = quota_and_period_us(quota)
        group = (self._node / job).absolute()
        if self._v2:
            return [(group / "cpu.max", f"{quota_us} {period_us}")]
        return [
            (group / "cpu.cfs_period_us", str(period_us)),
            (group / "cpu.cfs_quota_us", str(quota_us)),
        ]

    def stopped_path(self, job: JobId) -> Path | None:
        return None

    def tick(self, job: JobId, cpu_ns: int, now_ns: int, members: Callable[[], list[int]]) -> None:
        return

    def release(self, job: JobId) -> None:
        group = self._node / job
        self._set.pop(job, None)
        if self._v2:
            write_group(group / "cpu.max", "max")
        else:
            write_group(group / "cpu.cfs_quota_us", "-1")

    def suspend(self, job: JobId, *, suspended: bool) -> None:
        return

    def remove(self, job: JobId) -> None:
        self._set.pop(job, None)
        remove_group(self._node / job)

    def close(self) -> None:
        remove_group(self._node)


@dataclass(slots=True, kw_only=True)
class _Bucket:
    """Credit of a job in CPU nanoseconds; below zero it is stopped."""

    quota: float
    credit_ns: float = 0.0
    last_ns: int | None = None
    last_cpu_ns: int = 0
    stopped: dict[int, int] = field(default_factory=dict)
    """By us: processes, with the times they started."""
    released: bool = False


class SignalThrottle:
    """Quotas by stopping a job that has used more than its credit, and continuing it later.

    ``folder``: where it keeps what it has stopped.
    """

    mechanism = ThrottleMechanism.SIGNALS
    tick_ns = 25_000_000

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._buckets: dict[JobId, _Bucket] = {}

    def prepare(self, job: JobId, quota: float) -> tuple[Path, ...]:
        self._buckets[job] = _Bucket(quota=quota)
        return ()

    def stopped_path(self, job: JobId) -> Path | None:
        return self._path(job)

    def set_quota(self, job: JobId, quota: float) -> None:
        self._buckets.setdefault(job, _Bucket(quota=quota)).quota = quota

    def quota_writes(self, job: JobId, quota: float) -> list[tuple[Path, str]]:
        return []

    def tick(self, job: JobId, cpu_ns: int, now_ns: int, members: Callable[[], list[int]]) -> None:
        bucket = self._buckets.get(job)
        if bucket is None or bucket.released:
            return
        if bucket.last_ns is None:
            bucket.last_ns, bucket.last_cpu_ns = now_ns, cpu_ns
        earned = bucket.quota * (now_ns - bucket.last_ns)
        spent = cpu_ns - bucket.last_cpu_ns
        bucket.last_ns, bucket.last_cpu_ns = now_ns, cpu_ns
        most = bucket.quota * _BURST_NS
        least = -_DEBT_S_MAX * NS_PER_S * max(bucket.quota, 0.05)
        bucket.credit_ns = min(most, max(least, bucket.credit_ns + earned - spent))
        if bucket.credit_ns < 0:
            # Every time: processes that have started since then are stopped as well.
            self._stop(job, bucket, members())
        else:
            self._continue(job, bucket)

    def release(self, job: JobId) -> None:
        bucket = self._buckets.get(job)
        if bucket is not None:
            bucket.released = True
            self._continue(job, bucket)

    def suspend(self, job: JobId, *, suspended: bool) -> None:
        bucket = self._buckets.get(job)
        if bucket is not None:
            bucket.released = suspended

    def remove(self, job: JobId) -> None:
        self._buckets.pop(job, None)
        self._path(job).unlink(missing_ok=True)

    def close(self) -> None:
        return

    def _path(self, job: JobId) -> Path:
        return self._folder / f"{job}.stopped"

    def _stop(self, job: JobId, bucket: _Bucket, members: list[int]) -> None:
        found = {pid: stop for pid in members if (stop := read_stop(pid)) is not None}
        running = {
            pid: stop.start_ticks
            for pid, stop in found.items()
            # One that is not delivered yet may be the user's, and ours would be the same for it.
            if not stop.stopped and not stop.waits
        }
        if not running:
            return
        # Before the signals: who is killed in between leaves nobody stopped for ever.
        with self._path(job).open("a", encoding="ascii") as file:
            file.write("".join(f"{pid} {ticks}\n" for pid, ticks in running.items()))
        bucket.stopped.update(running)
        _send(running, signal.SIGSTOP)

    def _continue(self, job: JobId, bucket: _Bucket) -> None:
        if not bucket.stopped:
            return
        for pid, ticks in bucket.stopped.items():
            continue_stopped(pid, ticks)
        bucket.stopped.clear()
        self._path(job).unlink(missing_ok=True)


def choose_throttle(cgroup_root: Path, node: str, wanted: str, folder: Path) -> Throttle:
    """The bandwidth controller where it can be used, else signals. Raises OSError if wanted.

    ``folder``: for what signals have stopped.
    """
    if wanted == "signals":
        return SignalThrottle(folder)
    try:
        found = bandwidth_here(cgroup_root)
        if found is not None:
            return BandwidthThrottle(found[0], node, v2=found[1])
        if wanted == "cgroup":
            raise FileNotFoundError(2, "no cpu controller", str(cgroup_root))
    except OSError:
        if wanted == "cgroup":
            raise
    return SignalThrottle(folder)


def bandwidth_here(cgroup_root: Path) -> tuple[Path, bool] | None:
    """Where this host has the CPU controller, and whether it is v2. Raises OSError.

    It changes nothing, so it does not tell whether this account may use the controller.
    """
    folder = cgroup_root / "cpu"
    if (folder / "cpu.cfs_quota_us").exists() or (folder / "cpu.shares").exists():
        return folder, False
    if "cpu" in (cgroup_root / "cgroup.controllers").read_text(encoding="ascii").split():
        return cgroup_root, True
    return None


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue
