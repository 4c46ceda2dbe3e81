"""Confinement of a job to cores: cgroup v1 cpuset, cgroup v2 cpuset, or plain affinity.

The kernel moves running threads immediately when a cpuset changes (62/190 us). Plain affinity has
no container for new threads: it is set on every thread, again until no new thread appears.
"""

# Each way of confining needs other arguments of the port.
# ruff: noqa: ARG002
from __future__ import annotations

import contextlib
import enum
import errno
import os
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.core.errors import Broken

_RESCANS_MAX = 50


class MaskMechanism(enum.Enum):
    """Mechanism that enforces masks."""

    CPUSET_V1 = "cpuset-v1"
    CPUSET_V2 = "cpuset-v2"
    AFFINITY = "affinity"


class MaskControl(Protocol):
    """Holds the jobs of a node to their masks. All errors are OSError or Refused."""

    mechanism: MaskMechanism

    def prepare(self, job: JobId, cpus: CpuSet) -> tuple[Path, ...]:
        """Create the confinement of a job to start. Returns the files to write its PID into."""
        ...

    def affinity_at_start(self, cpus: CpuSet) -> CpuSet:
        """Return the affinity that the process of a job sets for itself before it starts."""
        ...

    def confine(self, job: JobId, members: list[int], keeper: int, cpus: CpuSet) -> None:
        """Set the mask of a running job."""
        ...

    def bring_back(self, members: list[int], cpus: CpuSet) -> CpuSet:
        """Move threads back that have left these CPUs. Returns where they may have run."""
        ...

    def read(self, job: JobId, pid: int) -> CpuSet:
        """Return the mask that the kernel enforces for the job."""
        ...

    def remove(self, job: JobId) -> None:
        """Remove the confinement of a job that has ended."""
        ...

    def close(self) -> None:
        """Remove the node's cgroup if no job is left."""
        ...


class CgroupMasks:
    """Masks by a cpuset for every job, under a cpuset of the node. ``mechanism``: v1 or v2."""

    def __init__(self, root: Path, node: str, cpus: CpuSet, mechanism: MaskMechanism) -> None:
        self.mechanism = mechanism
        self._cpus = cpus
        self._node = root / "wattfold" / node
        make_group(self._node.parent)
        self._fill(self._node.parent, _inherited(root, self.mechanism))
        make_group(self._node)
        self._fill(self._node, _Cpus(cpus=str(cpus), mems=_inherited(root, mechanism).mems))

    def prepare(self, job: JobId, cpus: CpuSet) -> tuple[Path, ...]:
        group = self._node / job
        make_group(group)
        self._fill(group, _Cpus(cpus=str(cpus), mems=_read(self._node / "cpuset.mems")))
        return (group / "cgroup.procs",)

    def affinity_at_start(self, cpus: CpuSet) -> CpuSet:
        # The kernel keeps a thread's own mask in addition to the cpuset: it must allow growth.
        return self._cpus

    def confine(self, job: JobId, members: list[int], keeper: int, cpus: CpuSet) -> None:
        file = self._node / job / "cpuset.cpus"
        before = _read(file)
        write_group(file, str(cpus))
        held = self.read(job, 0)
        if held != cpus:
            # Otherwise the job would spread when the groups above it are widened.
            write_group(file, before)
            raise Broken(f"job {job}: the kernel confines it to CPUs {held} instead of {cpus}")

    def bring_back(self, members: list[int], cpus: CpuSet) -> CpuSet:
        # The kernel lets no thread leave a cpuset.
        return CpuSet()

    def read(self, job: JobId, pid: int) -> CpuSet:
        # Version 2 accepts any list, and uses the part that the groups above permit.
        v2 = self.mechanism is MaskMechanism.CPUSET_V2
        file = "cpuset.cpus.effective" if v2 else "cpuset.cpus"
        return CpuSet.parse(_read(self._node / job / file))

    def remove(self, job: JobId) -> None:
        remove_group(self._node / job)

    def close(self) -> None:
        remove_group(self._node)

    def _fill(self, group: Path, values: _Cpus) -> None:
        if self.mechanism is MaskMechanism.CPUSET_V2:
            enable_controllers(group.parent)
        # The memory nodes first: a cpuset without them accepts no process.
        if values.mems:
            write_group(group / "cpuset.mems", values.mems)
        if values.cpus:
            write_group(group / "cpuset.cpus", values.cpus)


