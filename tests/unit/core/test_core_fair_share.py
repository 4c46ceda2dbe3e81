"""Fair share: what policies see of the priorities of waiting jobs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from unit.core.stage import CHECKED, S, Stage, job_spec, on

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.account import Account, UsageLimits, UserLimits
from wattfold.coordinator.core.model.configuration import AccountsConfigured
from wattfold.coordinator.core.rules.accounts import fair_share
from wattfold.coordinator.core.state.fair_share import RecentUse, factors_of

HOUR = 3600 * S
NONE = UsageLimits()


def configure(stage: Stage, half_life_h: float = 1, **shares: float) -> None:
    """Accounts with these shares; all users have a share of 1."""
    accounts = tuple(Account(name=n, members=("*",), share=s) for n, s in shares.items())
    stage.send(
        AccountsConfigured(accounts=accounts, users=(), half_life_ns=round(half_life_h * HOUR))
    )


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.up("n0")
    stage.up("n1")
    configure(stage)
    return stage


def submit(stage: Stage, job: str, user: str, account: str = "", **more: Any) -> None:
    stage.now_ns += S
    stage.submit(job, job_spec(1, 1, user=user, account=account, **more))


def seen(stage: Stage) -> dict[str, float]:
    """The priorities that a policy sees."""
    views = stage.core.snapshot(stage.now_ns).jobs
    return {str(view.job_id): view.spec.priority for view in views}


def passes(stage: Stage, time_ns: int) -> None:
    stage.now_ns += time_ns
    stage.send(ev.TimePassed())


# ---- the formula -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uses", "shares", "factors"),
    [
        ({}, {"a": 1, "b": 1}, {}),
        ({"a": 5.0, "b": 5.0}, {"a": 1, "b": 1}, {"a": 0.5, "b": 0.5}),
        ({"a": 8.0}, {"a": 1, "b": 1}, {"a": 0.25}),
        ({"a": 6.0, "b": 2.0}, {"a": 3, "b": 1}, {"a": 0.5, "b": 0.5}),
        ({"a": 1.0}, {"a": 1, "b": 99}, {"a": 2.0**-8}),
        ({"a": 1.0, "b": 1000.0}, {"a": 1, "b": 1}, {"b": 0.25}),
    ],
)
def test_the_factor_is_that_of_slurm_in_steps(
    uses: dict[str, float], shares: dict[str, float], factors: dict[str, float]
) -> None:
    assert factors_of(uses, shares) == factors


def test_use_decays_and_grows_exactly() -> None:
    use = RecentUse(rate_uw=10**6)
    for _ in range(100):
        use.settle(use.as_of_ns + HOUR // 10, HOUR)
    # Ten half-lives of 1 W: nearly the limit of rate times half-life over ln 2.
    assert use.uj == pytest.approx(10**6 * 3600 / math.log(2) * (1 - 2**-10))
    once = RecentUse(rate_uw=10**6)
    once.settle(10 * HOUR, HOUR)
    assert once.uj == pytest.approx(use.uj)
    once.rate_uw = 0
    once.settle(11 * HOUR, HOUR)
    assert once.uj == pytest.approx(use.uj / 2)


# ---- the rule ----------------------------------------------------------------------------------


def test_waiting_jobs_of_a_busy_user_have_lower_priorities(stage: Stage) -> None:
    submit(stage, "a", "ann")
    stage.plan(on("a", "n0:0"))
    submit(stage, "b", "ann")
    submit(stage, "c", "bob", priority=2.0)
    assert seen(stage) == {"a": 1, "b": 1, "c": 2}
    passes(stage, 61 * S)
    # Ann has all use, with half of the shares. The running job keeps its priority.
    assert seen(stage) == {"a": 1, "b": 0.25, "c": 2}
    assert stage.core.state.plan_needed or stage.core.state.solving
    parts = fair_share.parts(stage.core.state, stage.now_ns)
    assert parts == {"user ann": (0.5, 1.0, 0.25), "user bob": (0.5, 0.0, 1.0)}


def test_use_is_forgotten_with_the_half_life(stage: Stage) -> None:
    submit(stage, "a", "ann")
    stage.plan(on("a", "n0:0"))
    passes(stage, 10 * S)
    stage.launched("n0", "a")
    stage.process_ended("n0", "a")
    submit(stage, "b", "bob")
    stage.plan(on("b", "n0:1"))
    for job, user in (("c", "ann"), ("d", "bob")):
        submit(stage, job, user)
    passes(stage, 10 * HOUR)
    # A second of ann's 10 s remains as a 1,000th, against hours of bob.
    assert {job: seen(stage)[job] for job in "cd"} == {"c": 1, "d": 0.25}


def test_jobs_of_an_account_use_its_share(stage: Stage) -> None:
    configure(stage, lab=3.0, rest=1.0)
    submit(stage, "a", "ann", "lab")
    stage.plan(on("a", "n0:0"))
    submit(stage, "b", "ann", "rest")
    submit(stage, "c", "bob", "lab")
    passes(stage, 61 * S)
    # lab has all use and three quarters of the shares: 2^-(4/3), in steps of 1/8.
    assert seen(stage) == {"a": 1, "b": 1, "c": 2**-1.375}


def test_a_change_of_accounts_moves_the_power_of_running_jobs(stage: Stage) -> None:
    submit(stage, "a", "ann", "lab")
    stage.plan(on("a", "n0:0"))
    passes(stage, 100 * S)
    before = replace(stage.core.state.fair_share.uses["user ann"])
    assert before.rate_uw > 0
    configure(stage, half_life_h=2, lab=1.0)
    uses = stage.core.state.fair_share.uses
    assert uses["user ann"].rate_uw == 0
    assert uses["user ann"].uj == pytest.approx(before.uj, rel=0.01)
    assert uses["account lab"].rate_uw == before.rate_uw


def test_without_a_half_life_use_is_forgotten(stage: Stage) -> None:
    submit(stage, "a", "ann")
    stage.plan(on("a", "n0:0"))
    submit(stage, "b", "ann")
    submit(stage, "c", "bob")
    passes(stage, 61 * S)
    assert seen(stage)["b"] == 0.25
    configure(stage, half_life_h=0)
    assert seen(stage)["b"] == 1
    assert stage.core.state.fair_share.uses == {}
    configure(stage, half_life_h=1)
    passes(stage, 61 * S)
    assert seen(stage)["b"] == 0.25


def test_it_asks_to_be_woken_only_while_jobs_wait(stage: Stage) -> None:
    state = stage.core.state
    assert fair_share.next_ns(state) == 0
    submit(stage, "a", "ann")
    stage.plan(on("a", "n0:0"))
    assert fair_share.next_ns(state) == 0
    submit(stage, "b", "ann")
    assert fair_share.next_ns(state) == state.fair_share.weighed_ns + 60 * S


def test_a_replay_has_the_same_uses_and_factors(stage: Stage) -> None:
    submit(stage, "a", "ann")
    stage.plan(on("a", "n0:0"))
    submit(stage, "b", "ann")
    submit(stage, "c", "bob")
    passes(stage, 61 * S)
    core = CoordinatorCore(1000 * 10**6, CHECKED)
    for event, now_ns in stage.history:
        core.handle(codec.load_event(*codec.dump_event(event)), now_ns)
    assert core.state.fair_share == stage.core.state.fair_share
    loaded = codec.load_state(codec.dump_state(stage.core.state))
    assert loaded.fair_share == stage.core.state.fair_share
    assert loaded.jobs[JobId("a")].shared_uw > 0


def test_shares_of_users(stage: Stage) -> None:
    users = (UserLimits(name="ann", limits=NONE, share=4.0), UserLimits(name="*", limits=NONE))
    stage.send(AccountsConfigured(accounts=(), users=users, half_life_ns=HOUR))
    submit(stage, "a", "ann")
    submit(stage, "b", "bob")
    parts = fair_share.parts(stage.core.state, stage.now_ns)
    assert {name: part[0] for name, part in parts.items()} == {"user ann": 0.8, "user bob": 0.2}
    users = (replace(users[0], share=1.0), users[1])
    stage.send(AccountsConfigured(accounts=(), users=users, half_life_ns=HOUR))
    parts = fair_share.parts(stage.core.state, stage.now_ns)
    assert parts["user ann"][0] == 0.5
