"""Limits of users and accounts in a pool, by the rule of the service.

A job is submitted to the scheduler when it is admitted. See `core/state/admissions.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.account import Demand
from wattfold.coordinator.core.state.admissions import Admissions, Admitted, Limits


@dataclass(slots=True, kw_only=True)
class JobLimits:
    """Admission of jobs, given by their numbers. One entry per job in each sequence."""

    submit_ns: Sequence[int]
    limits: Sequence[Limits]
    demands: Sequence[Demand]
    _admissions: Admissions = field(default_factory=Admissions)

    def submitted(self, job: int) -> list[int]:
        """Let a job wait; return the jobs that are admitted now."""
        name = JobId(str(job))
        turn = self.submit_ns[job], len(name), name
        self._admissions.enqueue(turn, tuple(self.limits[job]))
        return self._admit()

    def ended(self, job: int) -> list[int]:
        """Let others have the share of an ended job; return the jobs that are admitted now."""
        self._admissions.drop(JobId(str(job)))
        return self._admit()

    def _admit(self) -> list[int]:
        admitted, _ = self._admissions.admit(
            lambda job_id: self.limits[int(job_id)],
            lambda job_id: Admitted(
                None, tuple(self.limits[int(job_id)]), self.demands[int(job_id)]
            ),
        )
        return [int(job_id) for job_id in admitted]
