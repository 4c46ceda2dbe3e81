"""The worker's side of `worker`: it reads calls from standard input and answers on the old stdout.

It is started as ``python -m`` and never imported by the coordinator. It must not outlive its
parent: the kernel kills it with its parent (prctl(2), PR_SET_PDEATHSIG), even during a search, and
an end of file ends it between calls. All other output goes to standard error, which the parent
stores for the case of a crash.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import pickle
import signal
import sys
import traceback
from typing import Any, BinaryIO

from wattfold.coordinator.solvers.worker_frames import HEADER

_PR_SET_PDEATHSIG = 1


def main(parent_pid: int) -> int:
    """Serve calls until the end of input. Return the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    if not _die_with_parent(parent_pid):
        return 1
    answers = os.fdopen(os.dup(1), "wb")
    # A library that prints must not break the framing.
    os.dup2(2, 1)
    calls = sys.stdin.buffer
    # The first call warms up: garbage collection of its imports would be useless.
    gc.disable()
    while (message := _read(calls)) is not None:
        answer = _answer(message)
        answers.write(HEADER.pack(len(answer)) + answer)
        answers.flush()
        if not gc.isenabled():
            gc.freeze()
            collect_seldom()
            gc.enable()
    return 0


def collect_seldom() -> None:
    """Let garbage collection run only after many new objects.

    A copy of the state has hundreds of thousands of objects that stay. With the thresholds of
    Python, collection takes a fourth of the time of a first planning round with 10,000 jobs.
    """
    gc.set_threshold(50_000, 20, 20)


def _die_with_parent(parent_pid: int) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # The parent may have died before the request: then another process is the parent now.
    return os.getppid() == parent_pid


def _read(calls: BinaryIO) -> bytes | None:
    header = calls.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    (size,) = HEADER.unpack(header)
    message = calls.read(size)
    return message if len(message) == size else None


def _answer(message: bytes) -> bytes:
    """Return (True, value) or (False, (reason, traceback)), pickled."""
    try:
        function, args = pickle.loads(message)  # noqa: S301 - from the parent, over its own pipe
        value: Any = None if function is None else function(*args)
        return pickle.dumps((True, value), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - every failure is the parent's to judge
        reason = f"{type(error).__name__}: {error}"
        return pickle.dumps((False, (reason, traceback.format_exc())))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
