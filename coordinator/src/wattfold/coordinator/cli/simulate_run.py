"""Runs the cases of `wattfold simulate`: one here, with a bar; several on all cores or on Dask.

One run can be stopped in its middle and resumed; of several, those that were done are kept.
"""

from __future__ import annotations

import pickle
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, cast

from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.cli.errors import CliError
from wattfold.coordinator.cli.session import Session
from wattfold.coordinator.simulation.pool.engine import Turn
from wattfold.coordinator.simulation.pool.record import RunRecord
from wattfold.coordinator.simulation.results.metrics import Metrics, metrics_of
from wattfold.coordinator.simulation.runs.case import SimulationCase
from wattfold.coordinator.simulation.runs.execute import Outcome, execute
from wattfold.coordinator.simulation.sweep.case import Case, Failed
from wattfold.coordinator.simulation.workloads.odd_rows import OddRowReport

if TYPE_CHECKING:
    from wattfold.coordinator.simulation.sweep.run import Backend


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run with its figures."""

    record: RunRecord
    metrics: Metrics
    report: OddRowReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Ctrl-C: what is left and how to go on."""

    message: str


def run_cases(
    session: Session,
    cases: Sequence[SimulationCase],
    *,
    resume: bool,
    formats: tuple[str, ...],
    workers: int | None,
    dask: str | None,
) -> list[Finished] | Stopped:
    """Runs all cases. Raises what `execute` raises, CliError for cases that failed elsewhere."""
    if len(cases) == 1 and dask is None:
        return _here(session, cases[0], resume, formats)
    return _elsewhere(session, cases, resume, formats, workers, dask)


def _here(
    session: Session, case: SimulationCase, resume: bool, formats: tuple[str, ...]
) -> list[Finished] | Stopped:
    with _interruptions() as stop, _bar(session) as bar:
        task = bar.add_task(case.policy.name, total=None)

        def turn(state: Turn) -> bool:
            day = (state.now_ns / NS_PER_S) / 86_400
            bar.update(
                task,
                total=state.jobs,
                completed=state.jobs_ended,
                description=f"{case.policy.name}: day {day:.0f}, {state.queued} wait",
            )
            return not stop

        outcome = execute(case, resume=resume, formats=formats, on_turn=turn)
    if outcome.record is None:
        if case.folder is None:
            return Stopped(message="stopped; with --out DIR it could be resumed")
        return Stopped(
            message=f"stopped; the same command with --resume goes on from {case.folder}"
        )
    return [_finished(outcome)]


def _finished(outcome: Outcome) -> Finished:
    assert outcome.record is not None
    metrics = metrics_of(outcome.record)
    return Finished(record=outcome.record, metrics=metrics, report=outcome.report)


@contextmanager
def _interruptions() -> Iterator[list[int]]:
    """A list that is empty until the first Ctrl-C; the second one ends the command."""
    seen: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


def _bar(session: Session) -> Progress:
    console = session.console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal or session.json,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """A case for another process, which leaves what it found in a file."""

    case: SimulationCase
    resume: bool
    formats: tuple[str, ...]
    result: Path

    @property
    def label(self) -> str:
        """For the bar."""
        return self.case.label

    def identity(self) -> Mapping[str, object]:
        """As that of the case."""
        return self.case.identity()


def _measure(task: Case) -> Mapping[str, float]:
    """In the other process: runs the case and leaves the outcome where it can be fetched."""
    assert isinstance(task, _Task)
    outcome = execute(task.case, resume=task.resume, formats=task.formats)
    task.result.write_bytes(pickle.dumps(outcome))
    return {}


def _elsewhere(
    session: Session,
    cases: Sequence[SimulationCase],
    resume: bool,
    formats: tuple[str, ...],
    workers: int | None,
    dask: str | None,
) -> list[Finished] | Stopped:
    found: dict[int, Finished] = {}
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="wattfold-simulate-") as name:
        tasks = [
            _Task(
                case=_absolute(case),
                resume=resume,
                formats=formats,
                result=Path(name) / str(number),
            )
            for number, case in enumerate(cases)
        ]
        outcomes = _backend(len(cases), workers, dask).outcomes(_measure, tasks)
        try:
            with _bar(session) as bar, closing(cast("_Closable", outcomes)):
                task = bar.add_task(f"{len(cases)} runs", total=len(cases))
                for number, outcome in outcomes:
                    if isinstance(outcome, Failed):
                        failures.append(f"{cases[number].label}: {outcome.reason}")
                    else:
                        found[number] = _fetched(tasks[number].result)
                    bar.advance(task)
        except KeyboardInterrupt:
            return Stopped(message=f"stopped; {len(found)} of {len(cases)} runs were done")
    if failures:
        raise CliError(f"{len(failures)} of {len(cases)} runs failed: " + "; ".join(failures))
    return [found[number] for number in range(len(cases))]


class _Closable:
    def close(self) -> None: ...


def _fetched(path: Path) -> Finished:
    return _finished(pickle.loads(path.read_bytes()))  # noqa: S301 - our own process wrote it


def _absolute(case: SimulationCase) -> SimulationCase:
    """Other processes may be elsewhere."""
    folder = case.folder.absolute() if case.folder else None
    source = case.source
    if source.log is not None:
        source = replace(source, log=source.log.absolute())
    return replace(case, folder=folder, source=source)


def _backend(cases: int, workers: int | None, dask: str | None) -> Backend:
    if dask is not None:
        from wattfold.coordinator.simulation.sweep.on_dask import DaskCluster

        return DaskCluster(address=dask)
    import os

    from wattfold.coordinator.simulation.sweep.local import LocalCores

    return LocalCores(processes=min(cases, workers or len(os.sched_getaffinity(0))))
