"""Control groups in which Slurm holds the steps of a job, with version 1 or 2.

Each step has a cpuset ``.../job_J/step_S``. Only the group of the step is changed, never that of
the job: Slurm writes the job's group at the start of each step. No process is moved within version
2, because Slurm would lose it.
"""

from __future__ import annotations

import contextlib
import os
from itertools import islice
from pathlib import Path

from wattfold.contract.cpuset import CpuSet
from wattfold.nodeagent.adapters.jobs.cpuset import write_group
from wattfold.nodeagent.core.errors import Broken

_GROUPS_MAX = 256
_STEP = "step_"


class StepGroups:
    """The groups of Slurm's steps below the control groups of this host."""

    def __init__(self, cgroup_root: Path, proc: Path = Path("/proc")) -> None:
        self._root = cgroup_root
        self._proc = proc

    def find(self, pid: int, job: int) -> Path | None:
        """Return the cpuset of the step of a process; None if it is in no step of this job."""
        lines = _lines(self._proc / str(pid) / "cgroup")
        for controllers, path in lines:
            if "cpuset" in controllers:
                return _cut(self._root / "cpuset", path, job, levels=2)
        return next((_cut(self._root, p, job, levels=2) for c, p in lines if c == [""]), None)

    def accounting(self, pid: int, job: int) -> Path | None:
        """Return the group in which Slurm counts the CPU time of a job; None if it does not."""
        lines = _lines(self._proc / str(pid) / "cgroup")
        if any("cpuset" in controllers for controllers, _ in lines):
            path = next((p for controllers, p in lines if "cpuacct" in controllers), "")
            return _cut(self._root / "cpuacct", path, job, levels=1)
        return next((_cut(self._root, p, job, levels=1) for c, p in lines if c == [""]), None)

    def allocation(self, step: Path) -> CpuSet:
        """Return the CPUs that Slurm has allocated to the job of a step. Raises OSError."""
        return _cpus(step.parent)

    def read(self, step: Path) -> CpuSet:
        """Return the CPUs that the processes of a step may use. Raises OSError."""
        return _cpus(step)

    def confine(self, step: Path, cpus: CpuSet) -> None:
        """Set the CPUs of a step. Raises OSError or Refused."""
        before = (step / "cpuset.cpus").read_text(encoding="ascii").strip()
        write_group(step / "cpuset.cpus", str(cpus))
        held = _cpus(step)
        if held != cpus:
            write_group(step / "cpuset.cpus", before)
            raise Broken(f"{step}: the kernel confines it to CPUs {held} instead of {cpus}")

    def siblings(self, step: Path) -> list[Path]:
        """Return the groups of all steps of the job of this step."""
        try:
            return [path for path in step.parent.iterdir() if path.name.startswith(_STEP)]
        except OSError:
            return []


def step_processes(step: Path) -> list[int]:
    """Return the processes of a step, with its slurmstepd; none if the step has ended."""
    found: list[int] = []
    for folder, _, _ in islice(os.walk(step), _GROUPS_MAX):
        # The group of a task may end meanwhile.
        with contextlib.suppress(OSError):
            found.extend(map(int, Path(folder, "cgroup.procs").read_bytes().split()))
    return found


def step_name(step: Path) -> str:
    """Return the name of a step from its group, such as ``0`` or ``batch``."""
    return step.name.removeprefix(_STEP)


def _lines(path: Path) -> list[tuple[list[str], str]]:
    """Return controllers and path of each hierarchy of a process; none if it has ended."""
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    fields = (line.split(":", 2) for line in text.splitlines())
    return [(words[1].split(","), words[2]) for words in fields if len(words) == 3]


def _cut(root: Path, path: str, job: int, *, levels: int) -> Path | None:
    """Return the path down to the job (1 level) or its step (2 levels)."""
    words = path.strip("/").split("/")
    wanted = f"job_{job}"
    if wanted not in words:
        return None
    at = words.index(wanted)
    if levels > 1 and not (len(words) > at + 1 and words[at + 1].startswith(_STEP)):
        return None
    return root.joinpath(*words[: at + levels])


def _cpus(group: Path) -> CpuSet:
    # Version 2 accepts any list, and uses the part that the groups above permit.
    effective = group / "cpuset.cpus.effective"
    file = effective if effective.exists() else group / "cpuset.cpus"
    return CpuSet.parse(file.read_text(encoding="ascii").strip())
