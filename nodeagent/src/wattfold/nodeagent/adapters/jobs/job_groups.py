"""A control group for each job: it ends all processes at once, and limits their number.

Version 2 has `cgroup.kill` (Linux 5.14) or `cgroup.freeze`, in a separate hierarchy if the
controllers use version 1. Otherwise version 1 has the freezer. Both versions have the pids
controller. For hosts without these mechanisms, see `ending` and the limit of the account.
"""

from __future__ import annotations

import enum
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs.cpuset import (
    enable_controllers,
    make_group,
    remove_group,
    write_group,
)
from wattfold.nodeagent.ending import members_of

PIDS_MAX_DEFAULT = 16_384
_SHARE = 4
"""A job gets at most this part of the kernel's limit."""
_ENTER = "import sys; open(sys.argv[1], 'w').write('0')"
_KERNEL_LIMITS = ("/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max")


class EndMechanism(enum.Enum):
    """How all processes of a job are ended. The values are for people."""

    KILL = "cgroup.kill"
    FREEZE = "cgroup.freeze and SIGKILL"
    FREEZER_V1 = "freezer of cgroup version 1 and SIGKILL"
    SIGNALS = "SIGSTOP and SIGKILL"


class JobGroups:
    """Groups of the jobs of a node. ``ends``: root of groups to end jobs; ``counts``: to limit."""

    def __init__(
        self, ends: Path | None, counts: Path | None, mechanism: EndMechanism, pids_max: int
    ) -> None:
        self.mechanism = mechanism
        self._ends = ends
        self._counts = counts
        self._pids_max = pids_max

    @property
    def processes_max(self) -> int:
        """Limit for the account of a job if no control group limits the job; otherwise 0."""
        return 0 if self._counts is not None else self._pids_max

    def prepare(self, job: JobId) -> tuple[Path, ...]:
        """Create the groups of a job before its start. Returns the files to write its PID into.

        Raises OSError.
        """
        groups = [node / job for node in self._nodes()]
        for group in groups:
            make_group(group)
        if self._counts is not None:
            write_group(self._counts / job / "pids.max", str(self._pids_max))
        return tuple(group / "cgroup.procs" for group in groups)

    def of(self, job: JobId) -> list[str]:
        """Return the groups that can end all processes of a job."""
        group = f"{self._ends}/{job}"
        return [group] if self._ends is not None and os.path.isdir(group) else []

    def freeze(self, job: JobId, *, hold: bool) -> bool:
        """Suspend or resume all processes of a job. Returns False if no group can do this.

        Raises OSError.
        """
        if self._ends is None:
            return False
        group = self._ends / job
        for file, still, moving in (
            ("cgroup.freeze", "1", "0"),
            ("freezer.state", "FROZEN", "THAWED"),
        ):
            if (group / file).exists():
                write_group(group / file, still if hold else moving)
                return True
        return False

    def processes(self, job: JobId) -> list[int]:
        """Return the processes in the group of a job; empty without a group."""
        if self._ends is None:
            return []
        try:
            return members_of(str(self._ends / job))
        except OSError:
            return []

    def remove(self, job: JobId) -> None:
        """Remove the groups of a job that has ended."""
        for node in self._nodes():
            remove_group(node / job)

    def close(self) -> None:
        """Remove the node's groups if no job is left."""
        for node in self._nodes():
            remove_group(node)

    def _nodes(self) -> list[Path]:
        return list(dict.fromkeys(node for node in (self._ends, self._counts) if node is not None))


def choose_groups(cgroup_root: Path, node: str, wanted: str, pids_max: int) -> JobGroups:
    """Return the best groups here. Raises OSError if a group is required but none can end jobs."""
    pids_max = min(pids_max, pids_here())
    if wanted == "off":
        return JobGroups(None, None, EndMechanism.SIGNALS, pids_max)
    ends = _first_made(_ending_roots(cgroup_root), node, _ends_jobs, required=wanted == "cgroup")
    counts = _first_made(_counting_roots(cgroup_root), node, _counts_jobs)
    if wanted == "cgroup" and ends is None:
        why = "no control group can end a job"
        raise FileNotFoundError(errno.ENOENT, why, str(cgroup_root))
    return JobGroups(ends, counts, _mechanism(ends), pids_max)


def pids_here() -> int:
    """Return the maximum number of processes and threads of a job on this host."""
    return max(1, min(int(Path(path).read_text()) for path in _KERNEL_LIMITS) // _SHARE)


def ending_root(cgroup_root: Path) -> Path | None:
    """Return where groups that end jobs can be created, determined by reading only."""
    return next(iter(_ending_roots(cgroup_root)), None)


def _ending_roots(cgroup_root: Path) -> list[Path]:
    """Return the roots with version 2 first: alone, or next to controllers of version 1."""
    v2 = [root for root in (cgroup_root, cgroup_root / "unified") if _is_v2(root)]
    v1 = cgroup_root / "freezer"
    return [*v2, *([v1] if (v1 / "cgroup.procs").exists() else [])]


def _counting_roots(cgroup_root: Path) -> list[Path]:
    if (cgroup_root / "pids" / "cgroup.procs").exists():
        return [cgroup_root / "pids"]
    if _is_v2(cgroup_root) and "pids" in _words(cgroup_root / "cgroup.controllers"):
        return [cgroup_root]
    return []


def _first_made(
    roots: list[Path], node: str, works: Callable[[Path], bool], *, required: bool = False
) -> Path | None:
    """Return the node's group in the first of these roots that works."""
    for root in roots:
        group = root / "wattfold" / node
        try:
            for part in (group.parent, group):
                make_group(part)
                if _is_v2(part):
                    enable_controllers(part.parent)
            if _is_v2(group):
                enable_controllers(group)
        except OSError:
            if required and root is roots[-1]:
                raise
            continue
        if works(group) and may_enter(group):
            return group
    return None


def may_enter(group: Path) -> bool:
    """Whether this account may move its processes into a group, tested with a short process.

    Version 2 also requires rights to a group above, which depends on the agent's own group.
    """
    if os.geteuid() == 0:
        return True
    trial = [sys.executable, "-I", "-S", "-c", _ENTER, str(group / "cgroup.procs")]
    return subprocess.run(trial, check=False, stderr=subprocess.DEVNULL).returncode == 0


def _ends_jobs(group: Path) -> bool:
    return _mechanism(group) is not EndMechanism.SIGNALS


def _counts_jobs(group: Path) -> bool:
    return (group / "pids.max").exists()


def _mechanism(group: Path | None) -> EndMechanism:
    if group is None:
        return EndMechanism.SIGNALS
    for mechanism, file in (
        (EndMechanism.KILL, "cgroup.kill"),
        (EndMechanism.FREEZE, "cgroup.freeze"),
        (EndMechanism.FREEZER_V1, "freezer.state"),
    ):
        if (group / file).exists():
            return mechanism
    return EndMechanism.SIGNALS


def _is_v2(root: Path) -> bool:
    return (root / "cgroup.controllers").exists()


def _words(path: Path) -> list[str]:
    return path.read_text(encoding="ascii").split()
