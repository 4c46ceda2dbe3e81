"""Messages about the processor map of a Charm++ job, as the agents measured it.

The core knows the map that belongs to the cores of a job, but not whether the program follows it.
The program may follow late, so the measured map is taken from telemetry.
"""

from __future__ import annotations

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.learning.observations import JobSample, MapSample
from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.model.jobs.spec import MAPPED
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1.node_agent_pb2 import ProcessorElement


def add_map(message: pb.Job, job: Job, samples: list[tuple[NodeId, JobSample]]) -> None:
    """Add the map of a running job of mode map, from the node where its program started."""
    if job.spec.mode not in MAPPED:
        return
    first = next(iter(job.ranks), "")
    for node_id, sample in samples:
        rank = job.ranks.get(node_id) if node_id == first else None
        if rank is None or rank.end is not None:
            continue
        # Telemetry is newer than the answer to the core: the program may have followed since.
        message.confined = sample.confined
        if sample.placement is not None:
            _add(message, sample.placement)


def _add(message: pb.Job, found: MapSample) -> None:
    message.processor_map = found.digits
    message.map_applied = found.applied
    message.map_message = found.message
    message.surplus_processes = found.surplus
    for pe in found.pes:
        element = ProcessorElement(
            pe=pe.pe,
            enabled=pe.enabled,
            pid=pe.pid,
            cpu_ns=pe.cpu_ns,
            memory_bytes=pe.memory_bytes,
        )
        if pe.objects is not None:
            element.objects = pe.objects
        message.processors.append(element)


def statements(message: pb.Job) -> list[str]:
    """Explain the map of a job, one statement per line."""
    pe_map, pes = message.processor_map, message.processors
    left = [share.node_id for share in message.shares if share.resident]
    there = (
        f"It has residual processes but no cores on {', '.join(left)}; it may get cores "
        "there again while it runs."
    )
    lines = [there] if left else []
    if not pe_map:
        return lines + ([f"Its processor map: {message.map_message}."] * bool(message.map_message))
    lines += [
        f"Its objects may be on {pe_map.count('1')} of its {len(pe_map)} PEs ({pe_map}), one "
        "PE for each of its cores."
    ]
    if not message.map_applied:
        lines.append(
            "This is not the last requested map: "
            f"{message.map_message or 'the request is pending'}."
        )
    residual = [pe for pe in pes if not pe.enabled and pe.pid]
    if residual:
        held_mib = sum(pe.memory_bytes for pe in residual) >> 20
        lines.append(
            f"Residual PEs: {len(residual)}, with {held_mib} MiB; they take part in reductions and"
            " are never slowed."
        )
    if message.surplus_processes:
        lines.append(f"Processes left over from restarts: {message.surplus_processes}.")
    return lines
