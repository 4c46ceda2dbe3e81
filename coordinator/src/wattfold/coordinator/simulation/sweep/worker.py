"""What runs inside the process of a worker: one case, its time, its failure as a value."""

from __future__ import annotations

import ctypes
import os
import signal
import time
import traceback

from wattfold.coordinator.simulation.sweep.case import Case, Done, Failed, Measure, Outcome

_PR_SET_PDEATHSIG = 1


def prepare(parent_pid: int) -> None:
    """First thing in a worker: it ends with its parent, and leaves Ctrl-C to it.

    A worker that outlived a killed parent would hold a core for minutes with nobody to take its
    result. Linux only: prctl(2).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # The parent may have ended before the request; then there will be no signal.
    if os.getppid() != parent_pid:
        os._exit(1)


def outcome_of(measure: Measure, case: Case) -> Outcome:
    """Runs a case. Its failure is a value: other cases go on."""
    begun_s = time.thread_time()
    try:
        values = {name: float(value) for name, value in measure(case).items()}
    except Exception as error:  # noqa: BLE001 - the failure is listed with its trace
        return Failed(reason=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
    return Done(values=values, cpu_s=time.thread_time() - begun_s)
