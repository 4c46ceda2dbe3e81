"""Backend that runs cases on local cores in processes of a fork server.

The fork server imports the measured code once; each process of the sweep is a copy of it. The
processes end with the sweep.

A case whose process dies (out of memory, a crash in C) takes down the whole pool of
`concurrent.futures`. The number of cases in flight is at most the number of processes, so only
these are in doubt. Each of them is run again in its own process, and only the faulty case fails.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from types import FrameType

from wattfold.simulator.sweep.case import Case, FailedCase, Measure, Outcome
from wattfold.simulator.sweep.worker import outcome_of, prepare

_GRACE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCores:
    """Backend with up to ``processes`` processes at a time."""

    processes: int

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise ValueError(f"a sweep needs at least one process, got {self.processes}")

    @property
    def width(self) -> int:
        """Number of cases that run at one time."""
        return self.processes

    def outcomes(self, measure: Measure, cases: Sequence[Case]) -> Iterator[tuple[int, Outcome]]:
        """Yield the position and outcome of every case, as they end.

        Closing the iterator, or an exception such as KeyboardInterrupt, ends all processes. While
        it runs, SIGTERM and SIGHUP raise KeyboardInterrupt too: their usual effect would leave
        processes and semaphores behind.
        """
        waiting = list(reversed(range(len(cases))))
        with _stopped_by(signal.SIGTERM, signal.SIGHUP):
            while waiting:
                doubtful = yield from self._until_broken(measure, cases, waiting)
                for position in doubtful:
                    yield position, _alone(measure, cases[position])

    def _until_broken(
        self, measure: Measure, cases: Sequence[Case], waiting: list[int]
    ) -> Generator[tuple[int, Outcome], None, list[int]]:
        """Run cases of ``waiting`` until it is empty or a process died; return those in doubt."""
        running: dict[Future[Outcome], int] = {}
        doubtful: list[int] = []
        with _pool(min(self.processes, len(waiting)), measure) as pool:
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
                        yield position, FailedCase(reason=f"{type(error).__name__}: {error}")
                    else:
                        yield position, outcome
        return doubtful


@contextmanager
def _stopped_by(*numbers: signal.Signals) -> Iterator[None]:
    """Let these signals act as Ctrl-C, except ignored ones and outside of the main thread."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    ours = [n for n in numbers if main and signal.getsignal(n) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _alone(measure: Measure, case: Case) -> Outcome:
    with _pool(1, measure) as pool:
        try:
            return _submitted(pool, measure, case).result()
        except BrokenProcessPool:
            return FailedCase(reason="its process died: out of memory, killed, or crashed")


def _submitted(pool: ProcessPoolExecutor, measure: Measure, case: Case) -> Future[Outcome]:
    """Submit a case with SIGINT blocked, since the call may start a process.

    The process inherits the blocked signal, so Ctrl-C cannot hit it before it ignores SIGINT. The
    signal is delivered here afterwards.
    """
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(outcome_of, measure, case)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


@contextmanager
def _pool(processes: int, measure: Measure) -> Iterator[ProcessPoolExecutor]:
    """Yield an executor whose processes have ended when the block is left in any way."""
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("forkserver")
    # This has no effect if the server of this process is already running.
    context.set_forkserver_preload([prepare.__module__, measure.__module__])
    pool = ProcessPoolExecutor(
        processes,
        mp_context=context,
        initializer=prepare,
    )
    finished = False
    try:
        yield pool
        finished = True
    finally:
        if not finished:
            _end([child for child in multiprocessing.active_children() if child not in others])
        # This also waits for the thread of the executor. If it still closed its pipes while the
        # interpreter exits, an error would be printed.
        pool.shutdown(cancel_futures=True)


def _end(children: Sequence[BaseProcess]) -> None:
    """Terminate processes, and kill those that do not end in time."""
    for child in children:
        child.terminate()
    for child in children:
        # The executor's own thread may have collected it already.
        with suppress(ValueError, AssertionError):
            child.join(_GRACE_S)
            if child.is_alive():
                child.kill()
