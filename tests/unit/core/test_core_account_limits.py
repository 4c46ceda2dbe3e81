"""Limits of users and accounts: which jobs policies see, and why the others wait."""

from __future__ import annotations

from typing import Any

import pytest
from unit.core.stage import CHECKED, S, Stage, W, job_spec, on

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.account import Account, Demand, UsageLimits, UserLimits
from wattfold.coordinator.core.model.configuration import AccountsConfigured
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.rules.accounts.demands import demand_of
from wattfold.coordinator.core.rules.accounts.limits import AT_LIMIT, never_fits
from wattfold.coordinator.models.pass_model import SizeUnit


def stage_with(user: UsageLimits | None = None, **limits: Any) -> Stage:
    """Two nodes of four cores, and account `lab` of everybody with these limits."""
    stage = Stage()
    stage.up("n0")
    stage.up("n1")
    configure(stage, user, **limits)
    return stage


def configure(stage: Stage, user: UsageLimits | None = None, **limits: Any) -> None:
    lab = Account(name="lab", members=("*",), limits=UsageLimits(**limits))
    users = (UserLimits(name="*", limits=user),) if user else ()
    stage.send(AccountsConfigured(accounts=(lab,), users=users))


def submit(stage: Stage, job: str, size: int = 1, user: str = "ann", **fields: Any) -> None:
    stage.now_ns += S
    stage.submit(job, job_spec(size, size, account="lab", user=user, **fields))


def planned(stage: Stage) -> list[str]:
    """The jobs that a policy sees."""
    return [str(view.job_id) for view in stage.core.snapshot(stage.now_ns).jobs]


def replayed(stage: Stage) -> CoordinatorCore:
    core = CoordinatorCore(1000 * 10**6, CHECKED)
    for event, now_ns in stage.history:
        core.handle(codec.load_event(*codec.dump_event(event)), now_ns)
    return core


def test_jobs_beyond_the_limit_wait_for_the_end_of_others() -> None:
    stage = stage_with(jobs_max=2)
    for name in "abc":
        submit(stage, name)
    assert planned(stage) == ["a", "b"]
    job = stage.job("c")
    assert job.state is JobState.WAITING
    assert job.reason == f"{AT_LIMIT}its account may use at most 2 jobs at the same time"
    stage.now_ns += 5 * S
    stage.send(ev.JobCancelRequested(job_id=stage.job("a").job_id))
    assert planned(stage) == ["b", "c"]
    assert stage.job("c").freed_ns == stage.now_ns, "its wait counts from here"


def test_running_jobs_count_until_they_have_ended() -> None:
    stage = stage_with(cores_max=4)
    stage.run_job("a", "n0:0-2", low=3, high=3, account="lab")
    submit(stage, "b", 2)
    submit(stage, "c", 1)
    assert stage.job("b").state is stage.job("c").state is JobState.WAITING
    assert planned(stage) == ["a"], "c would fit, but must not keep b waiting forever"
    stage.process_ended("n0", "a")
    assert planned(stage) == ["b", "c"]


def test_a_job_counts_with_its_maximum_size_and_power() -> None:
    stage = stage_with()
    demand = demand_of(stage.core.state, job_spec(1, 3))
    assert demand == Demand(1, 3, 30 * W), "3 of 4 cores, 40 W above the floor"
    capped = job_spec(2, 2, unit=SizeUnit.NODES, cap_uw=20 * W)
    assert demand_of(stage.core.state, capped) == Demand(1, 8, 20 * W)
    alone = job_spec(1, 1, exclusive=True)
    assert demand_of(stage.core.state, alone) == Demand(1, 4, 10 * W)


def test_power_limits_admit_more_jobs_with_lower_caps() -> None:
    stage = stage_with(power_uw_max=40 * W)
    for job in "ab":
        submit(stage, job, 4, cap_uw=30 * W)
    submit(stage, "c", 4)
    assert planned(stage) == ["a", "b"]
    assert stage.job("c").reason.endswith("at most 40 W above idle at the same time")


def test_a_user_at_the_limit_does_not_stop_the_other_users_of_the_account() -> None:
    stage = stage_with(UsageLimits(jobs_max=1), jobs_max=3)
    for job, user in (("a", "ann"), ("b", "ann"), ("c", "bob"), ("d", "cy"), ("e", "di")):
        submit(stage, job, user=user)
    assert planned(stage) == ["a", "c", "d"]
    assert "its user may use at most 1 job" in stage.job("b").reason
    assert "its account may use at most 3 jobs" in stage.job("e").reason


