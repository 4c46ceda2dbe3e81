"""Processor maps that a job may have, and the PEs of its program on the nodes."""

from __future__ import annotations

from wattfold.contract.processor_map import MapError, check_map, digits, first_pes
from wattfold.nodeagent.core.errors import InvalidRequest
from wattfold.nodeagent.core.launch import ResizeMode
from wattfold.nodeagent.service.jobs.charm_program import MapWay, Seen
from wattfold.nodeagent.service.jobs.records import Job


def fitting_map(job: Job) -> bytes:
    """Return the requested map if it fits the cores of the job, or else the map for these cores.

    After adoption, the cores come from the kernel, and the recorded map may be older.
    """
    pe_map, cores = job.wanted_map, max(1, min(len(job.cpus), job.launch_cpus))
    # Only the coordinator knows all nodes, so the map of a job over several nodes stays.
    if len(pe_map) == pes_of(job) and (job.pes or sum(pe_map) == cores):
        return pe_map
    return first_pes(pes_of(job), cores)


def pes_of(job: Job) -> int:
    """Return the number of PEs at the start of the program."""
    return job.pes or job.launch_cpus


def checked_map(job: Job, pe_map: bytes, cores: int) -> bytes:
    """Return the requested map, or by default the map for the cores. Raises InvalidRequest.

    Empty for a job of another mode, and on nodes where the program did not start. The map of a job
    over several nodes also contains PEs of other nodes.
    """
    if job.mode is not ResizeMode.MAP or job.steps_only:
        return b""
    if not pe_map:
        return first_pes(pes_of(job), cores)
    try:
        check_map(pe_map, pes_of(job))
    except MapError as error:
        raise InvalidRequest(f"job {job.id}: {error}") from None
    if not job.pes and sum(pe_map) > cores:
        raise InvalidRequest(
            f"job {job.id}: map {digits(pe_map)} enables {sum(pe_map)} PEs on {cores} CPUs"
        )
    return pe_map


def misplaced(job: Job, seen: Seen) -> str:
    """Return why PEs of a program over several nodes are misplaced, as far as it reports them.

    The map lists node after node, with the same number of PEs on each.
    """
    if not job.pes:
        return ""
    if seen.way is MapWay.RESTART:
        return "on several nodes the program must accept maps: use WattfoldLB or charm_map"
    each = job.launch_cpus
    for pe, node in enumerate(seen.nodes):
        if node and node != pe // each + 1:
            own = pe // each + 1
            wrong = f"PE {pe} is on node {node} of the job, not on {own}"
            return f"{wrong}: start the program with +p{job.pes}"
    return ""
