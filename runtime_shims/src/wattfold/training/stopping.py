"""Signal that asks a program to save and end, and agreement of all ranks on the step."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any

HURRY_AFTER_S = 2.0
"""Minimum time after the first signal for a signal that means that no time is left.

A launcher also passes on a signal that its ranks have already received.
"""


class StopFlag:
    """Flag for the first signal of a set; another signal ends the program at once.

    Main thread only.
    """

    def __init__(self, signals: Sequence[int]) -> None:
        self.number = 0
        """Received signal; 0 = none."""
        self._signals = signals
        self._before: dict[int, Any] = {}
        self._since_s = 0.0
        self._owner = os.getpid()

    def __enter__(self) -> StopFlag:
        for number in self._signals:
            self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)
        self._before.clear()

    def _take(self, number: int, frame: FrameType | None) -> None:
        del frame
        if os.getpid() != self._owner:
            # A forked process has nothing to save and ends as usual.
            if number == signal.SIGTERM:
                _end_by(number)
        elif not self.number:
            self.number, self._since_s = number, time.monotonic()
        elif time.monotonic() - self._since_s >= HURRY_AFTER_S:
            # The new snapshot is not in place yet: the previous snapshot stays valid.
            _end_by(number)


def _end_by(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def agreed(number: int) -> int:
    """Return the maximum over all ranks of `torch.distributed`, or the number itself without it."""
    distributed = _distributed()
    if distributed is None:
        return number
    torch = sys.modules["torch"]
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    one = torch.tensor([number], device=device)
    distributed.all_reduce(one, op=distributed.ReduceOp.MAX)
    return int(one.item())


def own_rank() -> int:
    """Return the rank of this process in the training job, from PyTorch or else the launcher."""
    distributed = _distributed()
    if distributed is not None:
        return int(distributed.get_rank())
    names = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
    return int(next(filter(None, map(os.environ.get, names)), "0"))


def _distributed() -> Any:
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    ready = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return distributed if ready else None
