"""Code inside a worker process: it runs one case and returns its time or its failure."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from multiprocessing.process import BaseProcess

from wattfold.simulator.sweep.case import Case, Done, FailedCase, Measure, Outcome


def prepare() -> None:
    """Prepare a worker, so that it ends with its command and ignores Ctrl-C.

    A worker that survived a killed command would use a core for minutes without a reader of its
    result. Its parent in the kernel is the fork server, which lives as long as its workers, so a
    thread waits for the end of the command itself.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    command = multiprocessing.parent_process()
    assert command is not None, "a worker is a child process"
    threading.Thread(target=_end_with, args=(command,), daemon=True).start()


def _end_with(command: BaseProcess) -> None:
    command.join()
    os._exit(1)


def outcome_of(measure: Measure, case: Case) -> Outcome:
    """Run a case; a failure is returned as a value, so that other cases continue."""
    begun_s = time.thread_time()
    try:
        values = {name: float(value) for name, value in measure(case).items()}
    except Exception as error:  # noqa: BLE001 - the failure is listed with its trace
        return FailedCase(reason=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
    return Done(values=values, cpu_s=time.thread_time() - begun_s)
