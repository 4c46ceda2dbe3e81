"""Changes of the submission of a job, as an event."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.jobs.spec import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class JobModified:
    """A user or an operator changed values of the submission of a job; None = unchanged.

    ``limit_ns`` 0 removes the time limit, ``due_ns`` -1 the due date. ``priority`` contains the
    factor of the queue.
    """

    job_id: JobId
    name: str | None = None
    limit_ns: int | None = None
    priority: float | None = None
    due_ns: int | None = None
    size_min: int | None = None
    size_max: int | None = None

    def applied_to(self, spec: JobSpec) -> JobSpec:
        """Return the submission with the changes. An estimate never exceeds the time limit."""
        spec = replace(
            spec,
            name=spec.name if self.name is None else self.name,
            limit_ns=spec.limit_ns if self.limit_ns is None else self.limit_ns,
            priority=spec.priority if self.priority is None else self.priority,
            due_ns=spec.due_ns if self.due_ns is None else self.due_ns,
            size_min=spec.size_min if self.size_min is None else self.size_min,
            size_max=spec.size_max if self.size_max is None else self.size_max,
        )
        if spec.limit_ns and spec.time_ns > spec.limit_ns:
            return replace(spec, time_ns=spec.limit_ns)
        return spec
