"""How fast a job was seen to work at the sizes it has had, and what it loses on fewer cores.

The telemetry of its shim is turned into `events.SpeedMeasured` outside of the core; here they are
kept with the job, so that a journal replayed leaves what policies went by. Only speeds of one
attempt, under one cap and in one measure are compared: of parallel regions or of what the program
counts itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wattfold.coordinator.models.amdahl import Speed, serial_ppm

KEPT_MAX = 16
"""Sizes and caps of a job, the newest."""
NOT_MEASURED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSpeed:
    """Work per second on so many cores under a cap, over a time; ``counted`` by the program."""

    cores: int
    cap_uw: int
    rate: float
    seen_ns: int
    counted: bool = False
    attempt: int = 1


def with_speed(speeds: tuple[SeenSpeed, ...], new: SeenSpeed) -> tuple[SeenSpeed, ...]:
    """These and a newer one, which takes the place of that of its size and cap.

    Those of another attempt or measure are nothing to compare it with.
    """
    alike = [
        one
        for one in speeds
        if (one.counted, one.attempt) == (new.counted, new.attempt)
        and (one.cores, one.cap_uw) != (new.cores, new.cap_uw)
    ]
    return (*alike, new)[-KEPT_MAX:]


def measured_serial_ppm(speeds: Iterable[SeenSpeed], attempt: int, cores: int) -> int:
    """The share of its time on so many cores that fewer do not stretch, as it was seen to work.

    By its least and greatest size under the cap of which most was seen; -1 where it had one size.
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
