"""Enforcement of memory limits: by the memory controller, or by watching the memory of jobs.

With a control group, the kernel ends a process of a job that exceeds its memory, including swap if
the controller counts it. The agent detects this and ends the rest of the job. Without a control
group, the agent adds up the resident memory of the processes. Shared pages count for each process,
and a job may exceed its limit until the next check.
"""

from __future__ import annotations

import contextlib
import enum
import errno
from pathlib import Path
from typing import Protocol

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs.cpuset import (
    enable_controllers,
    make_group,
    remove_group,
    write_group,
)
from wattfold.nodeagent.adapters.jobs.job_groups import may_enter

_CONTROLLER = ("memory",)


class MemoryMechanism(enum.Enum):
    """How memory limits are enforced. The values are for people."""

    CGROUP_V1 = "memory controller of cgroup version 1"
    CGROUP_V2 = "memory controller of cgroup version 2"
    WATCHED = "resident memory of its processes"


class MemoryLimits(Protocol):
    """Port for memory limits."""

    @property
    def mechanism(self) -> MemoryMechanism:
        """The mechanism."""

    @property
    def watched(self) -> bool:
        """Whether the caller has to compare the memory of jobs with their limits."""

    def prepare(self, job: JobId, limit_bytes: int) -> tuple[Path, ...]:
        """Prepare the start of a job. Returns the files to write its PID into. Raises OSError."""

    def hit(self, job: JobId) -> bool:
        """Whether the kernel has ended a process of a job for its memory."""

    def remove(self, job: JobId) -> None:
        """Clean up after the end of a job."""

    def close(self) -> None:
        """Remove the node's group if no job is left."""


class Watched:
    """No control group: the caller watches the memory."""

    mechanism = MemoryMechanism.WATCHED
    watched = True

    def prepare(self, job: JobId, limit_bytes: int) -> tuple[Path, ...]:
        del job, limit_bytes
        return ()

    def hit(self, job: JobId) -> bool:
        del job
        return False

    def remove(self, job: JobId) -> None:
        del job

    def close(self) -> None:
        return


class GroupLimits:
    """A control group for every job with a limit, below the node's group."""

    watched = False

    def __init__(self, node: Path, mechanism: MemoryMechanism) -> None:
        self.mechanism = mechanism
        self._node = node

    def prepare(self, job: JobId, limit_bytes: int) -> tuple[Path, ...]:
        if not limit_bytes:
            return ()
        group = self._node / job
        make_group(group)
        if self.mechanism is MemoryMechanism.CGROUP_V2:
            write_group(group / "memory.max", str(limit_bytes))
            _write_if_there(group / "memory.swap.max", "0")
            _write_if_there(group / "memory.oom.group", "1")
        else:
            write_group(group / "memory.limit_in_bytes", str(limit_bytes))
            _write_if_there(group / "memory.memsw.limit_in_bytes", str(limit_bytes))
        return (group / "cgroup.procs",)

    def hit(self, job: JobId) -> bool:
        v2 = self.mechanism is MemoryMechanism.CGROUP_V2
        file = "memory.events" if v2 else "memory.oom_control"
        try:
            text = (self._node / job / file).read_text(encoding="ascii")
        except OSError:
            return False
        counts = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
        return int(counts.get("oom_kill", 0)) > 0

    def remove(self, job: JobId) -> None:
        remove_group(self._node / job)

    def close(self) -> None:
        remove_group(self._node)


def choose_memory_limits(cgroup_root: Path, node: str, wanted: str) -> MemoryLimits:
    """Return the best limits here. Raises OSError if a control group is required but unusable."""
    if wanted == "watch":
        return Watched()
    try:
        found = memory_here(cgroup_root)
        if found is not None:
            return _group_limits(found[0], node, found[1])
        if wanted == "cgroup":
            raise FileNotFoundError(errno.ENOENT, "no memory controller", str(cgroup_root))
    except OSError:
        if wanted == "cgroup":
            raise
    return Watched()


def memory_here(cgroup_root: Path) -> tuple[Path, MemoryMechanism] | None:
    """Return the memory controller that reports kills, and its version; None = there is none.

    It changes nothing, so it does not check whether this account may use it. Raises OSError.
    """
    v1 = cgroup_root / "memory"
    if (v1 / "memory.limit_in_bytes").exists():
        # Kernels before 4.13 do not count kills in this file.
        told = (v1 / "memory.oom_control").read_text(encoding="ascii")
        return (v1, MemoryMechanism.CGROUP_V1) if "oom_kill " in told else None
    controllers = cgroup_root / "cgroup.controllers"
    if controllers.exists() and "memory" in controllers.read_text(encoding="ascii").split():
        return cgroup_root, MemoryMechanism.CGROUP_V2
    return None


def _group_limits(root: Path, node: str, mechanism: MemoryMechanism) -> MemoryLimits:
    group = root / "wattfold" / node
    v2 = mechanism is MemoryMechanism.CGROUP_V2
    for part in (group.parent, group):
        if v2:
            enable_controllers(part.parent, _CONTROLLER)
        make_group(part)
        if not v2:
            # Otherwise a limit would count only the processes of the group itself.
            _write_if_there(part / "memory.use_hierarchy", "1")
    if v2:
        enable_controllers(group, _CONTROLLER)
    if not may_enter(group):
        raise PermissionError(
            errno.EACCES, "no process can be moved into this control group", str(group)
        )
    return GroupLimits(group, mechanism)


def _write_if_there(path: Path, value: str) -> None:
    """Write a file that some kernels lack, or refuse below a group that already has the setting."""
    if path.exists():
        with contextlib.suppress(OSError):
            write_group(path, value)
