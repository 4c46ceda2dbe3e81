"""The first that waits, in slowdown-driven over nodes with names: its time, and who may be late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wattfold.coordinator.core.job import Assignment, Share
from wattfold.coordinator.core.levels import Levels
from wattfold.coordinator.core.plan import JobView
from wattfold.coordinator.policies.placement import Room

Shape = tuple[object, ...]
"""What the place of a job depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A job of the queue, at the size and level it will get."""

    job: int
    view: JobView
    size: int
    cap_uw: int
    limit_ns: int
    """What a search for its place goes by (`Room.takes_ns`)."""
    shape: Shape

    def place(self, room: Room) -> tuple[Share, ...] | None:
        """Where it fits in full, None if nowhere."""
        return room.find_fed(self.view.spec, self.size, self.cap_uw, self.limit_ns)


class Part(NamedTuple):
    """Cores that a job holds, at its levels."""

    shares: tuple[Share, ...]
    cap_uw: int
    levels: Levels
    alone: bool

    def power_uw(self, room: Room) -> int:
        """What they take above the floors there."""
        return room.power_of(self.shares, self.cap_uw, self.levels)

    def take(self, room: Room) -> None:
        """They are not free there."""
        room.take(self.shares, self.power_uw(room), self.alone)


@dataclass(slots=True, kw_only=True)
class Head:
    """The first that waits: when it is to start, and what is free then."""

    waiter: Waiter
    shadow_ns: int
    future: Room


def held(given: Assignment, view: JobView) -> Part:
    """What a job has."""
    return Part(given.shares, given.cap_uw, given.levels, view.spec.alone)


def fits_beside(head: Head, late: Sequence[Part]) -> bool:
    """Whether the first still has its place at its time if these are not free then."""
    if not any(part.shares for part in late):
        return True
    future = head.future
    for part in late:
        part.take(future)
    fits = head.waiter.place(future) is not None
    for part in late:
        future.give_back(part.shares, part.power_uw(future), part.alone)
    return fits
