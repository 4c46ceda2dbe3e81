"""Columns of a file of jobs, both for whole files and for rows written as jobs end.

Names end in their unit. Times are seconds of the log, as the shortest text that parses to the same
number. Missing values (the end of a running job, the cap of a waiting job) are empty fields in CSV
and null in Parquet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from wattfold.contract.units import NS_PER_S, UW_PER_W
from wattfold.simulator.engine.record import JobColumns, RunRecord, Series, Texts
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.results.job_values import JobValues, job_values
from wattfold.simulator.workloads.swf_writer import number_text
from wattfold.simulator.workloads.workload import Floats, Ints, Mask

_UJ_PER_J = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """Values of one job in a file, in the units of the record."""

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
    places: str = ""
    attempts: int = 1
    wasted_ns: int = 0
    timed_out: int = 0
    gpu_ns: int = 0
    due_ns: int = -1
    weight: float = 1.0


_DTYPES = {"float": np.float64, "str": np.object_, "int": np.int64, "bool": np.int64}
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
class JobColumn:
    """A column of a file: integers, reals or texts, and a mask of the known values."""

    name: str
    values: Ints | Floats | Texts
    known: Mask | None = None
    """None: all are known."""

    def texts(self) -> list[str]:
        """Return the column as text."""
        known: list[bool] | None = None if self.known is None else self.known.tolist()
        if self.values.dtype in (np.int64, np.object_):
            texts = [str(value) for value in self.values.tolist()]
        else:
            known = known or [True] * len(self.values)
            real = self.values.tolist()
            texts = [number_text(v) if k else "" for v, k in zip(real, known, strict=True)]
        if known is None:
            return texts
        return [text if k else "" for text, k in zip(texts, known, strict=True)]


class _Facts:
    """Fields of `JobRow` as one array each, for any number of jobs."""

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

    def texts(self, name: str) -> Texts:
        return self._arrays[name].astype(np.object_)

    def real(self, name: str) -> Floats:
        return self._arrays[name].astype(np.float64)


_Maker = Callable[[_Facts], JobColumn]


def _whole(name: str, source: str, *, once_started: bool = False) -> _Maker:
    def make(facts: _Facts) -> JobColumn:
        known = facts.values.started if once_started else None
        return JobColumn(name=name, values=facts.whole(source), known=known)

    return make


def _scaled(name: str, source: str, per: int, *, once_started: bool = False) -> _Maker:
    def make(facts: _Facts) -> JobColumn:
        values = facts.real(source) / per
        known = facts.values.started if once_started else None
        if name == "end_s":
            known = facts.values.ended
        return JobColumn(name=name, values=values, known=known)

    return make


def _value(name: str) -> _Maker:
    def make(facts: _Facts) -> JobColumn:
        values: Floats = getattr(facts.values, name)
        return JobColumn(name=name, values=values, known=~np.isnan(values))

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


def _places(facts: _Facts) -> JobColumn:
    return JobColumn(name="places", values=facts.texts("places"), known=facts.values.started)


_PART_MAKERS: tuple[_Maker, ...] = (
    _whole("cores_first", "first_cores", once_started=True),
    _whole("cores_last", "last_cores", once_started=True),
    _scaled("core_s", "core_ns", NS_PER_S, once_started=True),
    _places,
)


_ATTEMPT_MAKERS: tuple[_Maker, ...] = (
    _whole("attempts", "attempts", once_started=True),
    _scaled("wasted_s", "wasted_ns", NS_PER_S, once_started=True),
    _whole("timed_out", "timed_out", once_started=True),
)


def _due(facts: _Facts) -> JobColumn:
    due_ns = facts.whole("due_ns")
    return JobColumn(name="due_s", values=due_ns / NS_PER_S, known=due_ns >= 0)


def _tardiness(facts: _Facts) -> JobColumn:
    due_ns, end_ns = facts.whole("due_ns"), facts.whole("end_ns")
    known = facts.values.ended & (due_ns >= 0)
    return JobColumn(
        name="tardiness_s", values=np.maximum(end_ns - due_ns, 0) / NS_PER_S, known=known
    )


def _weight(facts: _Facts) -> JobColumn:
    return JobColumn(name="weight", values=facts.real("weight"))


_TRAINING_MAKERS: tuple[_Maker, ...] = (
    _due,
    _weight,
    _tardiness,
    _scaled("gpu_s", "gpu_ns", NS_PER_S, once_started=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """Columns of some runs only, so that the files of all other runs stay unchanged."""

    parts: bool = False
    """Cores, for runs with shared nodes."""
    attempts: bool = False
    """Attempts, for runs in which jobs may end at a limit or restart."""
    training: bool = False
    """Due dates and GPUs, for runs with training jobs."""


PLAIN = Extra()


def extra_of(columns: JobColumns) -> Extra:
    """Return the extra columns of a record."""
    return Extra(
        parts=columns.first_cores is not None,
        attempts=columns.attempts is not None,
        training=columns.gpu_ns is not None,
    )


def job_row(jobs: JobTable, columns: JobColumns, index: int) -> JobRow:
    """Return the row of the job at a position of the job table."""
    values = {name: getattr(jobs, source)[index].item() for name, source in _FROM_TABLE.items()}
    known = {item.name: getattr(columns, item.name) for item in fields(columns)}
    values |= {name: column.item(index) for name, column in known.items() if column is not None}
    if jobs.training is not None:
        values["due_ns"] = jobs.training.due_ns[index].item()
        values["weight"] = jobs.training.weights[index].item()
    return JobRow(**values)


def record_columns(record: RunRecord) -> tuple[JobColumn, ...]:
    """Return the columns of all jobs of a record, in the order of its job table."""
    arrays = {name: getattr(record.jobs, source) for name, source in _FROM_TABLE.items()}
    arrays |= {item.name: getattr(record.columns, item.name) for item in fields(JobColumns)}
    if record.jobs.training is not None:
        training = record.jobs.training
        arrays |= {"due_ns": training.due_ns, "weight": training.weights}
    return _columns(arrays, extra_of(record.columns))


def row_columns(rows: Sequence[JobRow], extra: Extra = PLAIN) -> tuple[JobColumn, ...]:
    """Return the columns of these rows, in their order."""
    return _columns(
        {
            item.name: np.array(
                [getattr(row, item.name) for row in rows],
                dtype=_DTYPES[str(item.type)],
            )
            for item in fields(JobRow)
        },
        extra,
    )


def series_columns(series: Series) -> tuple[JobColumn, ...]:
    """Return the columns of a series over time."""
    awake = series.nodes_awake
    extra = () if awake is None else (JobColumn(name="nodes_awake", values=awake),)
    return (
        JobColumn(name="time_s", values=series.time_ns / NS_PER_S),
        JobColumn(name="queued", values=series.queued.astype(np.int64)),
        JobColumn(name="running", values=series.running.astype(np.int64)),
        JobColumn(name="nodes_busy", values=series.nodes_busy.astype(np.int64)),
        JobColumn(name="committed_w", values=series.committed_uw / UW_PER_W),
        JobColumn(name="drawn_w", values=series.drawn_uw / UW_PER_W),
        JobColumn(name="budget_w", values=series.budget_uw / UW_PER_W),
        *extra,
    )


def csv_header(columns: Sequence[JobColumn]) -> bytes:
    """Return the first line of a file of these columns."""
    return (",".join(column.name for column in columns) + "\n").encode()


def csv_rows(columns: Sequence[JobColumn]) -> bytes:
    """Return the lines of these columns; numbers need no quotes."""
    rows = map(",".join, zip(*(column.texts() for column in columns), strict=True))
    return "".join(f"{row}\n" for row in rows).encode()


def _columns(
    arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]], extra: Extra
) -> tuple[JobColumn, ...]:
    facts = _Facts(arrays)
    makers = [*_MAKERS]
    makers += _PART_MAKERS if extra.parts else ()
    makers += _ATTEMPT_MAKERS if extra.attempts else ()
    makers += _TRAINING_MAKERS if extra.training else ()
    return tuple(make(facts) for make in makers)
