"""Reader of job logs, which detects the format from the first line."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.odd_rows import OddRowPolicy
from wattfold.simulator.workloads.swf_reader import ReadLog, read_swf
from wattfold.simulator.workloads.unit_traces import is_unit_trace, read_unit_trace

_LOOKED_AT = 1 << 16


def read_log(path: Path, policy: OddRowPolicy | None = None) -> ReadLog:
    """Return the jobs of a log by submit time: SWF, or traces of unit jobs. Raises LogError."""
    return read_unit_trace(path, policy) if is_unit_trace(_start(path)) else read_swf(path, policy)


def _start(path: Path) -> str:
    """Return the first characters; empty if unreadable, so that the reader reports the error."""
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
