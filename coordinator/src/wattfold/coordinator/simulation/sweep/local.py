"""Runs cases on the cores of this machine: spawned processes, ended with the sweep.

A case whose process dies (out of memory, a crash in C) takes down the whole pool of
`concurrent.futures`. No more cases are in flight than there are processes, so only those are in
doubt; each is run again in a process of its own, and fails alone if it was the one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from wattfold.coordinator.simulation.sweep.case import Case, Failed, Measure, Outcome
from wattfold.coordinator.simulation.sweep.worker import outcome_of, prepare

_GRACE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCores:
    """Up to so many processes at a time."""

    processes: int

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise ValueError(f"a sweep needs at least one process, got {self.processes}")

    @property
    def width(self) -> int:
        """Cases that run at one time."""
        return self.processes

    def outcomes(self, measure: Measure, cases: Sequence[Case]) -> Iterator[tuple[int, Outcome]]:
        """The position and outcome of every case, as they come.

        Closing the iterator, or an exception such as KeyboardInterrupt, ends all processes.
        """
        waiting = list(reversed(range(len(cases))))
        while waiting:
            doubtful = yield from self._until_broken(measure, cases, waiting)
            for position in doubtful:
                yield position, _alone(measure, cases[position])

    def _until_broken(
        self, measure: Measure, cases: Sequence[Case], waiting: list[int]
    ) -> Generator[tuple[int, Outcome], None, list[int]]:
        """Takes from ``waiting`` until it is empty or a process died; returns those in doubt."""
        running: dict[Future[Outcome], int] = {}
        doubtful: list[int] = []
        with _pool(min(self.processes, len(waiting))) as pool:
            while waiting or running:
                while waiting and len(running) < self.processes and not doubtful:
                    position = waiting.pop()
                    try:
                        running[_submitted(pool, measure, cases[position])] = position
                    except BrokenProcessPool:
                        doubtful.append(position)
                if not running:
                    break
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    position = running.pop(future)
                    try:
                        outcome = future.result()
                    except BrokenProcessPool:
                        doubtful.append(position)
                    except Exception as error:  # noqa: BLE001 - a case that cannot be pickled
                        yield position, Failed(reason=f"{type(error).__name__}: {error}")
                    else:
                        yield position, outcome
        return doubtful


def _alone(measure: Measure, case: Case) -> Outcome:
    with _pool(1) as pool:
        try:
            return _submitted(pool, measure, case).result()
        except BrokenProcessPool:
            return Failed(reason="its process died: out of memory, killed, or crashed")


def _submitted(pool: ProcessPoolExecutor, measure: Measure, case: Case) -> Future[Outcome]:
    """Submits with SIGINT held back, since a process may be started by it.

    A process that inherits the blocked signal cannot be hit by Ctrl-C before it has learnt to leave
    that to its parent; here the signal is delivered afterwards.
    """
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(outcome_of, measure, case)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """An executor whose processes are gone when the block is left, however it is left."""
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=prepare,
        initargs=(os.getpid(),),
    )
    finished = False
    try:
        yield pool
        finished = True
    finally:
        ours = [child for child in multiprocessing.active_children() if child not in others]
        if not finished:
            for child in ours:
                child.terminate()
        pool.shutdown(wait=finished, cancel_futures=True)
        for child in ours:
            # The executor's own thread may have collected it already.
            with suppress(ValueError, AssertionError):
                child.join(_GRACE_S)
                if child.is_alive():
                    child.kill()
