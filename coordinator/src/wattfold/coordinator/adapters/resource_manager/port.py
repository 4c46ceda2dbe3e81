"""The port to a resource manager that owns the jobs of the site.

`slurm` implements it for Slurm. The tests have an implementation in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.resource_manager import ManagedEnd, ManagedJob, ManagedNode


class ManagerError(Exception):
    """The resource manager did not answer, or not as expected. The message is for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerFacts:
    """All open jobs, and all nodes that are not simply available, at one time."""

    jobs: tuple[ManagedJob, ...]
    nodes: tuple[ManagedNode, ...] = ()


class ResourceManager(Protocol):
    """A resource manager. All calls have a time limit and raise `ManagerError`."""

    @property
    def name(self) -> str:
        """The name that begins the IDs of its jobs, such as ``slurm``."""

    async def read(self) -> ManagerFacts:
        """Return the open jobs and the nodes."""

    async def ends(self, job_ids: Collection[JobId]) -> tuple[ManagedEnd, ...]:
        """Return how jobs ended that are no longer open. A job that it forgot is lost."""

    async def tell(self, comments: Mapping[JobId, str]) -> None:
        """Set the comments of jobs. Comments of jobs that have ended meanwhile are ignored."""

    async def offer(self, watts: int) -> None:
        """Set the watts of the licence that its jobs may use together. Idempotent."""
