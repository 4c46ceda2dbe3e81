"""Usable PEs of a Charm++ job: a function of its size and its cores.

The program is started with one PE for each core that it can ever get. The first PEs are enabled,
one for each held core. The map depends only on the number of cores. So moving a job to other cores
moves no objects, and a program that renumbers its PEs (``set_bitmap``) can follow. The kernel
chooses the core on which a PE runs.
"""

from __future__ import annotations

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.processor_map import first_pes
from wattfold.coordinator.core.model.jobs.spec import MAPPED, JobSpec


def map_of(spec: JobSpec, cpus: CpuSet, launch_cpus: int) -> bytes:
    """Return the map for these cores, one byte per PE; empty = there is no map to send.

    Jobs of other modes have no map. With ``launch_cpus`` 0, from an older journal, the number of
    PEs is unknown here. The agent knows it and then computes the map.
    """
    if spec.mode not in MAPPED or not cpus or len(cpus) > launch_cpus:
        return b""
    return first_pes(launch_cpus, len(cpus))
