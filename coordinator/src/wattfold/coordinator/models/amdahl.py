"""Slowdown of a job on fewer cores than requested, after Amdahl, in integers.

A share s of its time on all C cores does not depend on the number of cores; the rest scales with
it. On c cores the job takes

    s + (1 - s) C / c

times as long. With s = 0 it slows down in proportion, as in the models of D'Amico et al. (ICPP
2019, Eq. 5 and 6). A job near s = 1, limited by memory or by one of its threads, loses almost
nothing. Two measured speeds give s, as in Karp and Flatt (CACM 33(5), 1990). Their serial share
refers to the time on one core, and s to the time on all cores. It includes everything that does not
scale.

Shares are integer parts per million, so that decisions are the same on every machine.
"""

from __future__ import annotations

import math
from typing import NamedTuple

WHOLE_PPM = 1_000_000
SERIAL_PPM_MAX = 990_000
"""Upper bound of a measured share: measurements are noisy, and no job loses nothing at all."""


class Speed(NamedTuple):
    """A measured speed: work per time on a number of cores, in any unit."""

    cores: int
    rate: float


def takes(time: int, cores: int, used: int, serial_ppm: int = 0) -> int:
    """Return the time on ``used`` of ``cores`` cores for ``time`` on all of them, rounded up."""
    scales_ppm = WHOLE_PPM - serial_ppm
    return -(-time * (serial_ppm * used + scales_ppm * cores) // (WHOLE_PPM * used))


def work(time: int, cores: int, used: int, serial_ppm: int = 0) -> int:
    """Return the work done in ``time`` on ``used`` cores, as time on all cores; rounded down.

    The inverse of `takes`.
    """
    scales_ppm = WHOLE_PPM - serial_ppm
    return time * used * WHOLE_PPM // (serial_ppm * used + scales_ppm * cores)


def delay(time: int, cores: int, lent: int, serial_ppm: int = 0, before: int = 0) -> int:
    """Return the delay of a job that lacks ``lent`` of its cores for ``time``, rounded up.

    It lacks ``before`` other cores in any case.
    """
    had = cores - before
    return work(time, cores, had, serial_ppm) - work(time, cores, had - lent, serial_ppm)


def best_lent(cores: int, serial_ppm: int) -> int:
    """Return the number of cores to lend at most, so that job and guest together do most work.

    The speed of the guest is assumed to be proportional to its cores. At the optimum, the owner
    loses with the last lent core as much as the guest gains. This is 1 / (1 + sqrt(1 - s)) of the
    cores, or half of them for s = 0.
    """
    return int(cores / (1 + math.sqrt(1 - serial_ppm / WHOLE_PPM)))


def serial_ppm(few: Speed, many: Speed, cores: int) -> int:
    """Return the share s of a job of ``cores`` cores from its speeds at two sizes.

    The result is 0 if it slows down in proportion or more, and at most `SERIAL_PPM_MAX`. Raises
    ValueError unless few.cores < many.cores and both rates are positive.
    """
    if not (0 < few.cores < many.cores and few.rate > 0 and many.rate > 0):
        raise ValueError(f"no two speeds to compare: {few}, {many}")
    slower = many.rate / few.rate
    # The time on n cores is a + b / n, normalised to 1 on ``many`` cores.
    b = (slower - 1) / (1 / few.cores - 1 / many.cores)
    a = 1 - b / many.cores
    return _clipped(a / (a + b / cores) if a + b / cores > 0 else 0.0)


def serial_of_half_ppm(half_over_all: float) -> int:
    """Return the share s of a job from its time on half of its cores over that on all cores."""
    return _clipped(2 - half_over_all)


def half_speed(serial_ppm: int) -> float:
    """Return the speed on half of the cores over that on all; 0.5 = slowed in proportion."""
    return 1 / (2 - serial_ppm / WHOLE_PPM)


def _clipped(share: float) -> int:
    return min(max(round(share * WHOLE_PPM), 0), SERIAL_PPM_MAX)
