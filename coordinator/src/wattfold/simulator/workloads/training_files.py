"""Reader of training jobs and their epoch times from two CSV files.

Required columns of jobs are ``job_id``, ``submit_s``, ``app`` and ``epochs``. Optional columns:

- ``due_s``: in the time of ``submit_s``; empty = no due date.
- ``weight``: of tardiness relative to other jobs, default 1.
- ``gpus_min`` and ``gpus_max``: default 1 and the maximum of any node.
- ``gpu_model``: the only allowed model.
- ``snapshot_epochs``: default 1.
- ``user``.

Columns of epoch times: ``app``, ``gpu_model``, ``gpus`` and ``epoch_s``, at the maximum limit.
Optional, but only together: ``static_w``, ``full_w``, ``knee`` and ``beta`` of `models.gpu_curve`,
for the effect of lower limits.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.training import EpochTime
from wattfold.simulator.workloads.errors import LogError

T = TypeVar("T")

_JOB_NEEDS = ("job_id", "submit_s", "app", "epochs")
_JOB_MAY = ("due_s", "weight", "gpus_min", "gpus_max", "gpu_model", "snapshot_epochs", "user")
_TIME_NEEDS = ("app", "gpu_model", "gpus", "epoch_s")
_CURVE = ("static_w", "full_w", "knee", "beta")
MOST = 1 << 40
MOST_S = 4e9
MOST_GPUS = 4096


class TrainingFileError(LogError):
    """A file of training jobs or of epoch times that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """A job that trains for ``epochs`` epochs. Times are seconds of the log.

    ``gpus_max`` 0: all GPUs of a node. ``gpu_model`` empty: any model with known epoch times.
    """

    job_id: int
    submit_s: float
    app: str
    epochs: int
    due_s: float | None = None
    weight: float = 1.0
    """Weight of tardiness relative to other jobs."""
    gpus_min: int = 1
    gpus_max: int = 0
    gpu_model: str = ""
    snapshot_epochs: int = 1
    user: int = -1

    def __post_init__(self) -> None:
        if self.due_s is not None and self.due_s < self.submit_s:
            raise ValueError(
                f"job {self.job_id} is due at {self.due_s:g} s, before it is submitted at "
                f"{self.submit_s:g} s"
            )
        if self.gpus_max and self.gpus_max < self.gpus_min:
            raise ValueError(
                f"job {self.job_id} requests {self.gpus_min} to {self.gpus_max} GPUs, which "
                "is not a range"
            )
        if self.epochs < 1 or self.snapshot_epochs < 1 or self.gpus_min < 1:
            raise ValueError(f"job {self.job_id}: epochs and GPUs must be at least 1")


EpochTimes = Mapping[str, tuple[EpochTime, ...]]
"""Epoch times by application."""


def read_training_jobs(path: Path) -> tuple[TrainingJob, ...]:
    """Return the jobs of a file, in its order. Raises TrainingFileError with the line."""
    seen: set[int] = set()

    def job(row: Mapping[str, str]) -> TrainingJob:
        job_id = _whole(row, "job_id")
        if job_id in seen:
            raise ValueError(f"job {job_id} is listed twice")
        seen.add(job_id)
        return TrainingJob(
            job_id=job_id,
            submit_s=_real(row, "submit_s", most=MOST_S),
            app=_word(row, "app"),
            epochs=_whole(row, "epochs", minimum=1),
            due_s=_real(row, "due_s", most=MOST_S) if row.get("due_s") else None,
            weight=_real(row, "weight") if row.get("weight") else 1.0,
            gpus_min=_whole(row, "gpus_min", minimum=1, most=MOST_GPUS)
            if row.get("gpus_min")
            else 1,
            gpus_max=_whole(row, "gpus_max", minimum=1, most=MOST_GPUS)
            if row.get("gpus_max")
            else 0,
            gpu_model=row.get("gpu_model") or "",
            snapshot_epochs=_whole(row, "snapshot_epochs", minimum=1)
            if row.get("snapshot_epochs")
            else 1,
            user=_whole(row, "user") if row.get("user") else -1,
        )

    jobs = _rows(path, _JOB_NEEDS, _JOB_MAY, job)
    if not jobs:
        raise TrainingFileError(path, 0, "has no job")
    return tuple(jobs)


def read_epoch_times(path: Path) -> EpochTimes:
    """Return the epoch times of a file by application. Raises TrainingFileError with the line."""
    found: dict[str, list[EpochTime]] = {}

    def time(row: Mapping[str, str]) -> None:
        one = EpochTime(
            gpu_model=_word(row, "gpu_model"),
            gpus=_whole(row, "gpus", minimum=1, most=MOST_GPUS),
            seconds=_real(row, "epoch_s", minimum=1e-6, most=MOST_S),
            curve=_curve(row),
        )
        times = found.setdefault(_word(row, "app"), [])
        if any((one.gpu_model, one.gpus) == (had.gpu_model, had.gpus) for had in times):
            raise ValueError(f"{one.gpus} x {one.gpu_model} is listed twice for {row['app']}")
        times.append(one)

    _rows(path, _TIME_NEEDS, _CURVE, time)
    if not found:
        raise TrainingFileError(path, 0, "has no epoch time")
    return {app: tuple(times) for app, times in found.items()}


def _rows(
    path: Path,
    needs: tuple[str, ...],
    may: tuple[str, ...],
    read: Callable[[Mapping[str, str]], T],
) -> list[T]:
    found: list[T] = []
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = csv.DictReader(stream, restval="")
            names = rows.fieldnames or ()
            odd = set(names) - {*needs, *may}
            if not set(needs) <= set(names) or odd:
                raise TrainingFileError(
                    path, 1, f"expected {', '.join(needs)} and any of {', '.join(may)}"
                )
            for row in rows:
                try:
                    if None in row:
                        raise ValueError("more fields than columns")
                    found.append(read({name: text.strip() for name, text in row.items()}))
                except ValueError as error:
                    raise TrainingFileError(path, rows.line_num, str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise TrainingFileError(path, 0, f"cannot be read: {error}") from error
    except csv.Error as error:
        raise TrainingFileError(path, 0, f"not CSV: {error}") from error
    return found


def _curve(row: Mapping[str, str]) -> GpuCurve | None:
    given = [key for key in _CURVE if row.get(key)]
    if not given:
        return None
    if len(given) < len(_CURVE):
        raise ValueError(f"{', '.join(_CURVE)} must be given together; got {', '.join(given)}")
    static_w, full_w, knee, beta = (_real(row, key) for key in _CURVE)
    return GpuCurve(static_w=static_w, full_w=full_w, knee=knee, beta=beta)


def _word(row: Mapping[str, str], key: str) -> str:
    if not row[key]:
        raise ValueError(f"{key} is empty")
    return row[key]


def _whole(row: Mapping[str, str], key: str, *, minimum: int = 0, most: int = MOST) -> int:
    text = row[key]
    if not text.isdecimal() or not minimum <= int(text) <= most:
        raise ValueError(f"{key} must be a whole number of at least {minimum}, got {text!r}")
    return int(text)


def _real(
    row: Mapping[str, str], key: str, *, minimum: float = 0.0, most: float = math.inf
) -> float:
    try:
        value = float(row[key])
    except ValueError:
        value = math.nan
    if not (minimum <= value <= most and math.isfinite(value)):
        raise ValueError(f"{key} must be a number of at least {minimum:g}, got {row[key]!r}")
    return value
