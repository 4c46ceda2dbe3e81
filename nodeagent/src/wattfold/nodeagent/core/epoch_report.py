"""What a training tells of its epochs: lines in a file beside its snapshot.

    epoch=12 seconds=31.5 gpus=2 attempt=3 loss=0.25

One line for each epoch that is in the snapshot, the newest last; the number counts from 1. Only the
number must be there; words that are not known are left alone. What a program writes is its own
affair: a line that makes no sense is passed over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

NAME = "epochs"
TAIL_BYTES = 4096
"""So much of the end of the file is looked at."""
EPOCH_MAX = 2**31
SECONDS_MAX = 1e8


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReport:
    """Epochs in the snapshot; ``epoch_ns`` of the last one, 0 = it says nothing of the speed.

    ``timed`` of those of this attempt took ``mean_ns`` in the mean.
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
    """The report at the end of a file, to a job at that attempt; None = there is none.

    The first epoch of a start loads and warms up: its time is not told. A line that does not say of
    which attempt it is counts as of this one.
    """
    whole = tail[: tail.rfind(b"\n") + 1].decode("utf-8", "replace")
    lines = [line for text in whole.splitlines() if (line := _line(text, attempt)) is not None]
    if not lines:
        return None
    last = lines[-1]
    # The first line of the attempt: where the tail begins in the middle of it, one that counted.
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
