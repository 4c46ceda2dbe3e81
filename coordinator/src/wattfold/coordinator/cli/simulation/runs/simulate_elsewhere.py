"""Several runs of `wattfold simulate`, each in a process on this machine or on a Dask cluster.

A finished run keeps its outcome in a file of its folder until all runs are done, so that a resumed
command does not repeat it. On Ctrl-C the local processes save checkpoints and end; running Dask
tasks continue to their end.
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
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, cast

from wattfold.coordinator.cli.shared.connection.session import Session
from wattfold.coordinator.cli.shared.errors import BadRequestError, CliError
from wattfold.coordinator.cli.simulation.runs.simulate_outcome import (
    FinishedSimulation,
    How,
    Refused,
    Stopped,
    finished,
    progress_bar,
)
from wattfold.simulator.engine.engine import SimulationError
from wattfold.simulator.runs.case import SimulationCase
from wattfold.simulator.runs.execute import (
    CheckpointError,
    RunOutcome,
    execute,
    identity_text,
)
from wattfold.simulator.sweep.case import Case, FailedCase
from wattfold.simulator.workloads.errors import WorkloadError
from wattfold.simulator.workloads.swf_writer import whole_file

if TYPE_CHECKING:
    from wattfold.simulator.sweep.run import Backend, Closable

OUTCOME = "outcome"
_EXPECTED = (WorkloadError, SimulationError, CheckpointError, ValueError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """A case for another process, which writes its outcome to a file."""

    case: SimulationCase
    how: How
    result: Path

    @property
    def label(self) -> str:
        """Return the label for the progress bar."""
        return self.case.label

    def identity(self) -> Mapping[str, object]:
        """Return the identity of the case."""
        return self.case.identity()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Left:
    """Content of the file: an outcome, or an expected failure in one line."""

    identity: str = ""
    outcome: RunOutcome | None = None
    problem: str = ""
    usage: bool = False
    """Whether the problem is in the command line."""


def elsewhere(
    session: Session,
    cases: Sequence[SimulationCase],
    how: How,
    workers: int | None,
    dask: str | None,
) -> list[FinishedSimulation] | Stopped:
    """Run all cases. Raises CliError for failed cases, DaskUnavailableError."""
    runs = each_elsewhere(session, cases, how, workers, dask)
    if isinstance(runs, Stopped):
        return runs
    problems = {n: run.reason for n, run in enumerate(runs) if isinstance(run, Refused)}
    _refuse(cases, problems, BadRequestError)
    return [run for run in runs if isinstance(run, FinishedSimulation)]


def each_elsewhere(
    session: Session,
    cases: Sequence[SimulationCase],
    how: How,
    workers: int | None,
    dask: str | None = None,
) -> list[FinishedSimulation | Refused] | Stopped:
    """Run as `elsewhere`, but return cases that cannot be simulated as part of the result."""
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
            with progress_bar(session) as bar, closing(cast("Closable", outcomes)):
                line = bar.add_task(f"{len(cases)} runs", total=len(cases), completed=len(found))
                for position, outcome in outcomes:
                    number = waiting[position]
                    found[number] = _left(tasks[number], outcome)
                    bar.advance(line)
        except KeyboardInterrupt:
            return _stopped(tasks, found)
        failed = {
            n: one.problem for n, one in sorted(found.items()) if one.problem and not one.usage
        }
        refused = {n: one.problem for n, one in sorted(found.items()) if one.problem and one.usage}
        _refuse(cases, failed, CliError, refused)
        runs = [
            Refused(reason=refused[number])
            if number in refused
            else finished(cast(RunOutcome, found[number].outcome))
            for number in range(len(tasks))
        ]
        for task in tasks:
            task.result.unlink(missing_ok=True)
    return runs


def _known(task: _Task) -> _Left | None:
    """Return the outcome that an earlier command left for exactly this case."""
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
    if isinstance(outcome, FailedCase):
        return _Left(problem=outcome.reason)
    left = pickle.loads(task.result.read_bytes())  # noqa: S301 - our own process wrote it
    assert isinstance(left, _Left)
    if left.problem:
        task.result.unlink()
    return left


def _refuse(
    cases: Sequence[SimulationCase],
    problems: Mapping[int, str],
    kind: type[CliError],
    others: Mapping[int, str] = MappingProxyType({}),
) -> None:
    """Raise an error for problems, if there are any: one line for all, each problem once.

    Its text also names ``others``.
    """
    if not problems:
        return
    named = dict(sorted({**problems, **others}.items()))
    by_problem: dict[str, list[str]] = {}
    for number, problem in named.items():
        by_problem.setdefault(problem, []).append(cases[number].label)
    if len(by_problem) == 1 and len(named) == len(cases):
        raise kind(next(iter(by_problem)))
    listed = "; ".join(f"{', '.join(labels)}: {text}" for text, labels in by_problem.items())
    raise kind(f"{len(named)} of {len(cases)} runs failed: {listed}")


def _measure(task: Case) -> Mapping[str, float]:
    """Run the case in the other process and write the outcome to a file."""
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
    """Yield a list that is empty until this process must end; always empty in a Dask thread."""
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


def _absolute(case: SimulationCase) -> SimulationCase:
    """Return the case with absolute paths, as other processes may have another folder."""
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
        from wattfold.simulator.sweep.on_dask import DaskCluster

        return DaskCluster(address=dask)
    from wattfold.simulator.sweep.local import LocalCores

    return LocalCores(processes=max(min(cases, workers or len(os.sched_getaffinity(0))), 1))
