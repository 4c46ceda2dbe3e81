"""Port between a change of mask and the runtimes, which notifies a program of its cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from wattfold.nodeagent.service.jobs.records import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """Reaction of a program. ``attached``: it has a listener; without one it cannot be late."""

    attached: bool
    acknowledged: bool
    took_ns: int = 0
    """Time from the notification to the acknowledgement; 0 without an acknowledgement."""
    stalled_ns: int = -1
    """Time without progress while objects moved to a map that is new to the program.

    If the program does not report it, the whole time of the change. -1 = no such map.
    """
    moved_bytes: int = -1
    """Bytes of these objects; -1 = not reported."""


NOBODY = Reaction(attached=False, acknowledged=True)
"""Only the kernel confines the job to its cores."""


class Follower(Protocol):
    """Makes a program follow the cores of its job."""

    async def tell(self, job: Job, deadline_s: float) -> Reaction:
        """Notify the program of ``job.cpus`` (and its map), and wait for its acknowledgement."""
        ...
