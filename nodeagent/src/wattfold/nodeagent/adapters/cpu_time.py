"""CPU time of a job: from its accounting cgroup where there is one, else from /proc.

The accounting of cgroup v1 also tells the time on every CPU, in nanoseconds and with threads that
have ended; that of v2 does not.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_US
from wattfold.nodeagent.adapters import procfs
from wattfold.nodeagent.adapters.cpuset import make_group, remove_group


class CpuClock:
    """CPU time of jobs, never running backwards. Safe to use from several threads."""

    def __init__(self, cgroup_root: Path, node: str, *, use_cgroups: bool) -> None:
        self._v1: Path | None = None
        self._v2: Path | None = None
        self._last: dict[JobId, int] = {}
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
        """Makes the accounting of a job that is to start; files its process writes itself into."""
        if self._v1 is None:
            return ()
        make_group(self._v1 / job)
        return (self._v1 / job / "cgroup.procs",)

    def read_ns(self, job: JobId, keeper: int, members: list[int]) -> int:
        """CPU time of the job so far."""
        used_ns = self._from_group(job)
        if used_ns is None:
            used_ns = procfs.cpu_ns(keeper, members)
        self._last[job] = max(used_ns, self._last.get(job, 0))
        return self._last[job]

    def by_cpu_ns(self, job: JobId) -> list[int] | None:
        """CPU time of the job so far on CPU 0, 1, ...; None where no cgroup tells it."""
        if self._v1 is None:
            return None
        try:
            text = (self._v1 / job / "cpuacct.usage_percpu").read_bytes()
            return [int(word) for word in text.split()]
        except (OSError, ValueError):
            return None

    def processes(self, job: JobId) -> list[int] | None:
        """The processes of the job as its cgroup tells them; None without one."""
        group = self._v1 or self._v2
        if group is None:
            return None
        try:
            return [int(word) for word in (group / job / "cgroup.procs").read_bytes().split()]
        except (OSError, ValueError):
            return None

    def remove(self, job: JobId) -> None:
        """Removes the accounting of a job that has ended."""
        self._last.pop(job, None)
        if self._v1 is not None:
            remove_group(self._v1 / job)

    def close(self) -> None:
        """Removes what was made for the node, if no job is left."""
        if self._v1 is not None:
            remove_group(self._v1)

    def _from_group(self, job: JobId) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            if self._v1 is not None:
                return int((self._v1 / job / "cpuacct.usage").read_bytes())
            if self._v2 is not None:
                for line in (self._v2 / job / "cpu.stat").read_text().splitlines():
                    if line.startswith("usage_usec "):
                        return int(line.split()[1]) * NS_PER_US
        return None