class AffinityMasks:
    """Masks by sched_setaffinity on every thread. Needs no rights beyond the job's account."""

    mechanism = MaskMechanism.AFFINITY

    def prepare(self, job: JobId, cpus: CpuSet) -> tuple[Path, ...]:
        return ()

    def affinity_at_start(self, cpus: CpuSet) -> CpuSet:
        return cpus

    def confine(self, job: JobId, members: list[int], keeper: int, cpus: CpuSet) -> None:
        wanted = set(cpus)
        pids = members
        for _ in range(_RESCANS_MAX):
            procfs.set_affinity(pids, cpus)
            pids = procfs.descendants(keeper) or members
            if all(_affinity(t) <= wanted for p in pids for t in procfs.threads_of(p)):
                return
        # Not an error: a later check shows which cores the job has left.

    def bring_back(self, members: list[int], cpus: CpuSet) -> CpuSet:
        outside: set[int] = set()
        for thread in (thread for pid in members for thread in procfs.threads_of(pid)):
            own = _affinity(thread)
            if own <= cpus.cpus:
                continue
            outside |= own - cpus.cpus
            # A binding within its cores stays. A thread of another account cannot be moved.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.sched_setaffinity(thread, own & cpus.cpus or cpus.cpus)
        return CpuSet.of(outside)

    def read(self, job: JobId, pid: int) -> CpuSet:
        return CpuSet.of(os.sched_getaffinity(pid))

    def remove(self, job: JobId) -> None:
        return

    def close(self) -> None:
        return


class _Cpus:
    def __init__(self, *, cpus: str, mems: str) -> None:
        self.cpus = cpus
        self.mems = mems


def _affinity(thread: int) -> set[int]:
    """Return the CPUs a thread may use; none if it has ended."""
    try:
        return os.sched_getaffinity(thread)
    except ProcessLookupError:
        return set()


def choose_masks(cgroup_root: Path, node: str, cpus: CpuSet, wanted: str) -> MaskControl:
    """Return the best working mechanism. Raises OSError if cgroup is required but unusable."""
    if wanted == "affinity":
        return AffinityMasks()
    try:
        found = cpuset_here(cgroup_root)
        if found is not None:
            return CgroupMasks(found[0], node, cpus, found[1])
        if wanted == "cgroup":
            raise FileNotFoundError(errno.ENOENT, "no cpuset controller", str(cgroup_root))
    except OSError:
        if wanted == "cgroup":
            raise
    return AffinityMasks()


def cpuset_here(cgroup_root: Path) -> tuple[Path, MaskMechanism] | None:
    """Return the cpuset controller of this host and its version. Raises OSError.

    It changes nothing, so it does not check whether this account may use the controller.
    """
    if (cgroup_root / "cpuset" / "cpuset.cpus").exists():
        return cgroup_root / "cpuset", MaskMechanism.CPUSET_V1
    if "cpuset" in _read(cgroup_root / "cgroup.controllers").split():
        return cgroup_root, MaskMechanism.CPUSET_V2
    return None


def _inherited(root: Path, mechanism: MaskMechanism) -> _Cpus:
    if mechanism is MaskMechanism.CPUSET_V2:
        return _Cpus(cpus="", mems="")
    return _Cpus(cpus=_read(root / "cpuset.cpus"), mems=_read(root / "cpuset.mems"))


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()


def make_group(path: Path) -> None:
    """Create a cgroup if it is missing. Raises OSError."""
    path.mkdir(exist_ok=True)


def write_group(path: Path, value: str) -> None:
    """Write one value of a cgroup. Raises OSError with the path."""
    # Several times for each job, so without a buffer and a decoder.
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(fd, value.encode("ascii"))
    finally:
        os.close(fd)


def remove_group(path: Path) -> None:
    """Remove a cgroup unless something is left in it.

    The group above those of the nodes is never removed, because other agents of this host may be
    about to create theirs in it.
    """
    with contextlib.suppress(FileNotFoundError, OSError):
        path.rmdir()


def enable_controllers(group: Path, names: Collection[str] = ("cpuset", "cpu", "pids")) -> None:
    """Let the children of a v2 cgroup use the controllers that it has. Raises OSError."""
    available = _read(group / "cgroup.controllers").split()
    wanted = [name for name in names if name in available]
    if wanted:
        write_group(group / "cgroup.subtree_control", " ".join(f"+{name}" for name in wanted))
