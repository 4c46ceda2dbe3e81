"""Measured speeds of a job at its sizes so far, and the serial share derived from them.

The shim's telemetry becomes `events.SpeedMeasured` outside the core. The core stores the speeds
with the job, so that a replayed journal gives policies the same input. Only speeds of the same
attempt, cap and kind are compared. A speed counts parallel regions, or the units that the program
counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wattfold.coordinator.models.amdahl import Speed, serial_ppm

KEPT_MAX = 16
"""Maximum number of stored sizes and caps of a job; the newest are stored."""
NOT_MEASURED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSpeed:
    """Work per second on some cores under a cap, over a time; ``counted`` by the program."""

    cores: int
    cap_uw: int
    rate: float
    seen_ns: int
    counted: bool = False
    attempt: int = 1


def with_speed(speeds: tuple[SeenSpeed, ...], new: SeenSpeed) -> tuple[SeenSpeed, ...]:
    """Add a speed, which replaces the speed at the same size and cap.

    Speeds of another attempt or kind are dropped, because they cannot be compared with it.
    """
    alike = [
        one
        for one in speeds
        if (one.counted, one.attempt) == (new.counted, new.attempt)
        and (one.cores, one.cap_uw) != (new.cores, new.cap_uw)
    ]
    return (*alike, new)[-KEPT_MAX:]


def measured_serial_ppm(speeds: Iterable[SeenSpeed], attempt: int, cores: int) -> int:
    """Return the measured serial share of the run time on ``cores`` cores, in ppm.

    It is computed from the smallest and the largest size under the cap with the longest
    measurement; -1 = only one size was measured.
    """
    by_cap: dict[int, list[SeenSpeed]] = {}
    for one in speeds:
        if one.attempt == attempt and one.rate > 0:
            by_cap.setdefault(one.cap_uw, []).append(one)
    pairs = [
        (min(seen, key=lambda s: s.cores), max(seen, key=lambda s: s.cores), cap_uw)
        for cap_uw, seen in by_cap.items()
    ]
    pairs = [(few, many, cap_uw) for few, many, cap_uw in pairs if few.cores < many.cores]
    if not pairs or cores < 1:
        return NOT_MEASURED
    few, many, _ = max(pairs, key=lambda pair: (min(pair[0].seen_ns, pair[1].seen_ns), pair[2]))
    return serial_ppm(Speed(few.cores, few.rate), Speed(many.cores, many.rate), cores)
