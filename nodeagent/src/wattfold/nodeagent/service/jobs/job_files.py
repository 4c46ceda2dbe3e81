"""Files of the jobs of a node: their records, and the end records of their keepers."""

from __future__ import annotations

from wattfold.contract.ids import JobId
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.state_store import StateStore
from wattfold.nodeagent.core.errors import Refused
from wattfold.nodeagent.service.jobs.records import Job, from_record, to_record


class JobFiles:
    """The job files of one node."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def save(self, job: Job) -> None:
        """Save a job durably. Raises Refused."""
        self._write(job, durable=True)

    def note(self, job: Job) -> None:
        """Save values that may be lost: the next agent reads masks from the kernel."""
        if not job.live:
            return
        try:
            self._write(job, durable=False)
        except Refused as error:
            logs.warning("job_not_saved", job=job.id, reason=error)

    def load(self, job_id: str) -> Job | None:
        """Return the job of a record. An unreadable record is set aside."""
        record = self._store.read(f"jobs/{job_id}.json")
        if record is None:
            return None
        try:
            return from_record(job_id, record)
        except ValueError as error:
            self._store.set_aside(f"jobs/{job_id}.json", str(error))
            return None

    def end_of(self, job_id: JobId) -> dict[str, object] | None:
        """Return the end record of its keeper; None if the keeper was killed."""
        return self._store.read(f"jobs/{job_id}.exit")

    def remove(self, job_id: JobId) -> None:
        """Remove all files of a job."""
        self._store.remove(f"jobs/{job_id}.json")
        self._store.remove(f"jobs/{job_id}.exit")
        # Reserved space of a killed keeper.
        self._store.remove(f"jobs/{job_id}.exit.tmp")

    def _write(self, job: Job, *, durable: bool) -> None:
        self._store.write(f"jobs/{job.id}.json", to_record(job), durable=durable)
