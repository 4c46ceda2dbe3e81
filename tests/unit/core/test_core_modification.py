"""Changed submissions in the core: limits, sizes, priorities, and what follows from them."""

from __future__ import annotations

from typing import Any

import pytest
from unit.core.stage import Stage, job_spec, on

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.journal.codec import dump_event, load_event
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Ender, JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind

S = 10**9


def modify(stage: Stage, **values: Any) -> list[Any]:
    return stage.send(ev.JobModified(job_id=JobId("a"), **values))


def running(**spec: Any) -> Stage:
    stage = Stage()
    stage.up("n0")
    stage.submit("a", job_spec(2, 2, **spec))
    stage.plan(on("a", "n0:0-1", total_s=100))
    stage.launched("n0", "a")
    return stage


def test_a_waiting_job_is_planned_with_its_new_values() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a", job_spec(1, 2, limit_ns=100 * S, time_ns=80 * S))
    stage.plan()
    stage.core.state.plan_needed = ""
    modify(stage, limit_ns=50 * S, priority=0.5, size_min=2, size_max=3, name="other")
    (view,) = stage.core.snapshot(stage.now_ns).jobs
    spec = view.spec
    assert (spec.limit_ns, spec.time_ns, spec.priority) == (50 * S, 50 * S, 0.5)
    assert (spec.size_min, spec.size_max, spec.name) == (2, 3, "other")
    assert stage.core.state.solving, "a round was requested"


def test_a_new_size_ends_the_order_of_another_size() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a", job_spec(1, 4, kind=JobKind.MALLEABLE))
    stage.send(ev.JobResizeRequested(job_id=JobId("a"), size=4))
    modify(stage, size_min=1, size_max=3)
    assert stage.job("a").size_asked == 0


def test_a_shorter_limit_holds_for_a_running_job() -> None:
    stage = running(limit_ns=100 * S)
    stage.after(10)
    modify(stage, limit_ns=30 * S)
    job = stage.job("a")
    assert job.done_by(stage.now_ns) == pytest.approx(1 / 3), "its limit was its estimate"
    stage.after(19)
    assert job.state is JobState.RUNNING
    stage.after(2)
    assert (job.state, job.ended_by) == (JobState.ENDING, Ender.TIME_LIMIT)


def test_a_longer_limit_moves_the_end_of_a_running_job() -> None:
    stage = running(limit_ns=100 * S)
    stage.after(90)
    modify(stage, limit_ns=200 * S)
    stage.after(60)
    job = stage.job("a")
    assert job.state is JobState.RUNNING
    assert job.over_ns(stage.now_ns) == 0
    assert job.done_by(stage.now_ns) == pytest.approx(0.75)
    stage.after(51)
    assert job.state is JobState.ENDING


def test_a_limit_that_has_passed_ends_the_job_at_once() -> None:
    stage = running(limit_ns=100 * S)
    stage.after(50)
    modify(stage, limit_ns=20 * S)
    assert stage.job("a").state is JobState.ENDING


def test_a_limit_keeps_an_estimate_below_it() -> None:
    stage = running(limit_ns=300 * S, time_ns=100 * S)
    stage.after(10)
    modify(stage, limit_ns=200 * S)
    assert stage.job("a").target.expected_total_s == 100  # type: ignore[union-attr]
    modify(stage, limit_ns=0)
    assert stage.job("a").limit_at_ns == -1


def test_no_change_and_an_ended_job_change_nothing() -> None:
    stage = running()
    stage.core.state.plan_needed = ""
    assert modify(stage) == []
    assert modify(stage, name=stage.job("a").spec.name) == []
    stage.process_ended("n0", "a", 0)
    before = stage.job("a").spec
    modify(stage, priority=3.0)
    assert stage.job("a").spec is before


def test_the_journal_keeps_the_difference_between_none_and_unchanged() -> None:
    for values in (
        {},
        {"limit_ns": 0},
        {"due_ns": -1, "name": "x"},
        {"size_min": 1, "size_max": 2},
    ):
        event = ev.JobModified(job_id=JobId("a"), **values)
        assert load_event(*dump_event(event)) == event
    assert load_event("JobModified", '{"job_id": "a"}') == ev.JobModified(job_id=JobId("a"))
