"""Runs a case: streams its jobs to a file, can be stopped and goes on where it was.

In the folder of a case: ``jobs.csv`` grows by a row as each job ends; ``checkpoint`` is there while
the run is not done, and ``metrics.json`` when it is. A stopped run that is resumed leaves the bytes
of one that was not. A run that begins anew removes what an earlier one left in its folder.

A checkpoint is a checksum and a pickle. The checksum finds a damaged file, not one made to harm:
resume only what you stopped yourself.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from wattfold.coordinator.simulation.pool.engine import PoolSimulation, SimulationError, Turn
from wattfold.coordinator.simulation.pool.jobs import JobTable
from wattfold.coordinator.simulation.pool.record import RunRecord
from wattfold.coordinator.simulation.results.errors import ResultFileError
from wattfold.coordinator.simulation.results.files import write_jobs, write_series
from wattfold.coordinator.simulation.results.job_columns import Extra, JobRow
from wattfold.coordinator.simulation.results.job_stream import JobStream
from wattfold.coordinator.simulation.results.metrics import metrics_of
from wattfold.coordinator.simulation.results.table import Document, metrics_document
from wattfold.coordinator.simulation.runs.build import jobs_of, simulation_of
from wattfold.coordinator.simulation.runs.case import MessageLevel, SimulationCase
from wattfold.coordinator.simulation.workloads.odd_rows import OddRowReport
from wattfold.coordinator.simulation.workloads.swf_writer import whole_file

CHECKPOINT = "checkpoint"
CHECKPOINT_EVERY_S = 30.0
METRICS = "metrics.json"
FILES = ("jobs.csv", "jobs.parquet", "series.csv", "series.parquet", METRICS, CHECKPOINT)
"""What a run may leave in its folder."""
FORMAT = 6
"""Of checkpoints; raised when what is pickled changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run that is done, or (``record`` None) was stopped and left a checkpoint."""

    record: RunRecord | None
    report: OddRowReport
    resumed: bool = False


class CheckpointError(Exception):
    """A checkpoint that cannot be used, in one line."""


def execute(
    case: SimulationCase,
    *,
    resume: bool = False,
    formats: tuple[str, ...] = ("csv",),
    on_turn: Callable[[Turn], bool] | None = None,
    checkpoint_every_s: float = CHECKPOINT_EVERY_S,
) -> Outcome:
    """Runs a case to its end, or until ``on_turn`` returns False.

    A checkpoint is left then, and, against a crash, every ``checkpoint_every_s`` of real time.
    Raises WorkloadError, ValueError, SimulationError, ResultFileError, CheckpointError.
    """
    folder = case.folder
    table, report = jobs_of(case)
    if case.messages is not None:
        return _by_messages(case, case.messages, table, report, formats)
    saved = _load(case, folder) if resume and folder is not None else None
    stream = None
    if saved is not None and folder is not None:
        simulation = saved.simulation
        if (saved.at_byte is not None) != ("csv" in formats):
            raise CheckpointError(f"{folder / CHECKPOINT}: give the --format of the stopped run")
        if saved.at_byte is not None:
            extra = extra_columns(simulation)
            stream = JobStream.resume(folder / "jobs.csv", saved.at_byte, extra)
    else:
        simulation = simulation_of(case, table)
        if folder is not None:
            _clear(folder)
            extra = extra_columns(simulation)
            stream = JobStream(folder / "jobs.csv", extra) if "csv" in formats else None
    done = _run(case, simulation, stream, on_turn, checkpoint_every_s)
    if not done:
        return Outcome(record=None, report=report, resumed=saved is not None)
    record = simulation.record()
    if folder is not None:
        _finish(case, record, folder, formats)
    return Outcome(record=record, report=report, resumed=saved is not None)


def _by_messages(
    case: SimulationCase,
    level: MessageLevel,
    table: JobTable,
    report: OddRowReport,
    formats: tuple[str, ...],
) -> Outcome:
    """The other level: from start to end in one go."""
    # The core and all policies: not needed by a pool.
    from wattfold.coordinator.simulation.cluster.flight_recorder import BrokenInvariantError
    from wattfold.coordinator.simulation.runs.by_messages import run_by_messages

    if case.folder is not None:
        _clear(case.folder)
    try:
        record = run_by_messages(case, table, level)
    except BrokenInvariantError as error:
        raise SimulationError("; ".join([str(error), *getattr(error, "__notes__", [])])) from error
    if record.unfinished:
        first = table.job_ids[record.unfinished[0]]
        raise SimulationError(
            f"{len(record.unfinished)} jobs never start on this machine, the first is job {first}"
        )
    if case.folder is not None:
        if "csv" in formats:
            write_jobs(record, case.folder / "jobs.csv")
        _finish(case, record, case.folder, formats)
    return Outcome(record=record, report=report)


@dataclass(slots=True)
class _Saved:
    identity: str
    at_byte: int | None
    """Length of the file of jobs, None without one."""
    simulation: PoolSimulation


def _clear(folder: Path) -> None:
    """Makes the folder, or removes what an earlier run left in it. Raises ResultFileError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise ResultFileError(folder, 0, f"cannot be used: {error.strerror or error}") from error


