"""A job past its estimate shows the excess; a job past its time limit is ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from system.site.live_site import LiveSite
from unit.core.stage import S, Stage, forget, job_spec, on, terminate

from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.adapters.requests.submissions import TimeLimits
from wattfold.coordinator.adapters.requests.submissions import job_spec as taken
from wattfold.coordinator.cli.jobs.lists.job_tables import left_s
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.reasons.explain import explain
from wattfold.v1 import coordinator_pb2 as pb

STUBBORN = "trap '' TERM; echo up; while :; do sleep 1; done"


def running(limit_s: float = 0, total_s: float = 0.0) -> Stage:
    """A job that runs from the first instant on."""
    stage = Stage()
    stage.up("n0")
    stage.submit("a", job_spec(limit_ns=round(limit_s * S)))
    stage.need_plan()
    stage.plan(on("a", "n0:0-3", total_s=total_s))
    stage.launched("n0", "a")
    assert stage.job("a").state is JobState.RUNNING
    return stage


# ---- the estimate ------------------------------------------------------------------------------


def test_a_job_within_its_estimate_is_not_over() -> None:
    stage = running(total_s=100)
    stage.after(99.5)
    assert stage.job("a").over_ns(stage.now_ns) == 0


def test_a_job_past_its_estimate_is_over_by_the_rest() -> None:
    stage = running(total_s=100)
    stage.after(160)
    assert stage.job("a").over_ns(stage.now_ns) == 60 * S


def test_a_resize_does_not_make_it_early_again() -> None:
    stage = running(total_s=100)
    stage.after(160)
    stage.need_plan()
    stage.plan(on("a", "n0:0-1", total_s=200))
    stage.after(5)
    assert stage.job("a").over_ns(stage.now_ns) == 65 * S


def test_a_job_that_has_ended_is_over_by_nothing() -> None:
    stage = running(limit_s=150, total_s=100)
    stage.after(160)
    stage.process_ended("n0", "a", 143)
    stage.after(40)
    assert stage.job("a").over_ns(stage.now_ns) == 0


def test_its_own_word_of_its_progress_renews_the_estimate() -> None:
    stage = running(total_s=100)
    stage.after(160)
    stage.send(ev.ProgressReported(job_id=stage.job("a").job_id, done=0.5))
    assert stage.job("a").over_ns(stage.now_ns) == 0
    stage.after(49)
    assert stage.job("a").over_ns(stage.now_ns) == 0
    stage.after(3)
    assert stage.job("a").over_ns(stage.now_ns) == 2 * S


def test_explain_says_by_how_much_and_when_the_limit_ends_it() -> None:
    stage = running(limit_s=300, total_s=100)
    stage.after(160)
    told = " ".join(
        explain(stage.core.snapshot(stage.now_ns), stage.job("a").job_id, FifoEasy(), "").lines
    )
    assert "60 s beyond its estimate" in told
    assert "99% done" not in told
    assert "Wattfold ends it at its time limit of 300 s, in 140 s." in told


def test_the_queue_shows_by_how_much() -> None:
    assert left_s(pb.Job(state=pb.JOB_STATE_RUNNING, over_s=185)) == "over 3m05s"
    assert left_s(pb.Job(state=pb.JOB_STATE_RUNNING, remaining_s=30)) == "30s"


# ---- the limit ---------------------------------------------------------------------------------


def test_the_core_asks_to_be_woken_at_the_limit_and_ends_the_job() -> None:
    stage = running(limit_s=4)
    stage.after(3.9)
    assert stage.job("a").state is JobState.RUNNING
    assert stage.wake_ns <= 4 * S
    assert terminate("n0", "a") in stage.after(0.1)
    assert stage.job("a").state is JobState.ENDING
    assert "time limit of 4 s" in stage.job("a").reason


def test_it_is_timed_out_however_it_takes_the_signal() -> None:
    for code in (0, 143):
        stage = running(limit_s=4)
        stage.after(4)
        assert stage.process_ended("n0", "a", code) == [forget("n0", "a")]
        assert stage.job("a").state is JobState.TIMED_OUT
        assert stage.job("a").message == "time limit of 4 s reached"


def test_it_is_ended_once() -> None:
    stage = running(limit_s=4)
    stage.after(4)
    assert terminate("n0", "a") not in stage.after(1)


def test_without_a_limit_it_runs_on() -> None:
    stage = running(total_s=1)
    stage.after(100_000)
    assert stage.job("a").state is JobState.RUNNING


def test_waiting_does_not_count() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a", job_spec(limit_ns=4 * S))
    stage.after(10)
    stage.need_plan()
    stage.plan(on("a", "n0:0-3"))
    stage.after(10)
    stage.launched("n0", "a")
    stage.after(3)
    assert stage.job("a").state is JobState.RUNNING


def test_a_limit_that_passed_while_the_coordinator_was_down() -> None:
    stage = running(limit_s=40)
    body = codec.dump_state(stage.core.state)
    stage.core.state = replace_settings(codec.load_state(body), stage)
    stage.now_ns += 100 * S
    stage.start(epoch=2)
    assert stage.job("a").state is JobState.ENDING


def replace_settings(state, stage):  # type: ignore[no-untyped-def]
    """Set these settings, as a start with a changed configuration does."""
    state.settings = replace(stage.core.state.settings)
    return state


def test_a_state_of_before_there_were_limits_keeps_who_was_cancelled() -> None:
    stage = running()
    stage.cancel("a")
    body = json.loads(codec.dump_state(stage.core.state))
    job = body["jobs"]["a"]
    job["cancelled"] = True
    for new in ("ended_by", "over_since_ns"):
        del job[new]
    del job["spec"]["limit_ns"]
    stage.core.state = codec.load_state(json.dumps(body))
    stage.process_ended("n0", "a", 143)
    assert stage.job("a").state is JobState.CANCELLED


# ---- the site ----------------------------------------------------------------------------------

SITE = TimeLimits(default_ns=60 * S, max_ns=600 * S)


@pytest.mark.parametrize(("asked_s", "given_s"), [(0, 60), (30, 30), (600, 600)])
def test_a_job_gets_its_own_limit_or_the_sites(asked_s: int, given_s: int) -> None:
    spec = taken(pb.JobSpec(argv=["x"], limit_ns=asked_s * S), SITE)
    assert spec.limit_ns == given_s * S


def test_where_only_the_greatest_is_set_it_is_that_of_all() -> None:
    assert taken(pb.JobSpec(argv=["x"]), TimeLimits(max_ns=S)).limit_ns == S


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"limit_ns": 601 * S}, "time limit of 601 s is above 600 s"),
        ({"time_ns": 90 * S}, "above the default time limit of this queue or site of 60 s"),
        ({"time_ns": 90 * S, "limit_ns": 80 * S}, "above its time limit of 80 s"),
    ],
)
def test_what_no_limit_can_hold_is_refused(fields: dict[str, int], told: str) -> None:
    with pytest.raises(InvalidRequestError, match=told):
        taken(pb.JobSpec(argv=["x"], **fields), SITE)  # type: ignore[arg-type]


@pytest.mark.system
def test_a_stubborn_job_is_gone_after_its_limit(start_site: Callable[..., LiveSite]) -> None:
    site = start_site(nodes=1)
    limited = site.submit(["/bin/sh", "-c", STUBBORN], limit_ns=S)
    ended = site.ended(limited)
    assert ended.state == pb.JOB_STATE_TIMED_OUT
    assert ended.message == "time limit of 1 s reached"
    listed = site.wattfold("queue", "--all").stdout
    assert "timed-out" in listed
    assert "time limit of 1 s reached" in " ".join(listed.split())