def test_a_user_at_the_limit_waits_in_all_accounts() -> None:
    stage = stage_with(UsageLimits(cores_max=4), cores_max=4)
    stage.run_job("a", "n0:0-2", low=3, high=3, account="lab", user="ann")
    submit(stage, "b", 2)
    submit(stage, "c", 2, user="bob")
    stage.now_ns += S
    stage.submit("d", job_spec(1, 1, user="ann"))
    assert planned(stage) == ["a"], "d fits, but b is before it"
    assert "its user may" in stage.job("d").reason


def test_new_limits_hold_at_once_but_end_no_job() -> None:
    stage = stage_with()
    stage.run_job("a", "n0:0-1", low=2, high=2, account="lab")
    for job in "bcd":
        submit(stage, job)
    assert planned(stage) == ["a", "b", "c", "d"]
    configure(stage, jobs_max=2)
    assert planned(stage) == ["a", "b"]
    configure(stage, jobs_max=1)
    assert planned(stage) == ["a"]
    assert "at most 1 job at" in stage.job("d").reason
    stage.send(AccountsConfigured(accounts=(), users=()))
    assert planned(stage) == ["a", "b", "c", "d"]


def test_a_held_job_gives_its_place_to_the_next_job() -> None:
    stage = stage_with(jobs_max=1)
    submit(stage, "a")
    submit(stage, "b")
    stage.send(ev.JobHeld(job_id=stage.job("a").job_id))
    assert planned(stage) == ["b"]
    stage.send(ev.JobReleased(job_id=stage.job("a").job_id))
    assert planned(stage) == ["b"]
    assert stage.job("a").state is JobState.WAITING


def test_jobs_behind_a_cancelled_job_are_admitted() -> None:
    stage = stage_with(cores_max=4)
    submit(stage, "a", 3)
    submit(stage, "b", 2)
    submit(stage, "c", 1)
    assert planned(stage) == ["a"]
    stage.cancel("b")
    assert planned(stage) == ["a", "c"]


def test_a_late_plan_does_not_replace_the_reason() -> None:
    stage = stage_with(jobs_max=2)
    submit(stage, "a")
    submit(stage, "b")
    configure(stage, jobs_max=1)
    reason = stage.job("b").reason
    stage.plan(on("a", "n0:0"), on("b", "n0:1"))
    assert stage.job("b").state is JobState.WAITING
    assert stage.job("b").reason == reason
    assert stage.job("a").state is JobState.STARTING


def test_a_job_above_a_limit_by_itself_can_never_run() -> None:
    stage = stage_with(cores_max=4)
    assert never_fits(stage.core.state, job_spec(1, 4, account="lab")) == ""
    assert never_fits(stage.core.state, job_spec(5, 5)) == "", "no account, no limit"
    assert never_fits(stage.core.state, job_spec(1, 5, account="lab", user="ann")) == (
        "the job may use 5 cores and 50 W above idle at its maximum size; account lab may use at "
        "most 4 cores at the same time"
    )


@pytest.mark.parametrize("load", [False, True])
def test_a_restart_admits_the_same_jobs(load: bool) -> None:
    stage = stage_with(UsageLimits(cores_max=3), jobs_max=3)
    stage.run_job("a", "n0:0-1", low=2, high=2, account="lab", user="ann")
    for number, job in enumerate("bcdef"):
        submit(stage, job, 1 + number % 2, user=("ann", "bob")[number % 2])
    core = replayed(stage)
    if load:
        core = CoordinatorCore(1000 * 10**6, CHECKED)
        core.begin_anew(codec.load_state(codec.dump_state(stage.core.state)))
    for one in (core, stage.core):
        one.handle(ev.JobCancelRequested(job_id=stage.job("c").job_id), stage.now_ns + S)
    assert core.state.jobs == stage.core.state.jobs
    states = [job.state for job in core.state.jobs.values()]
    assert JobState.WAITING in states
    assert JobState.PENDING in states


def test_an_array_is_limited_as_jobs_are() -> None:
    stage = stage_with(jobs_max=2)
    spec = job_spec(1, 1, account="lab", user="ann")
    stage.send(ev.ArraySubmitted(job_id=JobId("7"), spec=spec, indices="0-9"))
    assert planned(stage) == ["7_0", "7_1"]
    stage.send(ev.JobCancelRequested(job_id=JobId("7_0")))
    assert planned(stage) == ["7_1", "7_2"]


def test_unlimited_sites_do_no_work() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a")
    assert stage.core.state.derived.admissions.sums == {}
