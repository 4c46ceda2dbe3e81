"""Reads a log in the Standard Workload Format (SWF), version 2.2, plain or gzip.

The format: D. Feitelson and others, "The Standard Workload Format", Parallel Workloads Archive. A
line a job, eighteen numbers, -1 for what is not known, comments after ``;``. Ids of the form
``4711_3`` or ``4711[3]``, which converted logs of batch systems have for elements of job arrays,
are no odd rows: each element becomes a job with an id above all others and keeps the id of its
array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from wattfold.coordinator.simulation.workloads.errors import LogError
from wattfold.coordinator.simulation.workloads.header import Header
from wattfold.coordinator.simulation.workloads.job_requests import JobRequest
from wattfold.coordinator.simulation.workloads.odd_rows import OddRowPolicy, OddRowReport
from wattfold.coordinator.simulation.workloads.swf_lines import FIELDS, LineReader, RawRows
from wattfold.coordinator.simulation.workloads.swf_rules import RowRules
from wattfold.coordinator.simulation.workloads.workload import COLUMNS, INT_COLUMNS, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """A workload and what was odd in its file."""

    workload: Workload
    report: OddRowReport
    requests: Mapping[int, JobRequest] = field(default_factory=dict)
    """What a unit of a job asks for, by its id, in formats that tell."""
    queue_names: tuple[str, ...] = ()
    """Of the numbers of queues from 0 on, in formats that have names."""


def read_swf(path: Path, policy: OddRowPolicy | None = None) -> ReadLog:
    """The jobs of a log, by submit time, then in the order of the file.

    Needs about 600 bytes a row at its peak.

    Raises:
        LogError: the file cannot be read, is no text, has rows and all of them are odd, or has an
            odd row under the treatment `fail`.
    """
    policy = policy or OddRowPolicy()
    report = OddRowReport()
    reader = LineReader(path, policy, report)
    blocks = list(reader.blocks())
    rows = RawRows(
        values=np.concatenate([np.empty((0, FIELDS)), *(block.values for block in blocks)]),
        lines=np.concatenate([np.empty(0, np.int64), *(block.lines for block in blocks)]),
        array_ids=np.concatenate([np.empty(0, np.int64), *(block.array_ids for block in blocks)]),
    )
    blocks.clear()
    rules = RowRules(path, rows, policy, report)
    rules.apply()
    if report.data_lines and not len(rules.values):
        raise LogError(path, 0, f"has no job: {report.why_none()}")
    columns = {
        name: rules.values[:, index].astype(np.int64 if name in INT_COLUMNS else np.float64)
        for index, name in enumerate(COLUMNS)
    }
    header = Header(lines=tuple(reader.comments))
    workload = Workload.of_columns(header, **columns, array_ids=rules.array_ids)
    return ReadLog(workload=workload, report=report)


def stream_rows(path: Path, policy: OddRowPolicy, report: OddRowReport) -> Iterator[RawRows]:
    """The rows of a log block by block, in constant memory.

    Only faults of form are looked for; rules on order and ids need the whole log. Raises LogError.
    """
    yield from LineReader(path, policy, report).blocks()
