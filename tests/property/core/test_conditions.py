"""Any events, with jobs that wait for each other and for begin times."""

from __future__ import annotations

from effort import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from property.core.derived import compare
from property.core.test_core_properties import JOBS, AnyEvents, S
from unit.core.stage import CHECKED, job_spec

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.conditions import (
    Dependency,
    DependencyState,
    StartConditions,
)
from wattfold.coordinator.core.rules.jobs.start_conditions import dependency_state


class AnyConditions(AnyEvents):
    """Jobs with conditions. Whatever happens, exactly the jobs with an obstacle wait."""

    @rule(
        job=st.sampled_from(JOBS),
        others=st.dictionaries(st.sampled_from(JOBS), st.booleans(), max_size=3),
        begin_s=st.sampled_from([-1, 0, 30]),
        held=st.booleans(),
        again=st.sampled_from([0, 1]),
    )
    def submit_after(
        self, job: JobId, others: dict[JobId, bool], begin_s: int, held: bool, again: int
    ) -> None:
        if job in self.submitted:
            return
        self.submitted.add(job)
        after = tuple(Dependency(job_id=one, success=ok) for one, ok in others.items())
        begin_ns = self.stage.now_ns + begin_s * S if begin_s >= 0 else -1
        conditions = StartConditions(after=after, begin_ns=begin_ns)
        self.stage.submit(job, job_spec(requeue_max=again), held=held, conditions=conditions)

    @rule(by_s=st.sampled_from([-40, 40]))
    def set_calendar(self, by_s: int) -> None:
        self.stage.send(ev.CalendarStepped(by_ns=by_s * S))

    @invariant()
    def exactly_the_jobs_with_an_obstacle_wait(self) -> None:
        if not hasattr(self, "stage"):
            return
        for job in self.state.jobs.values():
            if job.state is JobState.WAITING:
                assert self._obstacle(job), job
                assert job.attempt == 1
            elif job.state is JobState.PENDING and job.attempt == 1 and not job.attempts:
                assert not self._obstacle(job) or job.placed_ns >= 0, job
            if job.state in (JobState.WAITING, JobState.HELD) and job.attempt == 1:
                assert job.hopeless is self._is_hopeless(job), job

    def _is_hopeless(self, job: Job) -> bool:
        jobs = self.state.jobs
        states = {one.job_id: dependency_state(self.state, one) for one in job.conditions.after}
        behind = (job_id for job_id, one in states.items() if one is DependencyState.OPEN)
        return DependencyState.NEVER in states.values() or any(jobs[one].hopeless for one in behind)

    def _obstacle(self, job: Job) -> bool:
        states = [dependency_state(self.state, one) for one in job.conditions.after]
        early = job.conditions.begin_ns > self.stage.now_ns
        return early or any(state is not DependencyState.MET for state in states)

    def teardown(self) -> None:
        if not hasattr(self, "stage"):
            return
        core = CoordinatorCore(self._first_budget, CHECKED)
        for event, now_ns in self.stage.history:
            core.handle(event, now_ns)
        compare(core, self.stage.now_ns)
        super().teardown()


AnyConditions.TestCase.settings = settings(max_examples=examples(80), stateful_step_count=40)
TestAnyConditions = AnyConditions.TestCase
