"""Reader of logs in the Standard Workload Format (SWF), version 2.2, plain or gzip.

The format: D. Feitelson and others, "The Standard Workload Format", Parallel Workloads Archive. A
line per job, eighteen numbers, -1 for unknown values, comments after ``;``.

IDs of the form ``4711_3`` or ``4711[3]`` are valid: converted logs of batch systems use them for
elements of job arrays. Each element becomes a job with an ID above all others and keeps the ID of
its array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.header import Header
from wattfold.simulator.workloads.job_requests import JobRequest
from wattfold.simulator.workloads.odd_rows import OddRowPolicy, OddRowReport
from wattfold.simulator.workloads.swf_lines import FIELDS, LineReader, RawRows
from wattfold.simulator.workloads.swf_rules import RowRules
from wattfold.simulator.workloads.workload import COLUMNS, INT_COLUMNS, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """A workload and the invalid rows of its file."""

    workload: Workload
    report: OddRowReport
    requests: Mapping[int, JobRequest] = field(default_factory=dict)
    """Request of a unit of each job, by job ID, in formats that state it."""
    queue_names: tuple[str, ...] = ()
    """Names of the queues with the numbers from 0 on, in formats with names."""


def read_swf(path: Path, policy: OddRowPolicy | None = None) -> ReadLog:
    """Read the jobs of a log, ordered by submit time and then by position in the file.

    Needs about 350 bytes per row at its peak.

    Raises:
        LogError: the file cannot be read, is not text, has only invalid rows, or has an
            invalid row under the treatment `fail`.
    """
    policy = policy or OddRowPolicy()
    report = OddRowReport()
    reader = LineReader(path, policy, report)
    rules = RowRules(path, _joined(list(reader.blocks())), policy, report)
    rules.apply()
    if report.data_lines and not len(rules.values):
        raise LogError(path, 0, f"has no job: {report.why_none()}")
    columns = {
        name: rules.values[:, index].astype(np.int64 if name in INT_COLUMNS else np.float64)
        for index, name in enumerate(COLUMNS)
    }
    header = Header(lines=tuple(reader.comments))
    workload = Workload(header=header, array_ids=rules.array_ids, **columns)  # type: ignore[arg-type]
    return ReadLog(workload=workload, report=report)


def _joined(blocks: list[RawRows]) -> RawRows:
    """Return one block of all rows. It empties the list as it goes, to save memory."""
    count = sum(len(block.lines) for block in blocks)
    rows = RawRows(
        values=np.empty((count, FIELDS)),
        lines=np.empty(count, dtype=np.int64),
        array_ids=np.empty(count, dtype=np.int64),
    )
    end = count
    while blocks:
        block = blocks.pop()
        part = slice(end - len(block.lines), end)
        rows.values[part], rows.lines[part] = block.values, block.lines
        rows.array_ids[part] = block.array_ids
        end = part.start
    return rows


def stream_rows(path: Path, policy: OddRowPolicy, report: OddRowReport) -> Iterator[RawRows]:
    """Yield the rows of a log block by block, in constant memory.

    It checks only the form of rows; rules on order and IDs need the whole log. Raises LogError.
    """
    yield from LineReader(path, policy, report).blocks()
