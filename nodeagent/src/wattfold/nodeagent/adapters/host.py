"""Facts of the host: boot, topology, memory."""

from __future__ import annotations

import contextlib
import resource
from dataclasses import dataclass
from pathlib import Path

import psutil

from wattfold.contract.cpuset import CpuSet

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_CPUS = Path("/sys/devices/system/cpu")
_NODES = Path("/sys/devices/system/node")


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPlace:
    """Where a CPU is."""

    cpu: int
    core: int
    package: int
    numa_node: int


def boot_id() -> str:
    """Identity of the present boot. Raises OSError."""
    return _BOOT_ID.read_text(encoding="ascii").strip()


def memory_bytes() -> int:
    """Memory of the host."""
    return int(psutil.virtual_memory().total)


def topology(cpus: CpuSet) -> list[CpuPlace]:
    """Places of these CPUs; what the kernel does not tell is 0."""
    numa = _numa_nodes()
    return [
        CpuPlace(
            cpu=cpu,
            core=_number(_CPUS / f"cpu{cpu}/topology/core_id"),
            package=_number(_CPUS / f"cpu{cpu}/topology/physical_package_id"),
            numa_node=numa.get(cpu, 0),
        )
        for cpu in cpus
    ]


def raise_file_limit() -> int:
    """Allows as many descriptors as the account may have (one a job, one a shim); the old limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft


def _numa_nodes() -> dict[int, int]:
    found: dict[int, int] = {}
    for path in _NODES.glob("node[0-9]*/cpulist"):
        with contextlib.suppress(OSError, ValueError):
            number = int(path.parent.name.removeprefix("node"))
            found.update(dict.fromkeys(CpuSet.parse(path.read_text(encoding="ascii")), number))
    return found


def _number(path: Path) -> int:
    try:
        return max(0, int(path.read_text(encoding="ascii")))
    except (OSError, ValueError):
        return 0
