"""Facts of the host: boot, topology, memory.

The kernel's CPU tree is an argument. Offline CPUs have no topology in it.
"""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path

import psutil

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.topology import CpuPlace

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SYSTEM = Path("/sys/devices/system")


def boot_id() -> str:
    """Return the ID of the current boot. Raises OSError."""
    return _BOOT_ID.read_text(encoding="ascii").strip()


def memory_bytes() -> int:
    """Return the memory of the host in bytes."""
    return int(psutil.virtual_memory().total)


def topology(cpus: CpuSet, system: Path = SYSTEM) -> list[CpuPlace]:
    """Return the topology of these CPUs. Unknown values are 0, and the CPU has no siblings."""
    numa = _numa_nodes(system)
    return [
        CpuPlace(
            cpu=cpu,
            package=_number(system / f"cpu/cpu{cpu}/topology/physical_package_id"),
            numa_node=numa.get(cpu, 0),
            siblings=_siblings(system / f"cpu/cpu{cpu}/topology") | CpuSet.of([cpu]),
        )
        for cpu in cpus
    ]


def core_id(cpu: int, system: Path = SYSTEM) -> int:
    """Return the kernel's number of the core; not unique on the host."""
    return _number(system / f"cpu/cpu{cpu}/topology/core_id")


def isolated_cpus(system: Path = SYSTEM) -> CpuSet:
    """Return the CPUs excluded from load balancing at boot (isolcpus)."""
    return _cpu_list(system / "cpu/isolated")


def offline_cpus(system: Path = SYSTEM) -> CpuSet:
    """Return present CPUs that are offline. CPU numbers without a CPU are left out."""
    return _cpu_list(system / "cpu/present") - _cpu_list(system / "cpu/online")


def schedulable_cpus(system: Path = SYSTEM) -> CpuSet:
    """Return the CPUs for jobs: allowed by this process's affinity, online and not isolated."""
    own = CpuSet.of(os.sched_getaffinity(0))
    return own - isolated_cpus(system) - offline_cpus(system)


def raise_file_limit() -> int:
    """Raise the descriptor limit (one per job and shim) to the maximum. Returns the old limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft


def _numa_nodes(system: Path) -> dict[int, int]:
    found: dict[int, int] = {}
    for path in (system / "node").glob("node[0-9]*/cpulist"):
        number = path.parent.name.removeprefix("node")
        if number.isdigit():
            found.update(dict.fromkeys(_cpu_list(path), int(number)))
    return found


def _siblings(folder: Path) -> CpuSet:
    # Kernels before 5.7 know only the second name.
    return _cpu_list(folder / "core_cpus_list") or _cpu_list(folder / "thread_siblings_list")


def _cpu_list(path: Path) -> CpuSet:
    try:
        return CpuSet.parse(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return CpuSet()


def _number(path: Path) -> int:
    try:
        return max(0, int(path.read_text(encoding="ascii")))
    except (OSError, ValueError):
        return 0
