"""Report of a training job about its epochs: lines in a file next to its snapshot.

  epoch=12 seconds=31.5 gpus=2 attempt=3 loss=0.25

One line for each epoch in the snapshot, the newest last, counted from 1. Only the number is
required; unknown words are ignored. Invalid lines are skipped, because programs may write anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

NAME = "epochs"
TAIL_BYTES = 4096
"""Length of the end of the file that is read."""
EPOCH_MAX = 2**31
SECONDS_MAX = 1e8


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReport:
    """Number of epochs in the snapshot. ``epoch_ns`` is the time of the last epoch, 0 = unknown.

    ``timed`` epochs of this attempt took ``mean_ns`` on average.
    """

    epoch: int
    epoch_ns: int = 0
    timed: int = 0
    mean_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    epoch: int
    seconds: float
    attempt: int


def parse(tail: bytes, attempt: int) -> EpochReport | None:
    """Return the report at the end of a file for a job at this attempt; None = none.

    The first epoch of a start includes loading and warm-up, so its time is not reported. A line
    without an attempt counts for this attempt.
    """
    whole = tail[: tail.rfind(b"\n") + 1].decode("utf-8", "replace")
    lines = [line for text in whole.splitlines() if (line := _line(text, attempt)) is not None]
    if not lines:
        return None
    last = lines[-1]
    # Skips the first line of the attempt. If the tail begins within the attempt, it skips an epoch
    # that counts.
    own = [line.seconds for line in lines if line.attempt == attempt][1:]
    timed = [seconds for seconds in own if seconds > 0]
    return EpochReport(
        epoch=last.epoch,
        epoch_ns=round(last.seconds * 1e9) if own and last.attempt == attempt else 0,
        timed=len(timed),
        mean_ns=round(sum(timed) / len(timed) * 1e9) if timed else 0,
    )


def _line(text: str, attempt: int) -> _Line | None:
    words = dict(word.split("=", 1) for word in text.split() if "=" in word)
    try:
        line = _Line(
            epoch=int(words["epoch"]),
            seconds=float(words.get("seconds", 0)),
            attempt=int(words.get("attempt", attempt)),
        )
    except (KeyError, ValueError):
        return None
    sane = 0 <= line.epoch <= EPOCH_MAX and math.isfinite(line.seconds)
    return line if sane and 0 <= line.seconds <= SECONDS_MAX else None
