"""The recorder: every ended job is recorded once, whatever happens to the file or the process."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from unit.adapters.api_site import ApiSite
from unit.history.ended_jobs import ended

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.door.peers import own_account
from wattfold.coordinator.adapters.history import answers, recorder
from wattfold.coordinator.adapters.history.questions import HistoryQuestion
from wattfold.coordinator.adapters.history.recorder import HistoryRecorder
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.state.changes import Changes
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb

DAYS = 36_600
NAME = "history.sqlite"


def recorded(path: Path) -> dict[str, int]:
    question = HistoryQuestion(viewer=own_account(), limit=10_000)
    found = pb.ListHistoryResponse.FromString(answers.history(path, question))
    return {job.job_id: job.attempts for job in found.jobs}


def state_with(*jobs: str) -> State:
    state = CoordinatorCore(1).state
    for job in jobs:
        state.jobs[JobId(job)] = ended(job)
    return state


def recorder_of(state: State, path: Path, keep_days: int = DAYS) -> HistoryRecorder:
    return HistoryRecorder(path, "j", Clock(), lambda: state, lambda: "fifo", keep_days)


def changed(*jobs: str) -> Changes:
    return Changes(jobs=dict.fromkeys(map(JobId, jobs)))


async def started(state: State, path: Path, keep_days: int = DAYS) -> HistoryRecorder:
    made = recorder_of(state, path, keep_days)
    made.start()
    await made.flush()
    return made


def test_jobs_that_a_killed_coordinator_did_not_write_are_added_once(tmp_path: Path) -> None:
    path, state = tmp_path / NAME, state_with("1", "2")

    async def run() -> None:
        await started(state, path)
        assert recorded(path) == {"1": 1, "2": 1}
        state.jobs[JobId("3")] = ended("3")  # Its row was never written: no flush, no close.
        await started(state, path)
        assert recorded(path) == {"1": 1, "2": 1, "3": 1}

    asyncio.run(run())


def test_a_job_that_is_started_again_has_no_row_until_it_ends(tmp_path: Path) -> None:
    path, state = tmp_path / NAME, state_with("1")

    async def run() -> None:
        first = await started(state, path)
        job = state.jobs[JobId("1")]
        job.state, job.attempt = JobState.PENDING, 2
        first.note(changed("1"))
        await first.flush()
        assert recorded(path) == {}
        job.state = JobState.COMPLETED
        first.note(changed("1"))
        await first.flush()
        assert recorded(path) == {"1": 2}
        # Also if the coordinator was killed in between.
        job.state, job.attempt = JobState.RUNNING, 3
        second = await started(state, path)
        assert recorded(path) == {}
        job.state = JobState.FAILED
        second.note(changed("1"))
        await second.close()
        assert recorded(path) == {"1": 3}

    asyncio.run(run())


def test_a_file_that_cannot_be_written_is_caught_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, state = tmp_path / "missing", state_with("1")
    caplog.set_level(logging.WARNING)

    async def run() -> None:
        made = await started(state, folder / NAME)
        for number in range(2, 6):
            state.jobs[JobId(str(number))] = ended(str(number))
            made.note(changed(str(number)))
            await made.flush()
        folder.mkdir()
        made.start()
        await made.close()

    asyncio.run(run())
    assert len(recorded(folder / NAME)) == 5
    assert sum("history_not_written" in one.message for one in caplog.records) == 1


def test_rows_wait_while_the_disk_is_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, state = tmp_path / NAME, state_with()
    caplog.set_level(logging.WARNING)

    async def run() -> None:
        made = await started(state, path)
        db = made._file._opened()
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count={pages}")
        for number in range(2000):
            state.jobs[JobId(str(number))] = ended(str(number))
        made.note(Changes(everything=True))
        await made.flush()  # It fails as on a full disk, and the file is opened anew.
        assert recorded(path) == {}
        await made.flush()
        assert len(recorded(path)) == 2000
        await made.close()

    asyncio.run(run())
    assert "full" in caplog.text


def test_more_rows_than_fit_are_taken_from_the_state_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, state = tmp_path / NAME, state_with()
    monkeypatch.setattr(recorder, "PENDING_MAX", 10)

    async def run() -> None:
        made = await started(state, path)
        for number in range(35):
            state.jobs[JobId(str(number))] = ended(str(number))
            made.note(changed(str(number)))
        await made.close()
        assert len(recorded(path)) == 35

    asyncio.run(run())


def test_old_rows_are_dropped(tmp_path: Path) -> None:
    path, state = tmp_path / NAME, state_with("1")
    clock = Clock()
    state.jobs[JobId("2")] = ended("2", ended_ns=clock.now_ns())

    async def run() -> None:
        made = await started(state, path, keep_days=30)
        await made.close()

    asyncio.run(run())
    assert recorded(path) == {"2": 1}


def test_a_job_is_in_the_history_when_its_end_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "WRITE_WITHIN_S", 3600.0)

    async def run() -> None:
        async with ApiSite(tmp_path) as site:
            spec = pb.JobSpec(name="x", argv=["true"], cwd="/", size_min=1, size_max=1)
            submit = pb.SubmitRequest(spec=spec, held=True)
            job = (await site.stub.Submit(submit)).job_id
            assert not (await site.stub.ListHistory(pb.ListHistoryRequest())).jobs
            await site.stub.Cancel(pb.CancelRequest(job_id=job))
            [found] = (await site.stub.ListHistory(pb.ListHistoryRequest())).jobs
            assert (found.job_id, found.state) == (job, pb.JOB_STATE_CANCELLED)
            assert found.started_at_s == 0 < found.submitted_at_s <= found.ended_at_s
            report = await site.stub.GetReport(pb.GetReportRequest(by="user"))
            assert report.total.jobs == 1

    asyncio.run(run())
