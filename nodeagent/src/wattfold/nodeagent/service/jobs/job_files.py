"""Files of the jobs of a node: their records, and the end records of their keepers."""

from __future__ import annotations

from pathlib import Path

from wattfold.contract.ids import JobId
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.state_store import StateStore
from wattfold.nodeagent.adapters.state_sync import StateSync
from wattfold.nodeagent.core.errors import Refused
from wattfold.nodeagent.service.jobs.records import Job, from_record, to_record


class JobFiles:
    """The job files of one node."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._sync = StateSync(store.jobs)

    def save(self, job: Job) -> None:
        """Save a job, so that the next agent finds it. Raises Refused.

        A record of a live job need not survive a loss of power, which the job does not survive.
        """
        self._store.write(_path(job.id), to_record(job), durable=False)

    def save_durably(self, job: Job) -> None:
        """Save a job, so that the record soon survives a loss of power too. Raises Refused."""
        self.save(job)
        self._sync.soon(Path(_path(job.id)).name)

    def note(self, job: Job) -> None:
        """Save values that may be lost: the next agent reads masks from the kernel."""
        if not job.live:
            return
        try:
            self.save(job)
        except Refused as error:
            logs.warning("job_not_saved", job=job.id, reason=error)

    def load(self, job_id: str) -> Job | None:
        """Return the job of a record. An unreadable record is set aside."""
        record = self._store.read(_path(job_id))
        if record is None:
            return None
        try:
            return from_record(job_id, record)
        except ValueError as error:
            self._store.set_aside(_path(job_id), str(error))
            return None

    def end_of(self, job_id: JobId) -> dict[str, object] | None:
        """Return the end record of its keeper; None if the keeper was killed."""
        return self._store.read(f"jobs/{job_id}.exit")

    def remove(self, job_id: JobId) -> None:
        """Remove all files of a job."""
        self._store.remove(_path(job_id))
        self._store.remove(f"jobs/{job_id}.exit")
        self._store.remove(f"jobs/{job_id}.shells.exit")
        # Reserved space of a killed keeper.
        self._store.remove(f"jobs/{job_id}.exit.tmp")


def _path(job_id: JobId | str) -> str:
    return f"jobs/{job_id}.json"
