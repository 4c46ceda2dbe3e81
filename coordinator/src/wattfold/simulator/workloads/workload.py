"""A workload: the jobs of a log or a model, with one array per column.

Columns are those of the Standard Workload Format, version 2.2, in its order. Missing values are
`MISSING` (-1) in every column, as in the format. Times are seconds and may have fractions. Arrays
are read-only; selections make new workloads (`selection`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattfold.contract.units import NS_PER_S
from wattfold.simulator.workloads.header import Header

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

MISSING = -1
"""Marker of a value that the log does not state."""

INT_COLUMNS = (
    "job_ids",
    "procs",
    "requested_procs",
    "status",
    "users",
    "groups",
    "executables",
    "queues",
    "partitions",
    "preceding_jobs",
)
COLUMNS = (
    "job_ids",
    "submit_s",
    "wait_s",
    "run_s",
    "procs",
    "cpu_s",
    "memory_kb",
    "requested_procs",
    "requested_s",
    "requested_memory_kb",
    "status",
    "users",
    "groups",
    "executables",
    "queues",
    "partitions",
    "preceding_jobs",
    "think_s",
)
"""The eighteen fields of the format, in its order; field n is ``COLUMNS[n - 1]``."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """Jobs in the order of their submission. All columns have the same length."""

    job_ids: Ints
    submit_s: Floats
    wait_s: Floats
    run_s: Floats
    procs: Ints
    """Processors allocated to the job (field 5)."""
    cpu_s: Floats
    memory_kb: Floats
    requested_procs: Ints
    requested_s: Floats
    requested_memory_kb: Floats
    status: Ints
    """0 failed, 1 completed, 2 to 4 part of a job, 5 cancelled."""
    users: Ints
    groups: Ints
    executables: Ints
    queues: Ints
    partitions: Ints
    preceding_jobs: Ints
    think_s: Floats
    array_ids: Ints
    """ID of the array of an element, `MISSING` for all other jobs."""
    header: Header = field(default_factory=Header)

    def __post_init__(self) -> None:
        lengths = {len(getattr(self, name)) for name in (*COLUMNS, "array_ids")}
        if len(lengths) != 1:
            raise ValueError(f"columns of a workload have different lengths: {sorted(lengths)}")
        for name in (*COLUMNS, "array_ids"):
            getattr(self, name).setflags(write=False)

    @classmethod
    def of_columns(cls, header: Header | None = None, **columns: ArrayLike) -> Workload:
        """Return a workload of these columns; all others are missing.

        IDs default to 1, 2, ... Raises ValueError for an unknown column or different lengths.
        """
        unknown = set(columns) - set(COLUMNS) - {"array_ids"}
        if unknown:
            raise ValueError(f"not a column of a workload: {', '.join(sorted(unknown))}")
        count = max((np.size(value) for value in columns.values()), default=0)
        made: dict[str, NDArray[np.generic]] = {}
        for name in (*COLUMNS, "array_ids"):
            kind = np.int64 if name in INT_COLUMNS or name == "array_ids" else np.float64
            given = columns.get(name)
            if given is not None:
                made[name] = np.array(given, dtype=kind)
            elif name == "job_ids":
                made[name] = np.arange(1, count + 1, dtype=np.int64)
            else:
                made[name] = np.full(count, MISSING, dtype=kind)
        return cls(header=header or Header(), **made)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.job_ids)

    def equals(self, other: Workload) -> bool:
        """Whether all columns and the header agree."""
        return self.header == other.header and all(
            np.array_equal(getattr(self, item.name), getattr(other, item.name))
            for item in fields(self)
            if item.name != "header"
        )

    @property
    def sizes(self) -> Ints:
        """Processors of each job: allocated, else requested, else `MISSING`."""
        sizes: Ints = np.where(self.procs > 0, self.procs, self.requested_procs)
        return sizes

    @property
    def estimates_s(self) -> Floats:
        """Requested time of each job, else its run time, in s."""
        estimates: Floats = np.where(self.requested_s > 0, self.requested_s, self.run_s)
        return estimates

    @property
    def submit_ns(self) -> Ints:
        """Submit times in integer nanoseconds."""
        return _nanoseconds(self.submit_s)

    @property
    def run_ns(self) -> Ints:
        """Run times in integer nanoseconds; negative if missing."""
        return _nanoseconds(self.run_s)

    @property
    def estimates_ns(self) -> Ints:
        """`estimates_s` in integer nanoseconds."""
        return _nanoseconds(self.estimates_s)

    @property
    def span_s(self) -> float:
        """Time from the first submission to the last, in s."""
        return float(self.submit_s.max() - self.submit_s.min()) if len(self) else 0.0

    def taken(self, which: Mask | Ints) -> Workload:
        """Return the jobs selected by a mask or a list of positions, in that order."""
        columns = {name: getattr(self, name)[which] for name in (*COLUMNS, "array_ids")}
        return replace(self, **columns)

    def changed(self, **columns: Any) -> Workload:
        """Return the workload with some columns replaced."""
        return replace(self, **columns)

    def with_header(self, header: Header) -> Workload:
        """Return the workload with another header."""
        return replace(self, header=header)


def _nanoseconds(seconds: Floats) -> Ints:
    nanoseconds: Ints = np.rint(seconds * NS_PER_S).astype(np.int64)
    return nanoseconds
