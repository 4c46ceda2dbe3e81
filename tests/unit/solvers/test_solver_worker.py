"""The worker process: answers, failures, deadlines, and its end when its parent ends."""

import asyncio
import contextlib
import gc
import os
import select
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import worker_functions as functions

from wattfold.coordinator.solvers.worker import (
    WAITING_MAX,
    Crashed,
    SolverWorker,
    Success,
    TimedOut,
    WorkerBusyError,
    WorkerClosedError,
)

pytestmark = pytest.mark.system
LONG_S = 240.0


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


async def value_of(worker: SolverWorker, function: Any, *args: object) -> Any:
    result = await worker.call(function, *args, deadline_s=LONG_S)
    assert isinstance(result, Success), result
    return result.value


def wait_for_end(pid: int) -> None:
    """Wait until the process is gone, for at most LONG_S."""
    with contextlib.suppress(ProcessLookupError):
        fd = os.pidfd_open(pid)
        try:
            assert select.select([fd], [], [], LONG_S)[0], f"process {pid} goes on"
        finally:
            os.close(fd)


async def file_written(path: Path) -> None:
    """Wait until a file exists; the event loop continues meanwhile."""
    async with asyncio.timeout(LONG_S):
        while not (path.exists() and path.read_text()):
            await asyncio.sleep(0.005)


def test_calls_share_one_warm_process() -> None:
    async def scenario() -> None:
        async with SolverWorker(functions.warm_up) as worker:
            assert await value_of(worker, functions.add, 2, 3) == 5
            pid = await value_of(worker, functions.pid)
            assert pid != os.getpid()
            assert await value_of(worker, functions.warmed) == [pid]

    run(scenario())


def test_garbage_is_collected_seldom_after_the_warm_up() -> None:
    """A copy of the state has many objects that stay, and each collection visits new ones."""

    async def scenario() -> None:
        async with SolverWorker(functions.warm_up) as worker:
            assert await value_of(worker, gc.isenabled)
            threshold, *_ = await value_of(worker, gc.get_threshold)
            assert threshold >= 10_000
            assert await value_of(worker, gc.get_freeze_count) > 0

    run(scenario())


def test_messages_larger_than_a_pipe_pass() -> None:
    async def scenario() -> None:
        data = os.urandom(3_000_000)
        async with SolverWorker() as worker:
            assert await value_of(worker, functions.echo, data) == data

    run(scenario())


def test_printing_does_not_break_the_framing() -> None:
    async def scenario() -> None:
        async with SolverWorker() as worker:
            assert await value_of(worker, functions.printing) == "quiet"
            assert await value_of(worker, functions.add, 1, 1) == 2

    run(scenario())


@pytest.mark.parametrize(
    ("function", "reason"),
    [(functions.fail, "ValueError: the reason"), (functions.unpicklable, "cannot pickle")],
)
def test_an_exception_comes_back_with_its_traceback(function: Any, reason: str) -> None:
    async def scenario() -> None:
        async with SolverWorker() as worker:
            pid = await value_of(worker, functions.pid)
            result = await worker.call(function, deadline_s=LONG_S)
            assert isinstance(result, Crashed)
            assert reason in result.reason
            assert "Traceback" in result.details
            assert await value_of(worker, functions.pid) == pid

    run(scenario())


@pytest.mark.parametrize(
    ("function", "reason", "details"),
    [
        (functions.abort, "ended by signal 6", "assertion failed: in the library"),
        (functions.leave, "exited with status 3", ""),
    ],
)
def test_a_dead_process_is_replaced(function: Any, reason: str, details: str) -> None:
    async def scenario() -> None:
        async with SolverWorker() as worker:
            pid = await value_of(worker, functions.pid)
            result = await worker.call(function, deadline_s=LONG_S)
            assert isinstance(result, Crashed)
            assert reason in result.reason
            assert details in result.details
            assert await value_of(worker, functions.pid) != pid

    run(scenario())


