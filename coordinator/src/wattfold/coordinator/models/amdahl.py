"""What a job loses on fewer cores than it asked for, after Amdahl, in whole numbers.

Of its time on all C cores a share s is stretched by nothing when it has fewer; the rest goes with
the cores. On c of them it takes

    s + (1 - s) C / c

times as long. With s = 0 it is slowed in proportion, as in the models of D'Amico et al. (ICPP 2019,
Eq. 5 and 6); a job near s = 1, held up by memory or by one of its threads, loses next to nothing.
Two measured speeds give s, as Karp and Flatt (CACM 33(5), 1990) determine a serial share; theirs is
of the time on one core, this one of that on all of them. It counts whatever does not scale.

Shares are whole parts per million, so that decisions are the same on every machine.
"""

from __future__ import annotations

import math
from typing import NamedTuple

WHOLE_PPM = 1_000_000
SERIAL_PPM_MAX = 990_000
"""What is measured is noisy: no job is believed to lose nothing at all."""


class Speed(NamedTuple):
    """A measured speed: work per time on so many cores, in any one unit."""

    cores: int
    rate: float


def takes(time: int, cores: int, used: int, serial_ppm: int = 0) -> int:
    """Time on ``used`` of ``cores`` cores of what takes ``time`` on all of them, rounded up."""
    scales_ppm = WHOLE_PPM - serial_ppm
    return -(-time * (serial_ppm * used + scales_ppm * cores) // (WHOLE_PPM * used))


def work(time: int, cores: int, used: int, serial_ppm: int = 0) -> int:
    """What is done in ``time`` on ``used`` of ``cores``, as its time on all of them; rounded down.

    The inverse of `takes`.
    """
    scales_ppm = WHOLE_PPM - serial_ppm
    return time * used * WHOLE_PPM // (serial_ppm * used + scales_ppm * cores)


def delay(time: int, cores: int, lent: int, serial_ppm: int = 0, before: int = 0) -> int:
    """How much later a job ends that is without ``lent`` of its cores for so long, rounded up.

    Of ``before`` others it is without anyway.
    """
    had = cores - before
    return work(time, cores, had, serial_ppm) - work(time, cores, had - lent, serial_ppm)


def best_lent(cores: int, serial_ppm: int) -> int:
    """Cores to lend at most, so that job and guest together do most work.

    The guest is taken to be as fast as it has cores. What the owner loses with the last core lent
    is then what the guest gains by it: 1 / (1 + sqrt(1 - s)) of the cores, half where s = 0.
    """
    return int(cores / (1 + math.sqrt(1 - serial_ppm / WHOLE_PPM)))


def serial_ppm(few: Speed, many: Speed, cores: int) -> int:
    """The share s of a job of ``cores`` cores by its speeds at two sizes.

    0 where it is slowed in proportion or more; at most `SERIAL_PPM_MAX`.
    Raises ValueError unless few.cores < many.cores and both rates are above zero.
    """
    if not (0 < few.cores < many.cores and few.rate > 0 and many.rate > 0):
        raise ValueError(f"no two speeds to compare: {few}, {many}")
    slower = many.rate / few.rate
    # Time on n cores is a + b / n, with that on many of them as 1.
    b = (slower - 1) / (1 / few.cores - 1 / many.cores)
    a = 1 - b / many.cores
    return _clipped(a / (a + b / cores) if a + b / cores > 0 else 0.0)


def serial_of_half_ppm(half_over_all: float) -> int:
    """The share s of a job that takes so many times as long on half of its cores."""
    return _clipped(2 - half_over_all)


def half_speed(serial_ppm: int) -> float:
    """Speed on half of its cores over that on all of them; 0.5 where it is slowed in proportion."""
    return 1 / (2 - serial_ppm / WHOLE_PPM)


def _clipped(share: float) -> int:
    return min(max(round(share * WHOLE_PPM), 0), SERIAL_PPM_MAX)
