"""Jobs in the search of one round: those that run, and those that may start."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.policies.resources.room import Room

Shape = int
"""Number of a job shape: all properties that decide where a job fits. Equal jobs share a shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """Resources of a running job, with its expected end and the earliest possible end from now."""

    job: int
    view: JobView
    due_ns: int
    ends_ns: int
    shares: tuple[Share, ...]
    power_uw: int
    alone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A job of the queue, at the size and level that it will get."""

    job: int
    view: JobView
    size: int
    cap_uw: int
    takes_ns: int
    """Assumed run time for the search (`Room.takes_ns`)."""
    shape: Shape

    def place(self, room: Room) -> tuple[Share, ...] | None:
        """Return the cores on which it fits, or None."""
        return room.find_fed(self.view.spec, self.size, self.cap_uw, self.takes_ns)

    def kept(self, room: Room) -> str:
        """Return which reservation withholds nodes from it; empty if none does."""
        return room.kept(self.view.spec, self.size, self.cap_uw, self.takes_ns)