def test_a_late_process_is_killed_and_replaced(tmp_path: Path) -> None:
    async def scenario() -> None:
        started = tmp_path / "pid"
        async with SolverWorker() as worker:
            first = await value_of(worker, functions.pid)
            result = await worker.call(functions.hang, str(started), deadline_s=1.0)
            assert result == TimedOut(deadline_s=1.0, while_="running")
            wait_for_end(first)
            assert await value_of(worker, functions.pid) != first

    run(scenario())


def test_a_deadline_shorter_than_the_start_leaves_it_going_on() -> None:
    async def scenario() -> None:
        async with SolverWorker() as worker:
            result = await worker.call(functions.pid, deadline_s=0.0)
            assert isinstance(result, TimedOut)
            assert result.while_ in ("waiting", "starting")
            assert await value_of(worker, functions.add, 1, 2) == 3

    run(scenario())


def test_waiting_counts_against_the_deadline(tmp_path: Path) -> None:
    async def scenario() -> None:
        started = tmp_path / "pid"
        async with SolverWorker() as worker:
            hanging = asyncio.create_task(
                worker.call(functions.hang, str(started), deadline_s=LONG_S)
            )
            await file_written(started)
            result = await worker.call(functions.pid, deadline_s=0.1)
            assert result == TimedOut(deadline_s=0.1, while_="waiting")
            hanging.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await hanging
            wait_for_end(int(started.read_text()))
            assert await value_of(worker, functions.add, 1, 2) == 3

    run(scenario())


def test_the_queue_is_bounded(tmp_path: Path) -> None:
    async def scenario() -> None:
        started = tmp_path / "pid"
        worker = SolverWorker()
        calls = [
            asyncio.create_task(worker.call(functions.hang, str(started), deadline_s=LONG_S))
            for _ in range(WAITING_MAX)
        ]
        await file_written(started)
        with pytest.raises(WorkerBusyError):
            await worker.call(functions.pid, deadline_s=LONG_S)
        await worker.close()
        results = await asyncio.gather(*calls)
        assert all(isinstance(result, Crashed) for result in results)
        wait_for_end(int(started.read_text()))

    run(scenario())


def test_a_closed_worker_takes_no_calls_and_leaves_no_process() -> None:
    async def scenario() -> None:
        worker = SolverWorker()
        pid = await value_of(worker, functions.pid)
        await worker.close()
        await worker.close()
        wait_for_end(pid)
        with pytest.raises(WorkerClosedError):
            await worker.call(functions.pid, deadline_s=LONG_S)

    run(scenario())


def test_closing_while_it_starts() -> None:
    async def scenario() -> None:
        worker = SolverWorker()
        worker.start()
        await asyncio.sleep(0)
        await worker.close()

    run(scenario())


def test_a_failing_warm_up_is_reported_on_every_call() -> None:
    async def scenario() -> None:
        async with SolverWorker(functions.broken_warm_up) as worker:
            for _ in range(2):
                result = await worker.call(functions.pid, deadline_s=LONG_S)
                assert isinstance(result, Crashed)
                assert "cannot warm up" in result.reason

    run(scenario())


def test_an_interrupt_is_ignored() -> None:
    async def scenario() -> None:
        async with SolverWorker() as worker:
            assert await value_of(worker, functions.interrupt_self) == "still here"

    run(scenario())


PARENT = """
import asyncio, sys
import worker_functions
from wattfold.coordinator.solvers.worker import SolverWorker
asyncio.run(SolverWorker().call(worker_functions.hang, sys.argv[1], deadline_s=300.0))
"""


def test_a_killed_parent_takes_a_busy_worker_with_it(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(started)], env=environment)
    try:
        asyncio.run(file_written(started))
    finally:
        parent.kill()
        parent.wait(LONG_S)
    wait_for_end(int(started.read_text()))
