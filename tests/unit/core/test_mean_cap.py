"""The cap of a job is integrated over its run time."""

from __future__ import annotations

from dataclasses import replace

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.rules.jobs.job_events import progress_reported

S = 1_000_000_000
W = 1_000_000
AT_40_W = Assignment(job_id=JobId("1"), size=1, cap_uw=40 * W, shares=())


def running() -> Job:
    return Job(
        job_id=JobId("1"),
        spec=JobSpec(name="a", app="a", argv=("a",)),
        state=JobState.RUNNING,
        submitted_ns=0,
        target=AT_40_W,
    )


def test_a_cap_counts_for_the_time_that_it_was_in_force() -> None:
    job = running()
    job.advance_progress(10 * S)
    job.target = replace(AT_40_W, cap_uw=100 * W)
    job.advance_progress(40 * S)
    assert job.capped_ns == 40 * S
    assert job.cap_uw_ns // job.capped_ns == 85 * W


def test_time_without_a_cap_and_suspended_time_do_not_count() -> None:
    job = running()
    job.target = replace(AT_40_W, cap_uw=0)
    job.advance_progress(10 * S)
    job.target, job.state = AT_40_W, JobState.SUSPENDED
    job.advance_progress(20 * S)
    assert (job.capped_ns, job.cap_uw_ns) == (0, 0)


def test_a_progress_report_loses_no_time() -> None:
    state, job = CoordinatorCore(1).state, running()
    state.jobs[job.job_id] = job
    progress_reported(state, ev.ProgressReported(job_id=job.job_id, done=0.5), 10 * S)
    job.advance_progress(30 * S)
    assert job.capped_ns == 30 * S
