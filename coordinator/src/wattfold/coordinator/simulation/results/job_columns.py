"""The columns of a file of jobs: one definition for whole files and for rows as jobs end.

Names end in their unit. Times are seconds of the log, as the shortest text that reads back as the
same number. A value that does not exist (the end of a job that runs, the cap of one that waits) is
an empty field in CSV and null in Parquet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from wattfold.contract.units import NS_PER_S, UW_PER_W
from wattfold.coordinator.simulation.pool.jobs import JobTable
from wattfold.coordinator.simulation.pool.record import JobColumns, RunRecord, Series
from wattfold.coordinator.simulation.results.job_values import JobValues, job_values
from wattfold.coordinator.simulation.workloads.swf_writer import number_text
from wattfold.coordinator.simulation.workloads.workload import Floats, Ints, Mask

_UJ_PER_J = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """What a file says of one job, in the units of the record."""

    job_id: int
    user: int
    submit_ns: int
    size_min: int
    size_max: int
    run_ns: int
    estimate_ns: int
    malleable: bool
    start_ns: int
    end_ns: int
    first_size: int
    last_size: int
    resizes: int
    stalled_ns: int
    node_ns: int
    energy_uj: int
    first_cap_uw: int
    mean_cap_uw: float
    first_cores: int = 0
    last_cores: int = 0
    core_ns: int = 0
    attempts: int = 1
    wasted_ns: int = 0
    timed_out: int = 0
    gpu_ns: int = 0
    due_ns: int = -1
    weight: float = 1.0


_FROM_TABLE = {
    "job_id": "job_ids",
    "user": "users",
    "submit_ns": "submit_ns",
    "size_min": "size_min",
    "size_max": "size_max",
    "run_ns": "run_ns",
    "estimate_ns": "estimate_ns",
    "malleable": "malleable",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Column:
    """One column of a file: whole numbers or reals, and which of them exist."""

    name: str
    values: Ints | Floats
    known: Mask | None = None
    """None: all."""

    def texts(self) -> list[str]:
        """The column as text."""
        known: list[bool] | None = None if self.known is None else self.known.tolist()
        if self.values.dtype == np.int64:
            texts = [str(value) for value in self.values.tolist()]
        else:
            known = known or [True] * len(self.values)
            real = self.values.tolist()
            texts = [number_text(v) if k else "" for v, k in zip(real, known, strict=True)]
        if known is None:
            return texts
        return [text if k else "" for text, k in zip(texts, known, strict=True)]


class _Facts:
    """The fields of `JobRow` as one array each, for any number of jobs."""

    def __init__(self, arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]):
        self._arrays = arrays
        self.values: JobValues = job_values(
            self.whole("submit_ns"),
            self.whole("start_ns"),
            self.whole("end_ns"),
            self.whole("run_ns"),
        )

    def whole(self, name: str) -> Ints:
        return self._arrays[name].astype(np.int64)

    def real(self, name: str) -> Floats:
        return self._arrays[name].astype(np.float64)


_Maker = Callable[[_Facts], Column]


def _whole(name: str, source: str, *, once_started: bool = False) -> _Maker:
    def make(facts: _Facts) -> Column:
        known = facts.values.started if once_started else None
        return Column(name=name, values=facts.whole(source), known=known)

    return make


def _scaled(name: str, source: str, per: int, *, once_started: bool = False) -> _Maker:
    def make(facts: _Facts) -> Column:
        values = facts.real(source) / per
        known = facts.values.started if once_started else None
        if name == "end_s":
            known = facts.values.ended
        return Column(name=name, values=values, known=known)

    return make


def _value(name: str) -> _Maker:
    def make(facts: _Facts) -> Column:
        values: Floats = getattr(facts.values, name)
        return Column(name=name, values=values, known=~np.isnan(values))

    return make


_MAKERS: tuple[_Maker, ...] = (
    _whole("job_id", "job_id"),
    _whole("user", "user"),
    _scaled("submit_s", "submit_ns", NS_PER_S),
    _scaled("start_s", "start_ns", NS_PER_S, once_started=True),
    _scaled("end_s", "end_ns", NS_PER_S),
    _value("wait_s"),
    _value("run_s"),
    _value("response_s"),
    _value("slowdown"),
    _value("bounded_slowdown"),
    _scaled("static_run_s", "run_ns", NS_PER_S),
    _scaled("estimate_s", "estimate_ns", NS_PER_S),
    _whole("malleable", "malleable"),
    _whole("size_min", "size_min"),
    _whole("size_max", "size_max"),
    _whole("size_first", "first_size", once_started=True),
    _whole("size_last", "last_size", once_started=True),
    _whole("resizes", "resizes", once_started=True),
    _scaled("stalled_s", "stalled_ns", NS_PER_S, once_started=True),
    _scaled("node_s", "node_ns", NS_PER_S, once_started=True),
    _scaled("energy_j", "energy_uj", _UJ_PER_J, once_started=True),
    _scaled("cap_w_first", "first_cap_uw", UW_PER_W, once_started=True),
    _scaled("cap_w_mean", "mean_cap_uw", UW_PER_W, once_started=True),
)


_PART_MAKERS: tuple[_Maker, ...] = (
    _whole("cores_first", "first_cores", once_started=True),
    _whole("cores_last", "last_cores", once_started=True),
    _scaled("core_s", "core_ns", NS_PER_S, once_started=True),
)


_ATTEMPT_MAKERS: tuple[_Maker, ...] = (
    _whole("attempts", "attempts", once_started=True),
    _scaled("wasted_s", "wasted_ns", NS_PER_S, once_started=True),
    _whole("timed_out", "timed_out", once_started=True),
)


def _due(facts: _Facts) -> Column:
    due_ns = facts.whole("due_ns")
    return Column(name="due_s", values=due_ns / NS_PER_S, known=due_ns >= 0)


def _tardiness(facts: _Facts) -> Column:
    due_ns, end_ns = facts.whole("due_ns"), facts.whole("end_ns")
    known = facts.values.ended & (due_ns >= 0)
    return Column(name="tardiness_s", values=np.maximum(end_ns - due_ns, 0) / NS_PER_S, known=known)


def _weight(facts: _Facts) -> Column:
    return Column(name="weight", values=facts.real("weight"))


_TRAINING_MAKERS: tuple[_Maker, ...] = (
    _due,
    _weight,
    _tardiness,
    _scaled("gpu_s", "gpu_ns", NS_PER_S, once_started=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """Columns that only some runs have, so that the files of all others stay as they are."""

    parts: bool = False
    """Cores: of runs whose nodes are shared."""
    attempts: bool = False
    """Of runs in which jobs may be ended, by a limit or to start again."""
    training: bool = False
    """Of runs in which jobs train."""


PLAIN = Extra()


def extra_of(columns: JobColumns) -> Extra:
    """Which of them a record has."""
    return Extra(
        parts=columns.first_cores is not None,
        attempts=columns.attempts is not None,
        training=columns.gpu_ns is not None,
    )


def job_row(jobs: JobTable, columns: JobColumns, index: int) -> JobRow:
    """The row of the job at a position of the job table."""
    values = {name: getattr(jobs, source)[index].item() for name, source in _FROM_TABLE.items()}
    known = {item.name: getattr(columns, item.name) for item in fields(columns)}
    values |= {name: column[index].item() for name, column in known.items() if column is not None}
    if jobs.training is not None:
        values["due_ns"] = jobs.training.due_ns[index].item()
        values["weight"] = jobs.training.weights[index].item()
    return JobRow(**values)


def record_columns(record: RunRecord) -> tuple[Column, ...]:
    """The columns of all jobs of a record, in the order of its job table."""
    arrays = {name: getattr(record.jobs, source) for name, source in _FROM_TABLE.items()}
    arrays |= {item.name: getattr(record.columns, item.name) for item in fields(JobColumns)}
    if record.jobs.training is not None:
        training = record.jobs.training
        arrays |= {"due_ns": training.due_ns, "weight": training.weights}
    return _columns(arrays, extra_of(record.columns))


def row_columns(rows: Sequence[JobRow], extra: Extra = PLAIN) -> tuple[Column, ...]:
    """The columns of these rows, in their order."""
    return _columns(
        {
            item.name: np.array(
                [getattr(row, item.name) for row in rows],
                dtype=np.float64 if item.type == "float" else np.int64,
            )
            for item in fields(JobRow)
        },
        extra,
    )


def series_columns(series: Series) -> tuple[Column, ...]:
    """The columns of a series over time."""
    return (
        Column(name="time_s", values=series.time_ns / NS_PER_S),
        Column(name="queued", values=series.queued.astype(np.int64)),
        Column(name="running", values=series.running.astype(np.int64)),
        Column(name="nodes_busy", values=series.nodes_busy.astype(np.int64)),
        Column(name="committed_w", values=series.committed_uw / UW_PER_W),
        Column(name="drawn_w", values=series.drawn_uw / UW_PER_W),
        Column(name="budget_w", values=series.budget_uw / UW_PER_W),
    )


def csv_header(columns: Sequence[Column]) -> bytes:
    """The first line of a file of these columns."""
    return (",".join(column.name for column in columns) + "\n").encode()


def csv_rows(columns: Sequence[Column]) -> bytes:
    """The lines of these columns; numbers need no quotes."""
    rows = map(",".join, zip(*(column.texts() for column in columns), strict=True))
    return "".join(f"{row}\n" for row in rows).encode()


def _columns(
    arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]], extra: Extra
) -> tuple[Column, ...]:
    facts = _Facts(arrays)
    makers = [*_MAKERS]
    makers += _PART_MAKERS if extra.parts else ()
    makers += _ATTEMPT_MAKERS if extra.attempts else ()
    makers += _TRAINING_MAKERS if extra.training else ()
    return tuple(make(facts) for make in makers)
