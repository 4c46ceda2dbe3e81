"""CPU time of a job, from its accounting cgroup or else from /proc.

The accounting of cgroup v1 also reports the time on every CPU, in nanoseconds and including ended
threads. The accounting of v2 does not.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from wattfold.contract.ids import JobId
from wattfold.contract.plausible import cpu_ns_max
from wattfold.contract.repeats import Repeats
from wattfold.contract.units import NS_PER_S, NS_PER_US
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.adapters.jobs.cpuset import make_group, remove_group


@dataclass(frozen=True, slots=True)
class _Count:
    """The highest plausible reading of a job and its time.

    ``uncounted_ns`` is the part of it that was a jump. ``doubted`` is a newer reading, with its
    time, that is more than all CPUs could have provided. If the next reading continues from it, the
    counter has jumped. Otherwise the reading was wrong.
    """

    highest_ns: int
    taken_ns: int
    uncounted_ns: int = 0
    doubted: tuple[int, int] | None = None


class CpuClock:
    """CPU time of jobs, never decreasing. Safe to use from several threads.

    A step above the capacity of all CPUs of the host is not counted.
    """

    def __init__(
        self,
        cgroup_root: Path,
        node: str,
        *,
        use_cgroups: bool,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._v1: Path | None = None
        self._v2: Path | None = None
        self._elsewhere: dict[JobId, Path] = {}
        self._last: dict[JobId, _Count] = {}
        self._now_ns = now_ns
        self._cpus = os.cpu_count() or 1
        self._repeats = Repeats()
        if not use_cgroups:
            return
        with contextlib.suppress(OSError):
            if (cgroup_root / "cpuacct" / "cpuacct.usage").exists():
                group = cgroup_root / "cpuacct" / "wattfold" / node
                make_group(group.parent)
                make_group(group)
                self._v1 = group
            elif (cgroup_root / "cgroup.controllers").exists():
                self._v2 = cgroup_root / "wattfold" / node

    @property
    def by_group(self) -> bool:
        """Whether a cgroup counts, so that the members of a job need not be known."""
        return self._v1 is not None or self._v2 is not None

    def prepare(self, job: JobId) -> tuple[Path, ...]:
        """Create the accounting of a job to start. Returns the files to write its PID into."""
        if self._v1 is None:
            return ()
        group = self._v1 / job
        make_group(group)
        return (group / "cgroup.procs",)

    def count_in(self, job: JobId, group: Path) -> None:
        """Read the CPU time of a job from a group of its owner, such as Slurm."""
        self._elsewhere[job] = group

    def read_ns(self, job: JobId, keeper: int, members: list[int]) -> int:
        """Return the CPU time of the job until now."""
        used_ns = self._from_group(job)
        if used_ns is None:
            used_ns = procfs.cpu_ns(keeper, members)
        count = self._last[job] = self._after(job, used_ns)
        return count.highest_ns - count.uncounted_ns

    def _after(self, job: JobId, used_ns: int) -> _Count:
        now_ns = self._now_ns()
        last = self._last.get(job)
        if last is None:
            return _Count(used_ns, now_ns)
        if used_ns < last.highest_ns:
            return last
        if self._possible(used_ns - last.highest_ns, now_ns - last.taken_ns):
            return _Count(used_ns, now_ns, last.uncounted_ns)
        if last.doubted is not None:
            jumped_ns, then_ns = last.doubted
            if used_ns >= jumped_ns and self._possible(used_ns - jumped_ns, now_ns - then_ns):
                uncounted_ns = last.uncounted_ns + jumped_ns - last.highest_ns
                return _Count(used_ns, now_ns, uncounted_ns)
        if count := self._repeats.one_more(job, now_ns / NS_PER_S):
            before_s, found_s = last.highest_ns / NS_PER_S, used_ns / NS_PER_S
            told = {"before_s": f"{before_s:.3f}", "found_s": f"{found_s:.3f}"}
            means = "the step is not counted"
            logs.warning("cpu_time_jumped", job=job, **told, means=means, times=count)
        return replace(last, doubted=(used_ns, now_ns))

    def _possible(self, step_ns: int, elapsed_ns: int) -> bool:
        return step_ns <= cpu_ns_max(self._cpus, elapsed_ns)

    def by_cpu_ns(self, job: JobId) -> list[int] | None:
        """Return the CPU time of the job on CPU 0, 1, ...; None if no cgroup reports it."""
        group = self._elsewhere.get(job) or (self._v1 and self._v1 / job)
        if group is None or self._v1 is None:
            return None
        try:
            text = (group / "cpuacct.usage_percpu").read_bytes()
            return [int(word) for word in text.split()]
        except (OSError, ValueError):
            return None

    def processes(self, job: JobId) -> list[int] | None:
        """Return the processes of the job from its cgroup; None without a cgroup."""
        group = self._v1 or self._v2
        if group is None or job in self._elsewhere:
            return None
        try:
            return [int(word) for word in (group / job / "cgroup.procs").read_bytes().split()]
        except (OSError, ValueError):
            return None

    def remove(self, job: JobId) -> None:
        """Remove the accounting of a job that has ended."""
        self._last.pop(job, None)
        if self._elsewhere.pop(job, None) is not None:
            return
        if self._v1 is not None:
            remove_group(self._v1 / job)

    def close(self) -> None:
        """Remove the node's cgroup if no job is left."""
        if self._v1 is not None:
            remove_group(self._v1)

    def _from_group(self, job: JobId) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            group = self._elsewhere.get(job)
            if self._v1 is not None:
                return int(((group or self._v1 / job) / "cpuacct.usage").read_bytes())
            if self._v2 is not None:
                for line in ((group or self._v2 / job) / "cpu.stat").read_text().splitlines():
                    if line.startswith("usage_usec "):
                        return int(line.split()[1]) * NS_PER_US
        return None
