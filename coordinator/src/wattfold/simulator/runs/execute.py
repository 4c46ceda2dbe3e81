"""Execution of a case: it streams jobs to a file, and can be stopped and resumed.

The folder of a case holds ``jobs.csv``, which grows by a row as each job ends, ``checkpoint`` until
the run is done, and ``metrics.json`` after that. A stopped and resumed run leaves the same bytes as
an uninterrupted run. A new run removes the files of an earlier run from its folder.

A checkpoint is a checksum and a pickle. The checksum detects a damaged file, not a malicious file:
resume only runs that you stopped yourself.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from wattfold.simulator.engine.engine import PoolSimulation, SimulationError, Turn
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.results.errors import ResultFileError
from wattfold.simulator.results.files import write_jobs, write_series
from wattfold.simulator.results.job_columns import Extra, JobRow
from wattfold.simulator.results.job_stream import JobStream
from wattfold.simulator.results.metrics import metrics_of
from wattfold.simulator.results.table import Document, metrics_document
from wattfold.simulator.runs.build import jobs_of, on_machine, simulation_of
from wattfold.simulator.runs.case import MessageLevel, SimulationCase
from wattfold.simulator.workloads.odd_rows import OddRowReport
from wattfold.simulator.workloads.swf_writer import whole_file

CHECKPOINT = "checkpoint"
CHECKPOINT_EVERY_S = 30.0
METRICS = "metrics.json"
FILES = ("jobs.csv", "jobs.parquet", "series.csv", "series.parquet", METRICS, CHECKPOINT)
"""Files that a run may leave in its folder."""
FORMAT = 9
"""Format version of checkpoints; raised when the pickled state changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """A finished run, or a stopped run with a checkpoint (``record`` None)."""

    record: RunRecord | None
    report: OddRowReport
    resumed: bool = False


class CheckpointError(Exception):
    """A checkpoint that cannot be used; its text is one line."""


def execute(
    case: SimulationCase,
    *,
    resume: bool = False,
    formats: tuple[str, ...] = ("csv",),
    on_turn: Callable[[Turn], bool] | None = None,
    checkpoint_every_s: float = CHECKPOINT_EVERY_S,
) -> RunOutcome:
    """Run a case to its end, or until ``on_turn`` returns False.

    A checkpoint is written at a stop, and every ``checkpoint_every_s`` of wall time in case of a
    crash. Raises WorkloadError, ValueError, SimulationError, ResultFileError, CheckpointError.
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
        return RunOutcome(record=None, report=report, resumed=saved is not None)
    record = simulation.record()
    if case.sleep is not None:
        record = replace(record, policy=case.name)
    if folder is not None:
        _finish(case, record, folder, formats)
    return RunOutcome(record=record, report=report, resumed=saved is not None)


def _by_messages(
    case: SimulationCase,
    level: MessageLevel,
    table: JobTable,
    report: OddRowReport,
    formats: tuple[str, ...],
) -> RunOutcome:
    """Run a case with messages from start to end."""
    # A pool does not need the core and all policies.
    from wattfold.simulator.messages.flight_recorder import BrokenInvariantError
    from wattfold.simulator.runs.by_messages import run_by_messages

    if case.folder is not None:
        _clear(case.folder)
    try:
        record = run_by_messages(case, on_machine(table, case.machine), level)
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
    return RunOutcome(record=record, report=report)


@dataclass(slots=True)
class _Saved:
    identity: str
    at_byte: int | None
    """Length of the file of jobs, None without a file."""
    simulation: PoolSimulation


def _clear(folder: Path) -> None:
    """Create the folder, or remove the files of an earlier run. Raises ResultFileError."""
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
    """Return the extra columns in the file of jobs."""
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
    """Return the identity of a run in this version."""
    return json.dumps([FORMAT, case.identity()], sort_keys=True)


def _finish(case: SimulationCase, record: RunRecord, folder: Path, formats: Sequence[str]) -> None:
    if "parquet" in formats:
        write_jobs(record, folder / "jobs.parquet")
        write_series(record.series, folder / "series.parquet")
    if "csv" in formats:
        write_series(record.series, folder / "series.csv")
    drawn = case.source.profiles and case.source.annotations is None
    document = {
        "case": case.identity(),
        "profiles_drawn_from_seed": case.seed if drawn else None,
        "metrics": metrics_of_run(record, timings=False),
    }
    with whole_file(folder / METRICS) as file:
        file.write((json.dumps(document, indent=1, sort_keys=True) + "\n").encode())
    (folder / CHECKPOINT).unlink(missing_ok=True)


def metrics_of_run(record: RunRecord, *, timings: bool) -> Document:
    """Return the metrics of a run under stable names."""
    return metrics_document(metrics_of(record), timings=timings)
