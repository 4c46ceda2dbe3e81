"""Several runs of `wattfold simulate`, each in a process on this machine or on a Dask cluster.

A run that is done leaves its outcome in a file of its folder until all are done, so that resuming
does not run it again. On Ctrl-C the processes here note how far they are and end; runs that Dask
has begun continue to their end.
"""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Protocol, cast

from wattfold.coordinator.cli.shared.errors import BadRequestError, CliError
from wattfold.coordinator.cli.shared.session import Session
from wattfold.coordinator.cli.simulation.simulate_outcome import (
    Finished,
    How,
    Stopped,
    finished,
    progress_bar,
)
from wattfold.coordinator.simulation.pool.engine import SimulationError
from wattfold.coordinator.simulation.runs.case import SimulationCase
from wattfold.coordinator.simulation.runs.execute import (
    CheckpointError,
    Outcome,
    execute,
    identity_text,
)
from wattfold.coordinator.simulation.sweep.case import Case, Failed
from wattfold.coordinator.simulation.workloads.errors import WorkloadError
from wattfold.coordinator.simulation.workloads.swf_writer import whole_file

if TYPE_CHECKING:
    from wattfold.coordinator.simulation.sweep.run import Backend

OUTCOME = "outcome"
_EXPECTED = (WorkloadError, SimulationError, CheckpointError, ValueError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """A case for another process, which leaves what it found in a file."""

    case: SimulationCase
    how: How
    result: Path

    @property
    def label(self) -> str:
        """For the bar."""
        return self.case.label

    def identity(self) -> Mapping[str, object]:
        """As that of the case."""
        return self.case.identity()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Left:
    """Content of the file: an outcome, or an expected failure in one line."""

    identity: str = ""
    outcome: Outcome | None = None
    problem: str = ""
    usage: bool = False
    """The problem is one of the command line."""


def elsewhere(
    session: Session,
    cases: Sequence[SimulationCase],
    how: How,
    workers: int | None,
    dask: str | None,
) -> list[Finished] | Stopped:
    """Runs all cases. Raises CliError for those that failed, DaskUnavailableError."""
    if dask is not None and cases[0].folder is None:
        raise BadRequestError(
            "runs on Dask return their results in files; give a folder that all workers can access "
            "with --out DIR"
        )
    with tempfile.TemporaryDirectory(prefix="wattfold-simulate-") as name:
        tasks = [
            _Task(case=case, how=how, result=(case.folder or Path(name) / str(number)) / OUTCOME)
            for number, case in enumerate(map(_absolute, cases))
        ]
        found = {n: left for n, task in enumerate(tasks) if how.resume and (left := _known(task))}
        for number in set(range(len(tasks))) - set(found):
            # The run itself reports a path that is not a folder, and other runs still finish.
            with suppress(NotADirectoryError):
                tasks[number].result.unlink(missing_ok=True)
        waiting = [number for number in range(len(tasks)) if number not in found]
        backend = _backend(len(waiting), workers, dask)
        outcomes = backend.outcomes(_measure, [tasks[number] for number in waiting])
        try:
            with progress_bar(session) as bar, closing(cast("_Closable", outcomes)):
                line = bar.add_task(f"{len(cases)} runs", total=len(cases), completed=len(found))
                for position, outcome in outcomes:
                    number = waiting[position]
                    found[number] = _left(tasks[number], outcome)
                    bar.advance(line)
        except KeyboardInterrupt:
            return _stopped(tasks, found)
        _refuse_failures(tasks, found)
        runs = [finished(cast(Outcome, found[number].outcome)) for number in range(len(tasks))]
        for task in tasks:
            task.result.unlink(missing_ok=True)
    return runs


def _known(task: _Task) -> _Left | None:
    """The outcome that an earlier command left behind for just this case."""
    try:
        left = pickle.loads(task.result.read_bytes())  # noqa: S301 - the user's own file
    except Exception:  # noqa: BLE001 - missing or damaged: it is run again
        return None
    usable = isinstance(left, _Left) and left.identity == _identity(task)
    return left if usable else None


def _identity(task: _Task) -> str:
    return f"{identity_text(task.case)} {task.how.formats}"


def _stopped(tasks: Sequence[_Task], found: Mapping[int, _Left]) -> Stopped:
    done = sum(left.outcome is not None for left in found.values())
    message = f"stopped; {done} of {len(tasks)} runs are complete"
    if tasks[0].case.folder is not None:
        message += "; the same command with --resume continues"
    return Stopped(message=message)


def _left(task: _Task, outcome: object) -> _Left:
    if isinstance(outcome, Failed):
        return _Left(problem=outcome.reason)
    left = pickle.loads(task.result.read_bytes())  # noqa: S301 - our own process wrote it
    assert isinstance(left, _Left)
    if left.problem:
        task.result.unlink()
    return left


def _refuse_failures(tasks: Sequence[_Task], found: Mapping[int, _Left]) -> None:
    """Raises CliError: one line for all, each problem once."""
    failed = {n: left for n, left in sorted(found.items()) if left.problem}
    if not failed:
        return
    by_problem: dict[str, list[str]] = {}
    for number, left in failed.items():
        by_problem.setdefault(left.problem, []).append(tasks[number].label)
    kind = BadRequestError if all(left.usage for left in failed.values()) else CliError
    if len(by_problem) == 1 and len(failed) == len(tasks):
        raise kind(next(iter(by_problem)))
    listed = "; ".join(f"{', '.join(labels)}: {text}" for text, labels in by_problem.items())
    raise kind(f"{len(failed)} of {len(tasks)} runs failed: {listed}")


def _measure(task: Case) -> Mapping[str, float]:
    """In the other process: runs the case and leaves the outcome where it can be fetched."""
    assert isinstance(task, _Task)
    with _termination() as stop:
        left = _ran(task, lambda: not stop)
    if left.problem or (left.outcome and left.outcome.record):
        task.result.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(task.result) as file:
            file.write(pickle.dumps(left))
    if stop:
        # The parent waits for the end of this process, not for its result.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    return {}


def _ran(task: _Task, goes_on: Callable[[], bool]) -> _Left:
    try:
        outcome = execute(
            task.case,
            resume=task.how.resume,
            formats=task.how.formats,
            on_turn=lambda _turn: goes_on(),
            checkpoint_every_s=task.how.checkpoint_every_s,
        )
    except _EXPECTED as error:
        return _Left(problem=str(error), usage=isinstance(error, ValueError))
    return _Left(identity=_identity(task), outcome=outcome)


@contextmanager
def _termination() -> Iterator[list[int]]:
    """A list that is empty until this process is asked to end; always empty in a Dask thread."""
    seen: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        seen.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    before = signal.signal(signal.SIGTERM, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGTERM, before)


class _Closable(Protocol):
    def close(self) -> None: ...


def _absolute(case: SimulationCase) -> SimulationCase:
    """Other processes may be elsewhere."""
    source = case.source
    return replace(
        case,
        folder=case.folder.absolute() if case.folder else None,
        source=replace(
            source,
            log=source.log.absolute() if source.log else None,
            annotations=source.annotations.absolute() if source.annotations else None,
        ),
    )


def _backend(cases: int, workers: int | None, dask: str | None) -> Backend:
    if dask is not None:
        from wattfold.coordinator.simulation.sweep.on_dask import DaskCluster

        return DaskCluster(address=dask)
    from wattfold.coordinator.simulation.sweep.local import LocalCores

    return LocalCores(processes=max(min(cases, workers or len(os.sched_getaffinity(0))), 1))
