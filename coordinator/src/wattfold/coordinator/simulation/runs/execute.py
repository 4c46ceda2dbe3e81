"""Runs a case: streams its jobs to a file, can be stopped and goes on where it was.

In the folder of a case: ``jobs.csv`` grows by a row as each job ends; ``checkpoint`` is there while
the run is not done, and ``metrics.json`` when it is. A stopped run that is resumed leaves the bytes
of one that was not. A checkpoint is a pickle: resume only what you stopped yourself.
"""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wattfold.coordinator.simulation.pool.engine import PoolSimulation, Turn
from wattfold.coordinator.simulation.pool.record import RunRecord
from wattfold.coordinator.simulation.results.files import write_jobs, write_series
from wattfold.coordinator.simulation.results.job_columns import JobRow
from wattfold.coordinator.simulation.results.job_stream import JobStream
from wattfold.coordinator.simulation.results.metrics import metrics_of
from wattfold.coordinator.simulation.results.table import Document, metrics_document
from wattfold.coordinator.simulation.runs.build import jobs_of, simulation_of
from wattfold.coordinator.simulation.runs.case import SimulationCase
from wattfold.coordinator.simulation.workloads.odd_rows import OddRowReport
from wattfold.coordinator.simulation.workloads.swf_writer import whole_file

CHECKPOINT = "checkpoint"
CHECKPOINT_EVERY_S = 30.0
METRICS = "metrics.json"
FORMAT = 1
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
) -> Outcome:
    """Runs a case to its end, or until ``on_turn`` returns False.

    Raises WorkloadError, ValueError, SimulationError, ResultFileError, CheckpointError.
    """
    folder = case.folder
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    table, report = jobs_of(case)
    saved = _load(case, folder) if resume and folder is not None else None
    if saved is None:
        simulation = simulation_of(case, table)
        stream = JobStream(folder / "jobs.csv") if folder and "csv" in formats else None
    else:
        simulation = saved.simulation
        stream = JobStream.resume(folder / "jobs.csv", saved.at_byte) if folder else None
    done = _run(case, simulation, stream, on_turn)
    if not done:
        return Outcome(record=None, report=report, resumed=saved is not None)
    record = simulation.record()
    if folder is not None:
        _finish(case, record, folder, formats)
    return Outcome(record=record, report=report, resumed=saved is not None)


@dataclass(slots=True)
class _Saved:
    identity: str
    at_byte: int
    simulation: PoolSimulation


def _run(
    case: SimulationCase,
    simulation: PoolSimulation,
    stream: JobStream | None,
    on_turn: Callable[[Turn], bool] | None,
) -> bool:
    saved_s = time.monotonic()

    def turn(state: Turn) -> bool:
        nonlocal saved_s
        goes_on = on_turn is None or on_turn(state)
        due = not goes_on or time.monotonic() - saved_s > CHECKPOINT_EVERY_S
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
        **simulation.facts_of(job),
    )


def _save(case: SimulationCase, simulation: PoolSimulation, stream: JobStream | None) -> None:
    assert case.folder is not None
    at_byte = stream.position() if stream is not None else 0
    saved = _Saved(identity=_identity(case), at_byte=at_byte, simulation=simulation)
    with whole_file(case.folder / CHECKPOINT) as file:
        file.write(pickle.dumps(saved))


def _load(case: SimulationCase, folder: Path) -> _Saved | None:
    path = folder / CHECKPOINT
    try:
        saved = pickle.loads(path.read_bytes())  # noqa: S301 - the user's own file
    except FileNotFoundError:
        return None
    except Exception as error:
        raise CheckpointError(f"{path} is no checkpoint of this version: {error}") from error
    if not isinstance(saved, _Saved) or saved.identity != _identity(case):
        raise CheckpointError(
            f"{path} is of another run: give the options of the run that was stopped, or another "
            "folder"
        )
    return saved


def _identity(case: SimulationCase) -> str:
    return json.dumps([FORMAT, case.identity()], sort_keys=True)


def finished(case: SimulationCase) -> bool:
    """Whether the folder holds the results of exactly this case."""
    if case.folder is None:
        return False
    try:
        document = json.loads((case.folder / METRICS).read_bytes())
    except (OSError, ValueError):
        return False
    return bool(document.get("case") == json.loads(json.dumps(case.identity())))


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
