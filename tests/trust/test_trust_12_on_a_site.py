"""On real processes, a journal that lacks the start of a job does not end this job."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from system.site.gate import Gate
from system.site.live_site import LiveSite, site_plan

from wattfold.v1 import coordinator_pb2 as pb


@pytest.mark.system
def test_a_job_whose_start_was_forgotten_runs_on(tmp_path: Path, folder: Path) -> None:
    with LiveSite(site_plan(nodes=1), tmp_path / "logs") as site:
        gate = Gate(folder)
        job_id = site.submit(gate.line("on"))
        site.running(job_id)
        pid = site.pid(job_id)
        site.kill_coordinator()
        forget_starts(site.folder / "head" / "journal.sqlite")
        site.restart_coordinator()
        site.running(job_id)
        assert site.pid(job_id) == pid
        assert os.path.exists(f"/proc/{pid}")
        gate.open("on")
        assert site.ended(job_id).state == pb.JOB_STATE_COMPLETED


def forget_starts(journal: Path) -> None:
    """Delete all starts from the journal, as a replay under other rules would."""
    with closing(sqlite3.connect(journal)) as db:
        changed = db.execute(
            "UPDATE events SET body = json_set(body, '$.starts', json('[]'))"
            " WHERE kind = 'PlanAccepted' AND json_array_length(body, '$.starts') > 0"
        )
        assert changed.rowcount == 1
        db.commit()
