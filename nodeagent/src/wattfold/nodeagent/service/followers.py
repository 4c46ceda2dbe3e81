"""Who tells a program of the cores it holds: the port between a change of mask and the runtimes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from wattfold.nodeagent.service.records import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How a program took it. ``attached``: somebody in it listens; else it cannot be late."""

    attached: bool
    acknowledged: bool
    took_ns: int = 0
    """From telling to the acknowledgement; 0 without one."""
    stalled_ns: int = -1
    """How long it got nowhere while objects moved to a map that is new to it; of a program that
    does not say it, as long as it took. -1 = there was no such map."""
    moved_bytes: int = -1
    """Bytes of these objects; -1 = it does not say."""


NOBODY = Told(attached=False, acknowledged=True)
"""The kernel alone holds the job to its cores."""


class Follower(Protocol):
    """Makes a program follow the cores of its job."""

    async def tell(self, job: Job, deadline_s: float) -> Told:
        """Tells the program of ``job.cpus`` (and its map), and waits for its acknowledgement."""
        ...
