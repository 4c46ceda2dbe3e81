"""Limits on the CPU time of a job: the CPU bandwidth controller, or stop and continue signals.

Used by the emulated power zones only. A quota is in CPU seconds per second.

Signals do not show their sender, and a user may stop his own job at any time. So the throttle
continues only processes that it has stopped itself. A process that is already stopped at its turn
is left alone. A process with another pending SIGSTOP stays stopped when the throttle continues it
(``keeper.py``). One case remains: a stop within the microseconds between sending and delivery of
the throttle's SIGSTOP is the same signal for the kernel, and is undone with it.
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
from wattfold.nodeagent.adapters.jobs.cpuset import (
    enable_controllers,
    make_group,
    remove_group,
    write_group,
)
from wattfold.nodeagent.stops import continue_stopped, read_stop

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
    """Holds jobs to quotas. ``tick_ns`` is the interval for calls of :meth:`tick`."""

    mechanism: ThrottleMechanism
    tick_ns: int

    def prepare(self, job: JobId, quota: float) -> tuple[Path, ...]:
        """Create the confinement of a job to start. Returns the files to write its PID into."""
        ...

    def set_quota(self, job: JobId, quota: float) -> None:
        """Change the quota of a job. Raises OSError."""
        ...

    def quota_writes(self, job: JobId, quota: float) -> list[tuple[Path, str]]:
        """Return the writes that set this quota without the agent; empty if not possible."""
        ...

    def stopped_path(self, job: JobId) -> Path | None:
        """Return the file that records stopped processes for a killed agent; None = none."""
        ...

    def tick(self, job: JobId, cpu_ns: int, now_ns: int, members: Callable[[], list[int]]) -> None:
        """Take the CPU time of a job, for a throttle that acts on it."""
        ...

    def release(self, job: JobId) -> None:
        """Let a job run without a quota from now on (it must end, or the agent leaves it)."""
        ...

    def suspend(self, job: JobId, *, suspended: bool) -> None:
        """Leave a job alone that was suspended on request, until it is resumed."""
        ...

    def remove(self, job: JobId) -> None:
        """Forget a job that has ended."""
        ...

    def close(self) -> None:
        """Remove the node's group if no job is left."""
        ...


def quota_and_period_us(quota: float) -> tuple[int, int]:
    """Return quota and period of the bandwidth controller. A small quota gets a longer period."""
    quota_us = int(quota * PERIOD_US)
    if quota_us >= QUOTA_US_MIN:
        return quota_us, PERIOD_US
    period_us = int(QUOTA_US_MIN / quota) if quota > 0 else PERIOD_US_MAX
    return QUOTA_US_MIN, min(period_us, PERIOD_US_MAX)


class BandwidthThrottle:
    """Quotas by cpu.cfs_quota_us (v1) or cpu.max (v2), with one cgroup for every job."""

    mechanism = ThrottleMechanism.CPU_BANDWIDTH
    tick_ns = 50_000_000

    def __init__(self, root: Path, node: str, *, v2: bool) -> None:
        self._v2 = v2
        self._node = root / "wattfold" / node
        self._set: dict[JobId, tuple[int, int]] = {}
        self._quota_files: dict[JobId, tuple[Path, ...]] = {}
        """Files with the quotas of the jobs, which are named at every change of any job."""
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
        files = self._files_of(job)
        if self._v2:
            return [(files[0], f"{quota_us} {period_us}")]
        return [(files[0], str(period_us)), (files[1], str(quota_us))]

    def _files_of(self, job: JobId) -> tuple[Path, ...]:
        if job not in self._quota_files:
            group = (self._node / job).absolute()
            names = ("cpu.max",) if self._v2 else ("cpu.cfs_period_us", "cpu.cfs_quota_us")
            self._quota_files[job] = tuple(group / name for name in names)
        return self._quota_files[job]

    def stopped_path(self, job: JobId) -> Path | None:
        return None

    def tick(self, job: JobId, cpu_ns: int, now_ns: int, members: Callable[[], list[int]]) -> None:
        return

    def release(self, job: JobId) -> None:
        self._set.pop(job, None)
        write_group(self._files_of(job)[-1], "max" if self._v2 else "-1")

    def suspend(self, job: JobId, *, suspended: bool) -> None:
        return

    def remove(self, job: JobId) -> None:
        self._set.pop(job, None)
        self._quota_files.pop(job, None)
        remove_group(self._node / job)

    def close(self) -> None:
        remove_group(self._node)


@dataclass(slots=True, kw_only=True)
class _Bucket:
    """Credit of a job in CPU nanoseconds. Below zero it is stopped."""

    quota: float
    credit_ns: float = 0.0
    last_ns: int | None = None
    last_cpu_ns: int = 0
    stopped: dict[int, int] = field(default_factory=dict)
    """Processes stopped by the throttle, with their start times."""
    released: bool = False


class SignalThrottle:
    """Stops a job that has used more than its credit, and continues it later.

    ``folder``: where it records the stopped processes.
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
            # Every time, so that processes started since then are stopped as well.
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
            # A pending SIGSTOP may be the user's, and another SIGSTOP would be merged with it.
            if not stop.stopped and not stop.waits
        }
        if not running:
            return
        # Before the signals, so that a killed agent leaves no process stopped without a record.
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
    """Return the bandwidth controller, or else signals. Raises OSError if cgroup is required.

    ``folder``: where stopped processes are recorded.
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
    """Return the CPU controller of this host, and whether it is v2. Raises OSError.

    It changes nothing, so it does not check whether this account may use the controller.
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
