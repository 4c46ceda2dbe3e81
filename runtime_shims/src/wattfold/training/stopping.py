"""The signal that tells a program to save and to go, and on which step all of its ranks do."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any

HURRY_AFTER_S = 2.0
"""A launcher passes a signal on that its ranks have got as well: only one that comes later than
this after the first one says that there is no time left."""


class StopFlag:
    """Notes the first signal of a set; another one ends the program at once. Main thread only."""

    def __init__(self, signals: Sequence[int]) -> None:
        self.number = 0
        """The signal that came; 0 = none did."""
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
            # One that the program has forked: it has nothing to save, and ends as it always would.
            if number == signal.SIGTERM:
                _end_by(number)
        elif not self.number:
            self.number, self._since_s = number, time.monotonic()
        elif time.monotonic() - self._since_s >= HURRY_AFTER_S:
            # What is being written is not in place yet: the snapshot before stays good.
            _end_by(number)


def _end_by(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def agreed(number: int) -> int:
    """The greatest number of all ranks, where `torch.distributed` joins several; else this one."""
    distributed = _distributed()
    if distributed is None:
        return number
    torch = sys.modules["torch"]
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    one = torch.tensor([number], device=device)
    distributed.all_reduce(one, op=distributed.ReduceOp.MAX)
    return int(one.item())


def own_rank() -> int:
    """Of this process among those that train together: by PyTorch, else as launchers tell it."""
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
