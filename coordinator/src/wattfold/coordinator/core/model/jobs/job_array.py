"""Job arrays: many equal jobs (tasks) of one submission, and the event of their submission.

The record of an array stands for the tasks that do not exist as jobs yet. `rules.arrays` makes jobs
of them. The ID of a task is that of its array with its index, such as ``12_7``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wattfold.contract.ids import Epoch, JobId
from wattfold.contract.index_set import IndexSet, parse_indices
from wattfold.coordinator.core.model.jobs.conditions import UNCONDITIONAL, StartConditions
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.models.forecast import NOTHING_KNOWN, SimilarRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySubmitted:
    """The coordinator accepted a job array. ``limit`` is that of concurrent tasks; 0 = none."""

    job_id: JobId
    spec: JobSpec
    indices: str
    limit: int = 0
    held: bool = False
    key: str = ""
    fingerprint: str = ""
    conditions: StartConditions = UNCONDITIONAL


@dataclass(slots=True, kw_only=True)
class JobArray:
    """State of an array. Times are coordinator time in nanoseconds.

    ``spec`` is the submission of every task. Tasks differ only by their IDs, so policies count them
    as equal jobs.
    """

    array_id: JobId
    spec: JobSpec
    indices: str
    limit: int
    submitted_ns: int
    epoch: Epoch
    held: bool = False
    """Whether tasks that are not jobs yet wait for a release."""
    conditions: StartConditions = UNCONDITIONAL
    """Conditions of the first start that no task has met yet."""
    freed_ns: int = -1
    """Time at which a task met the conditions; -1 = not yet, or there were none."""
    known: SimilarRuns = NOTHING_KNOWN
    taken: int = 0
    """Number of indices, from the first on, of which jobs were made."""
    early: list[int] = field(default_factory=list)
    """Later indices of which jobs were made, because an event named them."""
    dropped: int = 0
    """Number of tasks that were cancelled before they were jobs."""
    ends: dict[str, int] = field(default_factory=dict)
    """Numbers of ended tasks that the coordinator has deleted, by their final states."""

    @property
    def index_set(self) -> IndexSet:
        """The indices of all tasks."""
        return parse_indices(self.indices)

    @property
    def left(self) -> int:
        """Number of tasks that are not jobs yet."""
        return len(self.index_set) - self.taken - len(self.early)

    def move_past(self, by_ns: int, until_ns: int) -> None:
        """Move past times forward, at most to ``until_ns``, as `Job.move_past` does."""
        if self.submitted_ns < until_ns:
            self.submitted_ns = min(self.submitted_ns + by_ns, until_ns)
        if 0 <= self.freed_ns < until_ns:
            self.freed_ns = min(self.freed_ns + by_ns, until_ns)

    def task_id(self, index: int) -> JobId:
        """Return the job ID of a task."""
        return JobId(f"{self.array_id}_{index}")

    def awaits(self, index: int) -> bool:
        """Whether an index belongs to a task that is not a job yet."""
        if index not in self.index_set or index in self.early:
            return False
        return self.index_set.position(index) >= self.taken

    def pass_taken(self) -> None:
        """Move past the indices at the front of which jobs exist. For the rules of arrays."""
        while self.early and self.index_set[self.taken] in self.early:
            self.early.remove(self.index_set[self.taken])
            self.taken += 1

    def drop_left(self) -> None:
        """Cancel the tasks that are not jobs yet. For the rules of arrays."""
        self.dropped += self.left
        self.taken, self.early = len(self.index_set), []
