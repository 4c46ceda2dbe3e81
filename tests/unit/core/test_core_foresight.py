"""Run time predictions in the core: learned from ended jobs, kept in the state, used for plans
only.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from unit.core.stage import CHECKED, S, Stage, job_spec, on

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.core.state.state import State

REQUEST_S = 3600


def stage(method: str = "last-two") -> Stage:
    made = Stage(start=False)
    made.core = CoordinatorCore(round(1e9), replace(CHECKED, predict=method))
    made.start()
    made.up("n0")
    return made


def spec(**fields: Any) -> Any:
    return replace(job_spec(4, 4, user="ann", time_ns=REQUEST_S * S), **fields)


def ran(of: Stage, job: str, seconds: float, exit_code: int = 0, **fields: Any) -> None:
    """Submit a job that starts immediately and ends by itself."""
    began(of, job, **fields)
    of.now_ns += round(seconds * S)
    of.process_ended("n0", job, exit_code)


def began(of: Stage, job: str, total_s: float = 0.0, **fields: Any) -> None:
    of.submit(job, spec(**fields))
    of.need_plan()
    of.plan(on(job, "n0:0-3", total_s=total_s or REQUEST_S))
    of.launched("n0", job)


def view(of: Stage, job: str) -> JobView:
    return next(v for v in of.core.snapshot(of.now_ns).jobs if v.job_id == job)


def planned_s(of: Stage, job: str) -> float:
    return view(of, job).planned_ns / S


def test_a_job_is_planned_by_the_last_two_of_its_user_and_application() -> None:
    of = stage()
    ran(of, "a", 100)
    ran(of, "b", 300)
    of.submit("c", spec())
    of.submit("d", replace(spec(), user="bob"))
    assert (planned_s(of, "c"), planned_s(of, "d")) == (200, 0)
    assert view(of, "c").spec.time_ns == REQUEST_S * S


def test_by_default_users_words_count_and_it_learns_all_the_same() -> None:
    of = stage("user")
    ran(of, "a", 100)
    of.submit("c", spec())
    assert planned_s(of, "c") == 0
    assert of.job("c").known.last_ns == 100 * S


@pytest.mark.parametrize(("ends", "learnt"), [("failed", 1), ("cancelled", 0), ("limit", 1)])
def test_it_learns_of_jobs_that_end_by_themselves_or_at_their_limit(ends: str, learnt: int) -> None:
    of = stage()
    if ends == "failed":
        ran(of, "a", 50, exit_code=3)
    else:
        began(of, "a", limit_ns=REQUEST_S * S)
        if ends == "cancelled":
            of.now_ns += 50 * S
            of.cancel("a")
        else:
            of.after(REQUEST_S)
        of.process_ended("n0", "a", 15)
    assert len(of.core.state.history.users) == learnt


def test_time_on_fewer_cores_counts_by_the_cores() -> None:
    of = stage()
    of.submit("a", job_spec(1, 4, user="ann", time_ns=REQUEST_S * S))
    of.need_plan()
    of.plan(on("a", "n0:0-1", total_s=200))
    of.launched("n0", "a")
    of.now_ns += 200 * S
    of.process_ended("n0", "a", core_ns=2 * 200 * S)
    assert of.core.state.history.users["ann"].last_ns == 100 * S


def test_a_running_job_that_exceeds_its_prediction_is_given_more_and_asked_about_again() -> None:
    of = stage()
    ran(of, "a", 100)
    began(of, "b", total_s=100)
    assert planned_s(of, "b") == 100
    assert of.core.state.revisit_ns == 0, "nobody waits"
    of.submit("c", spec())
    of.plan()
    assert of.core.state.revisit_ns == of.now_ns + 100 * S + 1, "a plan is due when it is exceeded"
    of.after(101)
    assert of.core.state.revisit_ns == 0
    seen = view(of, "b")
    assert (seen.planned_ns, round(seen.done, 3)) == (160 * S, round(101 / 160, 3))
    of.after(60)
    assert planned_s(of, "b") == REQUEST_S, "it has run for more than twice as long"
    of.after(REQUEST_S)
    assert planned_s(of, "b") == REQUEST_S + 360, "beyond the user's estimate it grows from that"


def test_its_limit_is_its_users_whatever_is_predicted() -> None:
    of = stage()
    ran(of, "a", 100)
    began(of, "b", total_s=100, limit_ns=REQUEST_S * S)
    of.after(REQUEST_S - 1)
    assert of.job("b").state.value == "running"
    of.after(1)
    assert of.job("b").state.value == "ending"


def replayed(of: Stage, text: str, first: int) -> State:
    """Load the state of a checkpoint and replay the events after it."""
    core = CoordinatorCore(round(1e9), of.core.state.settings)
    if text:
        core.state = codec.load_state(text)
    for event, now_ns in of.history[first:]:
        core.handle(event, now_ns)
    return core.state


@pytest.mark.parametrize("method", ["last-two", "regression"])
def test_the_history_is_the_same_continued_rebuilt_and_from_a_checkpoint(method: str) -> None:
    of = stage(method)
    for number, seconds in enumerate((100, 300, 700)):
        ran(of, f"a{number}", seconds)
    text, first = codec.dump_state(of.core.state), len(of.history)
    ran(of, "b", 50, app="other")
    of.submit("c", spec())
    assert planned_s(of, "c") > 0
    state = of.core.state
    assert replayed(of, "", 0).history == state.history
    assert replayed(of, text, first).history == state.history
    assert replayed(of, text, first).jobs == state.jobs


def test_a_journal_from_before_there_was_a_history_teaches_by_the_jobs_that_have_ended() -> None:
    of = stage()
    for number, seconds in enumerate((100, 300)):
        ran(of, f"a{number}", seconds)
    stored = json.loads(codec.dump_state(of.core.state))
    del stored["history"]
    for job in stored["jobs"].values():
        del job["known"]
    history = codec.load_state(json.dumps(stored)).history
    assert (history.users["ann"].last_ns, history.users["ann"].before_ns) == (300 * S, 100 * S)


def test_waiting_for_nothing_no_plan_is_due() -> None:
    of = stage()
    began(of, "b", total_s=100)
    assert of.core.state.revisit_ns == 0
    assert JobId("b") in of.core.state.jobs
