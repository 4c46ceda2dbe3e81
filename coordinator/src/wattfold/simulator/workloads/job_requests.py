"""Requests of jobs for resources of their nodes, from a CSV file next to a log.

Logs have no columns for these requests. The columns are ``job_id`` and any of ``cores`` (0 or
empty: whole nodes), ``memory_mib``, ``gpus`` and ``features`` (names separated by spaces). Sizes in
the log then count units with these resources. Jobs missing from the file request whole nodes and
nothing else.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.swf_writer import whole_file

COLUMNS = ("job_id", "cores", "memory_mib", "gpus", "features")
MIB = 1 << 20
MOST = 1 << 40


class RequestFileError(LogError):
    """A file of requests that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """Request of each unit of a job to its node; 0 cores: all cores."""

    cores: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    features: tuple[str, ...] = ()


def read_requests(path: Path) -> dict[int, JobRequest]:
    """Return the requests of a file by job number. Raises RequestFileError with the line."""
    found: dict[int, JobRequest] = {}
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = csv.DictReader(stream)
            names = rows.fieldnames or ()
            if "job_id" not in names or not set(names) <= set(COLUMNS):
                raise RequestFileError(path, 1, f"expected job_id and any of {', '.join(COLUMNS)}")
            for row in rows:
                try:
                    found[int(row["job_id"])] = _request(row)
                except (TypeError, ValueError) as error:
                    raise RequestFileError(
                        path, rows.line_num, f"not a request: {error}"
                    ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise RequestFileError(path, 0, f"cannot be read: {error}") from error
    except csv.Error as error:
        raise RequestFileError(path, 0, f"not CSV: {error}") from error
    return found


def write_requests(requests: Mapping[int, JobRequest], path: Path) -> None:
    """Write a file for `read_requests`; memory is rounded up to MiB. Raises LogError."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for job_id, one in requests.items():
        mib = -(-one.memory_bytes // MIB)
        writer.writerow((job_id, one.cores, mib, one.gpus, " ".join(one.features)))
    with whole_file(path) as stream:
        stream.write(text.getvalue().encode())


def _request(row: Mapping[str, str | None]) -> JobRequest:
    cores, mib, gpus = (_whole(row, key) for key in ("cores", "memory_mib", "gpus"))
    features = tuple(sorted(set((row.get("features") or "").split())))
    return JobRequest(cores=cores, memory_bytes=mib * MIB, gpus=gpus, features=features)


def _whole(row: Mapping[str, str | None], key: str) -> int:
    value = int(row.get(key) or 0)
    if not 0 <= value < MOST:
        raise ValueError(f"{key} is {value}")
    return value
