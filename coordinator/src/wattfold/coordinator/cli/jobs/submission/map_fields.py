"""Processor map of a Charm++ job for people: its PEs, and the content of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattfold.contract.units import s_from_ns
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.tables import Cell, Styled
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.v1.node_agent_pb2 import ProcessorElement

DIGITS_MAX = 32
"""Maximum length of a map that is shown in full. The JSON form always has the whole map."""
PE_ROWS_MAX = 16


def brief(job: pb.Job) -> str:
    """Return `PEs 2 of 4: 1100` for a job with a reported map, else nothing."""
    pe_map = job.processor_map
    if not pe_map:
        return ""
    text = f"PEs {pe_map.count('1')} of {len(pe_map)}"
    if len(pe_map) <= DIGITS_MAX:
        text += f": {pe_map}"
    return text if job.map_applied else f"{text}, change pending"


def sheet_fields(job: pb.Job) -> list[tuple[str, Cell]]:
    """Return the map of a job, its residual PEs, and the objects outside the map."""
    if not (job.processor_map or job.map_message):
        return []
    rows: list[tuple[str, Cell]] = [("processor map", _map(job))]
    enabled = [pe for pe in job.processors if pe.enabled]
    residual = [pe for pe in job.processors if not pe.enabled]
    if any(pe.HasField("objects") for pe in job.processors):
        rows.append(("objects", _objects(enabled, residual)))
    rows += [("residual", _residual(pe)) for pe in residual[:PE_ROWS_MAX] if _known(pe)]
    if len(residual) > PE_ROWS_MAX:
        rows.append(("residual", f"{len(residual) - PE_ROWS_MAX} more PEs"))
    if job.surplus_processes:
        many = "" if job.surplus_processes == 1 else "es"
        text = f"{job.surplus_processes} process{many} from previous sizes"
        rows.append(("leftover", Styled(text, style="red")))
    return rows


def _map(job: pb.Job) -> Cell:
    if job.map_applied:
        return brief(job)
    now = brief(job) or "unknown"
    return Styled(f"{now} ({job.map_message})" if job.map_message else now, style="yellow")


def _objects(enabled: list[ProcessorElement], residual: list[ProcessorElement]) -> Cell:
    counts = " ".join(str(pe.objects) for pe in enabled[:PE_ROWS_MAX])
    more = " ..." if len(enabled) > PE_ROWS_MAX else ""
    stray = sum(pe.objects for pe in residual)
    if stray:
        return Styled(f"{counts}{more}, and {stray} on residual PEs", style="yellow")
    return f"{counts}{more}"


def _known(pe: ProcessorElement) -> bool:
    return bool(pe.pid or pe.objects)


def _residual(pe: ProcessorElement) -> str:
    parts = [f"PE {pe.pe}"]
    if pe.pid:
        parts.append(f"process {pe.pid}")
        parts.append(f"{f.duration(s_from_ns(pe.cpu_ns))} of CPU time")
        parts.append(f.memory(pe.memory_bytes))
    if pe.objects:
        parts.append(f"{pe.objects} objects")
    return ", ".join(parts)
