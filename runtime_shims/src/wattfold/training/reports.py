"""Report of the epochs in the snapshot: a text file next to it, for the planner of the job.

It has a line per epoch, for the last epochs only: ``epoch=12 seconds=31.512 gpus=2 attempt=3
loss=0.25``. The number counts from 1; unknown values are left out. The report comes from the
history inside the snapshot, so an epoch that was lost with its process is missing, and no epoch
appears twice.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NAME = "epochs"
LINES_MAX = 64


@dataclass(frozen=True)
class Epoch:
    """A finished epoch. ``seconds`` is 0 if it was interrupted, ``loss`` None if not noted."""

    number: int
    loss: float | None
    seconds: float
    gpus: int
    attempt: int

    @property
    def line(self) -> str:
        """Return its line in the report."""
        words = [f"epoch={self.number}"]
        words += [f"seconds={self.seconds:.6f}"] if self.seconds > 0 else []
        words += [f"gpus={self.gpus}", f"attempt={self.attempt}"]
        words += [] if self.loss is None else [f"loss={self.loss!r}"]
        return " ".join(words) + "\n"


def write(folder: Path, history: Sequence[Epoch]) -> None:
    """Write the report of a history in place. Raises OSError."""
    new = folder / f".{NAME}.new"
    new.write_text("".join(epoch.line for epoch in history[-LINES_MAX:]), encoding="ascii")
    new.rename(folder / NAME)


def own_gpus() -> int:
    """Return the number of GPUs of this program according to its environment."""
    names = ("WATTFOLD_GPUS", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    told = next((os.environ[name] for name in names if name in os.environ), "")
    return len([gpu for gpu in told.split(",") if gpu.strip()])
