"""Random submissions, ends, holds and limits: what the rule of the limits promises."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from unit.core.stage import S, Stage, job_spec

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.account import Account, Demand, UsageLimits, UserLimits
from wattfold.coordinator.core.model.configuration import AccountsConfigured
from wattfold.coordinator.core.rules.accounts.demands import demand_of
from wattfold.coordinator.core.rules.accounts.limits import limits_of
from wattfold.coordinator.core.state.admissions import Holder, is_active
from wattfold.coordinator.core.state.state import State


def limits(rng: random.Random) -> UsageLimits:
    return UsageLimits(jobs_max=rng.choice([0, 1, 3]), cores_max=rng.choice([0, 4, 6]))


def configuration(rng: random.Random) -> AccountsConfigured:
    accounts = [Account(name=name, members=("*",), limits=limits(rng)) for name in ("x", "y")]
    users = [UserLimits(name=name, limits=limits(rng)) for name in ("*", "ann")]
    return AccountsConfigured(
        accounts=tuple(accounts[: rng.randint(0, 2)]), users=tuple(users[: rng.randint(0, 2)])
    )


def event(rng: random.Random, jobs: list[JobId]) -> ev.Event:
    kind = rng.choice(["submit"] * 5 + ["cancel"] * 3 + ["hold", "release", "limits"])
    if kind == "limits":
        return configuration(rng)
    if kind == "submit" or not jobs:
        size = rng.randint(1, 4)
        spec = job_spec(
            size, size, user=rng.choice(["ann", "bob"]), account=rng.choice(["", "x", "y"])
        )
        jobs.append(JobId(str(len(jobs) + 1)))
        return ev.JobSubmitted(job_id=jobs[-1], spec=spec, held=rng.random() < 0.1)
    named = {
        "cancel": ev.JobCancelRequested,
        "hold": ev.JobHeld,
        "release": ev.JobReleased,
    }[kind]
    return named(job_id=rng.choice(jobs))


def check(state: State) -> None:
    """No limit is exceeded, and the sums of the rule are those of the jobs."""
    sums: dict[Holder, Demand] = {}
    for job in state.index.open.values():
        for holder in limits_of(state, job.spec) if is_active(job) else ():
            sums[holder] = sums.get(holder, Demand()).plus(demand_of(state, job.spec))
    known = {holder: one for holder, one in state.derived.admissions.sums.items() if one.jobs}
    if state.accounts or state.user_limits:
        assert known == sums
    for job in state.index.open.values():
        for holder, limit in limits_of(state, job.spec).items():
            assert not limit.exceeded_by(sums.get(holder, Demand())), holder


@pytest.mark.parametrize("seed", range(40))
def test_limits_hold_and_a_loaded_state_decides_the_same(seed: int) -> None:
    rng = random.Random(seed)
    stage = Stage()
    stage.up("n0", "n1")
    jobs: list[JobId] = []
    loaded = CoordinatorCore(10**9, stage.core.state.settings)
    loaded.begin_anew(codec.load_state(codec.dump_state(stage.core.state)))
    for _ in range(120):
        stage.now_ns += S
        happened = event(rng, jobs)
        if rng.random() < 0.2:
            loaded.begin_anew(codec.load_state(codec.dump_state(stage.core.state)))
        if rng.random() < 0.2:
            loaded.look_at_everything()
        stage.send(happened)
        loaded.handle(happened, stage.now_ns)
        check(stage.core.state)
        assert replace_round(loaded.state) == replace_round(stage.core.state)


def replace_round(state: State) -> list[object]:
    """Return the jobs as values."""
    return [replace(job) for job in state.jobs.values()]
