"""Reader of traces of unit jobs in the format of PA-HPC-SIM, plain or gzip.

Each job is a line of three parts separated by ``__``, with fields separated by ``;``::

    id;executable;user;queue;submitted__node;cores;gpus;mics;memory#...__started;ended;nodes;cores;
    memory;walltime;NA;NA;status;application

The middle part has an entry for every unit of the job, terminated by ``#``, with the node that it
ran on. Memory of a unit is in KiB. Dates are local times without a zone; a walltime is hours and
minutes. A job becomes a row of the Standard Workload Format whose size counts units.
`ReadLog.requests` holds the request of a unit. Accelerators count as GPUs of nodes with the feature
``gpu`` or ``mic``. Invalid rows are handled as in logs; a run beyond its walltime is cut to it. If
the units of a job differ, each counts as the maximum of all units.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.header import Header, printable
from wattfold.simulator.workloads.job_requests import JobRequest
from wattfold.simulator.workloads.odd_rows import (
    FaultKind,
    OddRowPolicy,
    OddRowReport,
    RowOutcome,
    Treatment,
)
from wattfold.simulator.workloads.swf_lines import FIELDS, RawRows
from wattfold.simulator.workloads.swf_reader import ReadLog
from wattfold.simulator.workloads.swf_rules import RowRules
from wattfold.simulator.workloads.text_files import whole_text
from wattfold.simulator.workloads.workload import (
    COLUMNS,
    INT_COLUMNS,
    MISSING,
    Workload,
)

GPU, MIC = "gpu", "mic"
"""Features of nodes with accelerators of a kind."""
KIB = 1 << 10
COMPLETED = "COMPLETED"
_PARTS, _HEAD_FIELDS, _UNIT_FIELDS, _TAIL_FIELDS = 3, 5, 5, 6
_HEAD = re.compile(r"[^;\n]*(;[^;\n]*){4}__")
_WALLTIME = re.compile(r"(\d{1,5}):([0-5]\d)(?::([0-5]\d))?\Z")
_MOST = 1 << 40


@dataclass(slots=True)
class _Read:
    """Data from the lines of one or more traces."""

    report: OddRowReport = field(default_factory=OddRowReport)
    rows: list[list[float]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    requests: list[JobRequest] = field(default_factory=list)
    queues: dict[str, int] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)
    executables: dict[str, int] = field(default_factory=dict)


class _OddLineError(ValueError):
    """An invalid line; ``rule`` is the violated rule."""

    def __init__(self, rule: FaultKind, field_number: int, value: str) -> None:
        self.rule, self.field_number, self.value = rule, field_number, value
        super().__init__(value)


def is_unit_trace(start: str) -> bool:
    """Whether a file with this start is such a trace."""
    first = next((line for line in start.splitlines() if line.strip()), "")
    return _HEAD.match(first) is not None


def read_unit_trace(path: Path, policy: OddRowPolicy | None = None) -> ReadLog:
    """Read the jobs of a trace, ordered by submit time and then by position in the file.

    Time zero is the first submission. Raises LogError as `read_swf` does.
    """
    policy, read = policy or OddRowPolicy(), _Read()
    _take_lines(path, whole_text(path), policy, read)
    return _finished(path, policy, read)


def read_unit_traces(paths: Sequence[Path], policy: OddRowPolicy | None = None) -> ReadLog:
    """Read the union of overlapping traces, each job once, ordered by (submission, ID).

    Raises LogError, also if two traces have different lines for one job.
    """
    policy, read = policy or OddRowPolicy(), _Read()
    seen: dict[str, str] = {}
    for path in paths:
        new = []
        for number, line in enumerate(whole_text(path).splitlines(), start=1):
            number_text = line.partition(";")[0].strip()
            known = seen.setdefault(number_text, line) if number_text else line
            if known is not line and known != line:
                raise LogError(path, number, f"tells another job {printable(number_text)[:40]}")
            # Blank lines preserve the numbers of the other lines.
            new.append(line if known is line else "")
        _take_lines(path, "\n".join(new), policy, read)
    # Line numbers of several files do not form an order: sort by submission and ID.
    order = sorted(range(len(read.rows)), key=lambda row: (read.rows[row][1], read.rows[row][0]))
    read.rows = [read.rows[row] for row in order]
    read.requests = [read.requests[row] for row in order]
    read.lines = list(range(1, len(order) + 1))
    return _finished(paths[0] if paths else Path(), policy, read)


def _take_lines(path: Path, text: str, policy: OddRowPolicy, read: _Read) -> None:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        read.report.data_lines += 1
        try:
            row, request = _job(path, number, line, policy, read)
        except _OddLineError as odd:
            if policy.treatment(odd.rule) is Treatment.FAIL:
                where = f"field {odd.field_number}: " if odd.field_number else ""
                shown = printable(odd.value)[:40]
                raise LogError(path, number, f"{odd.rule.value}: {where}{shown!r}") from odd
            read.report.add(odd.rule, RowOutcome.DROPPED, number, odd.field_number, odd.value)
            continue
        read.rows.append(row)
        read.requests.append(request)
        read.lines.append(number)


def _job(
    path: Path, number: int, line: str, policy: OddRowPolicy, read: _Read
) -> tuple[list[float], JobRequest]:
    parts = line.strip().split("__")
    if len(parts) != _PARTS:
        raise _OddLineError(FaultKind.COLUMN_COUNT, 0, f"{len(parts)} parts")
    head, tail = parts[0].split(";"), parts[2].split(";")
    if len(head) != _HEAD_FIELDS or len(tail) < _TAIL_FIELDS:
        raise _OddLineError(FaultKind.COLUMN_COUNT, 0, f"{len(head)} and {len(tail)} fields")
    units = [_unit(entry) for entry in parts[1].split("#") if entry]
    if not units:
        raise _OddLineError(FaultKind.NO_SIZE, 5, parts[1])
    submit_s, start_s, end_s = _date_s(head[4], 2), _date_s(tail[0], 3), _date_s(tail[1], 4)
    status = tail[8] if len(tail) > 8 else ""
    row = dict.fromkeys(COLUMNS, float(MISSING))
    greatest = _request(_alike(path, number, units, policy, read.report))
    row |= {
        "job_ids": float(_whole(head[0], 1)),
        "submit_s": submit_s,
        "wait_s": max(start_s - submit_s, 0.0),
        "run_s": end_s - start_s,
        "procs": float(len(units)),
        "requested_procs": float(len(units)),
        "requested_s": _walltime_s(tail[5]),
        "requested_memory_kb": greatest.memory_bytes / KIB,
        "status": 1.0 if status == COMPLETED else 0.0,
        "users": float(_number(read.users, head[2])),
        "executables": float(_number(read.executables, head[1])),
        "queues": float(_number(read.queues, head[3])),
    }
    return list(row.values()), greatest


def _unit(entry: str) -> tuple[int, ...]:
    """Return cores, GPUs, MICs and KiB of a unit; its node is ignored."""
    fields = entry.split(";")
    if len(fields) != _UNIT_FIELDS:
        raise _OddLineError(FaultKind.COLUMN_COUNT, 5, entry)
    cores, *others = (_whole(value, 5) for value in fields[1:])
    if cores < 1 or (others[0] and others[1]):
        # Zero cores would mean whole nodes, and a node has only one kind of accelerator.
        raise _OddLineError(FaultKind.BAD_NUMBER, 5, entry)
    return (cores, *others)


def _alike(
    path: Path,
    number: int,
    units: Sequence[tuple[int, ...]],
    policy: OddRowPolicy,
    report: OddRowReport,
) -> tuple[int, ...]:
    """Return the resources of one unit of a job."""
    if all(unit == units[0] for unit in units):
        return units[0]
    greatest = tuple(max(values) for values in zip(*units, strict=True))
    shown = f"{len(set(units))} kinds of units"
    treatment = policy.treatment(FaultKind.UNLIKE_UNITS)
    if treatment is Treatment.FAIL:
        raise LogError(path, number, f"{FaultKind.UNLIKE_UNITS.value}: {shown}")
    if treatment is Treatment.SKIP or (greatest[1] and greatest[2]):
        raise _OddLineError(FaultKind.UNLIKE_UNITS, 5, shown)
    report.add(FaultKind.UNLIKE_UNITS, RowOutcome.REPAIRED, number, 5, shown)
    return greatest


def _request(unit: tuple[int, ...]) -> JobRequest:
    cores, gpus, mics, memory_kib = unit
    features = (GPU,) if gpus else (MIC,) if mics else ()
    return JobRequest(
        cores=cores, memory_bytes=memory_kib * KIB, gpus=gpus or mics, features=features
    )


def _finished(path: Path, policy: OddRowPolicy, read: _Read) -> ReadLog:
    values = np.array(read.rows, dtype=np.float64).reshape(-1, FIELDS)
    start_s = float(values[:, 1].min()) if len(values) else 0.0
    values[:, 1] -= start_s
    lines = np.array(read.lines, dtype=np.int64)
    arrays = np.full(len(lines), MISSING, dtype=np.int64)
    raw = RawRows(values=values, lines=lines, array_ids=arrays)
    rules = RowRules(path, raw, policy, read.report)
    rules.apply()
    if read.report.data_lines and not len(rules.values):
        raise LogError(path, 0, f"has no job: {read.report.why_none()}")
    columns = {
        name: rules.values[:, index].astype(np.int64 if name in INT_COLUMNS else np.float64)
        for index, name in enumerate(COLUMNS)
    }
    by_line = dict(zip(read.lines, read.requests, strict=True))
    ids = columns["job_ids"].tolist()
    header = Header(lines=(f"; UnixStartTime: {round(start_s)}", *_queue_lines(read.queues)))
    return ReadLog(
        workload=Workload.of_columns(header, **columns, array_ids=rules.array_ids),
        report=read.report,
        requests={
            job_id: by_line[line] for job_id, line in zip(ids, rules.lines.tolist(), strict=True)
        },
        queue_names=tuple(read.queues),
    )


def _queue_lines(queues: Iterable[str]) -> list[str]:
    return [f"; Queue: {number} {printable(name)}" for number, name in enumerate(queues)]


def _number(known: dict[str, int], name: str) -> int:
    return known.setdefault(name, len(known))


def _whole(text: str, field_number: int) -> int:
    if not text.strip().isdecimal() or int(text) > _MOST:
        raise _OddLineError(FaultKind.BAD_NUMBER, field_number, text)
    return int(text)


def _date_s(text: str, field_number: int) -> float:
    try:
        moment = datetime.datetime.strptime(text.strip(), "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007
    except ValueError:
        raise _OddLineError(FaultKind.BAD_NUMBER, field_number, text) from None
    # The zone does not matter: only differences are used.
    return moment.replace(tzinfo=datetime.UTC).timestamp()


def _walltime_s(text: str) -> float:
    match = _WALLTIME.match(text.strip())
    if match is None:
        raise _OddLineError(FaultKind.BAD_NUMBER, 9, text)
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(hours * 3600 + minutes * 60 + seconds)
