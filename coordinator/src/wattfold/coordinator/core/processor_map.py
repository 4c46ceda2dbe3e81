"""Which PEs of a Charm++ job may be used: a function of its size and the cores it holds.

The program is started with one PE for each core it can ever get; of these the first ones are
enabled, one for each core held. The same for equal numbers of cores, wherever they are: moving a
job to other cores moves no objects, and a program that numbers its PEs anew (``set_bitmap``) can
follow as well. Which core a PE runs on is left to the kernel.
"""

from __future__ import annotations

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.processor_map import first_pes
from wattfold.coordinator.core.job import MAPPED, JobSpec


def map_of(spec: JobSpec, cpus: CpuSet, launch_cpus: int) -> bytes:
    """The map that belongs to these cores, one byte per PE; empty where there is none to send.

    That is for jobs of other modes, and where it is not known how many PEs a program was started
    with (``launch_cpus`` 0, from a journal of an earlier version): then the agent, which knows,
    finds the map itself.
    """
    if spec.mode not in MAPPED or not cpus or len(cpus) > launch_cpus:
        return b""
    return first_pes(launch_cpus, len(cpus))
