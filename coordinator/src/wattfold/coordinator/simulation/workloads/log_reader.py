"""Reads a log of jobs, whichever of the known formats it is in, which its first line tells."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from wattfold.coordinator.simulation.workloads.errors import LogError
from wattfold.coordinator.simulation.workloads.odd_rows import OddRowPolicy
from wattfold.coordinator.simulation.workloads.swf_reader import ReadLog, read_swf
from wattfold.coordinator.simulation.workloads.unit_traces import is_unit_trace, read_unit_trace

_LOOKED_AT = 1 << 16


def read_log(path: Path, policy: OddRowPolicy | None = None) -> ReadLog:
    """The jobs of a log by submit time: SWF, or traces of jobs of units. Raises LogError."""
    return read_unit_trace(path, policy) if is_unit_trace(_start(path)) else read_swf(path, policy)


def _start(path: Path) -> str:
    """The first characters; of a file whose beginning cannot be read none: its reader says why."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_LOOKED_AT)
        if data[:2] == b"\x1f\x8b":
            with gzip.open(path, "rb") as packed:
                data = packed.read(_LOOKED_AT)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return ""
    except OSError as error:
        raise LogError(path, 0, f"cannot be read: {error.strerror or error}") from error
    return data.decode("utf-8", errors="replace")