def _run(
    case: SimulationCase,
    simulation: PoolSimulation,
    stream: JobStream | None,
    on_turn: Callable[[Turn], bool] | None,
    checkpoint_every_s: float,
) -> bool:
    saved_s = time.monotonic()

    def turn(state: Turn) -> bool:
        nonlocal saved_s
        goes_on = on_turn is None or on_turn(state)
        due = not goes_on or time.monotonic() - saved_s > checkpoint_every_s
        if due and not simulation.finished and case.folder is not None:
            _save(case, simulation, stream)
            saved_s = time.monotonic()
        return goes_on

    if stream is None:
        return simulation.run(turn)
    with stream:

        def ended(run: PoolSimulation, job: int) -> None:
            stream.append(_row(run, job))

        simulation.on_end = ended
        return simulation.run(turn)


def extra_columns(simulation: PoolSimulation) -> Extra:
    """What the file of jobs has beside the columns of every run."""
    return Extra(
        parts=simulation.by_node,
        attempts=simulation.counts_attempts,
        training=simulation.table.training is not None,
    )


def _row(simulation: PoolSimulation, job: int) -> JobRow:
    table = simulation.table
    return JobRow(
        job_id=int(table.job_ids[job]),
        user=int(table.users[job]),
        submit_ns=int(table.submit_ns[job]),
        size_min=int(table.size_min[job]),
        size_max=int(table.size_max[job]),
        run_ns=int(table.run_ns[job]),
        estimate_ns=int(table.estimate_ns[job]),
        malleable=bool(table.malleable[job]),
        **_due(table, job),
        **simulation.facts_of(job),
    )


class _Due(TypedDict, total=False):
    due_ns: int
    weight: float


def _due(table: JobTable, job: int) -> _Due:
    if table.training is None:
        return {}
    return {
        "due_ns": int(table.training.due_ns[job]),
        "weight": float(table.training.weights[job]),
    }


def _save(case: SimulationCase, simulation: PoolSimulation, stream: JobStream | None) -> None:
    assert case.folder is not None
    at_byte = stream.position() if stream is not None else None
    saved = _Saved(identity=identity_text(case), at_byte=at_byte, simulation=simulation)
    data = pickle.dumps(saved)
    with whole_file(case.folder / CHECKPOINT) as file:
        file.write(hashlib.sha256(data).digest())
        file.write(data)


def _load(case: SimulationCase, folder: Path) -> _Saved | None:
    path = folder / CHECKPOINT
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    if hashlib.sha256(data[32:]).digest() != data[:32]:
        raise CheckpointError(f"{path} is damaged; start again without --resume")
    try:
        saved = pickle.loads(data[32:])  # noqa: S301 - the user's own file
    except Exception as error:
        raise CheckpointError(
            f"{path} is from another version; start again without --resume"
        ) from error
    if not isinstance(saved, _Saved) or saved.identity != identity_text(case):
        raise CheckpointError(
            f"{path} is from another run; give the options of the stopped run, or another folder"
        )
    return saved


def identity_text(case: SimulationCase) -> str:
    """What tells the runs of this version apart."""
    return json.dumps([FORMAT, case.identity()], sort_keys=True)


def _finish(case: SimulationCase, record: RunRecord, folder: Path, formats: Sequence[str]) -> None:
    if "parquet" in formats:
        write_jobs(record, folder / "jobs.parquet")
        write_series(record.series, folder / "series.parquet")
    if "csv" in formats:
        write_series(record.series, folder / "series.csv")
    document = {"case": case.identity(), "metrics": metrics_of_run(record, timings=False)}
    with whole_file(folder / METRICS) as file:
        file.write((json.dumps(document, indent=1, sort_keys=True) + "\n").encode())
    (folder / CHECKPOINT).unlink(missing_ok=True)


def metrics_of_run(record: RunRecord, *, timings: bool) -> Document:
    """The figures of a run under stable names."""
    return metrics_document(metrics_of(record), timings=timings)
