"""Execution of the cases of `wattfold simulate`: one here, with a bar; several elsewhere.

A run can be stopped and resumed.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.cli.shared.connection.session import Session
from wattfold.coordinator.cli.simulation.runs.simulate_elsewhere import elsewhere
from wattfold.coordinator.cli.simulation.runs.simulate_outcome import (
    FinishedSimulation,
    How,
    Stopped,
    finished,
    progress_bar,
)
from wattfold.simulator.engine.engine import Turn
from wattfold.simulator.runs.case import SimulationCase
from wattfold.simulator.runs.execute import CHECKPOINT_EVERY_S, execute


def run_cases(
    session: Session,
    cases: Sequence[SimulationCase],
    *,
    resume: bool,
    formats: tuple[str, ...],
    workers: int | None,
    dask: str | None,
    checkpoint_every_s: float = CHECKPOINT_EVERY_S,
) -> list[FinishedSimulation] | Stopped:
    """Run all cases. Raises as `execute`, and CliError for cases that failed elsewhere."""
    how = How(resume=resume, formats=formats, checkpoint_every_s=checkpoint_every_s)
    if len(cases) == 1 and dask is None:
        return _here(session, cases[0], how)
    return elsewhere(session, cases, how, workers, dask)


def _here(session: Session, case: SimulationCase, how: How) -> list[FinishedSimulation] | Stopped:
    with _interruptions() as stop, progress_bar(session) as bar:
        task = bar.add_task(case.name, total=None)

        def turn(state: Turn) -> bool:
            day = (state.now_ns / NS_PER_S) / 86_400
            bar.update(
                task,
                total=state.jobs,
                completed=state.jobs_ended,
                description=f"{case.name}: day {day:.0f}, {state.queued} waiting",
            )
            return not stop

        outcome = execute(
            case,
            resume=how.resume,
            formats=how.formats,
            on_turn=turn,
            checkpoint_every_s=how.checkpoint_every_s,
        )
    if outcome.record is None:
        if case.folder is None:
            return Stopped(message="stopped; only runs with --out DIR can be resumed")
        return Stopped(
            message=f"stopped; the same command with --resume continues from {case.folder}"
        )
    return [finished(outcome)]


@contextmanager
def _interruptions() -> Iterator[list[int]]:
    """Yield a list that is empty until the first Ctrl-C or SIGTERM; the second ends the command."""
    seen: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
