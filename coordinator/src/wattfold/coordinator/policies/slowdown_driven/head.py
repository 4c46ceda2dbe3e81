"""Head of the queue in slowdown-driven on named nodes: its start, and late mates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wattfold.coordinator.core.model.job import Assignment, Share
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.policies.resources.room import Room

Shape = tuple[object, ...]
"""All properties that decide where a job fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A job of the queue, at the size and level that it will get."""

    job: int
    view: JobView
    size: int
    cap_uw: int
    limit_ns: int
    """Assumed run time for the search (`Room.takes_ns`)."""
    shape: Shape

    def place(self, room: Room) -> tuple[Share, ...] | None:
        """Return the cores on which it fits in full, or None."""
        return room.find_fed(self.view.spec, self.size, self.cap_uw, self.limit_ns)


class CoresAtLevels(NamedTuple):
    """Cores of a job, at its levels."""

    shares: tuple[Share, ...]
    cap_uw: int
    levels: Levels
    alone: bool

    def power_uw(self, room: Room) -> int:
        """Return their power above the floors."""
        return room.power_of(self.shares, self.cap_uw, self.levels)

    def take(self, room: Room) -> None:
        """Take these cores from the free resources."""
        room.take(self.shares, self.power_uw(room), self.alone)


@dataclass(slots=True, kw_only=True)
class Head:
    """Head of the queue: its planned start, and the free resources then."""

    waiter: WaitingJob
    shadow_ns: int
    future: Room


def held(given: Assignment, view: JobView) -> CoresAtLevels:
    """Return the resources of a job."""
    return CoresAtLevels(given.shares, given.cap_uw, given.levels, view.spec.alone)


def fits_beside(head: Head, late: Sequence[CoresAtLevels]) -> bool:
    """Return whether the head still fits at its start if the late parts are not free then."""
    if not any(part.shares for part in late):
        return True
    future = head.future
    for part in late:
        part.take(future)
    fits = head.waiter.place(future) is not None
    for part in late:
        future.give_back(part.shares, part.power_uw(future), part.alone)
    return fits
