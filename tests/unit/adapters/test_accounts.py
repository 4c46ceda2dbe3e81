"""Accounts at the door: configuration, membership, limits that no job can meet, and rates."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from unit.adapters.api_site import ApiSite
from unit.adapters.test_config import complaint, read
from unit.core.stage import S, Stage, W, job_spec

from wattfold.coordinator.adapters.door.peers import own_account
from wattfold.coordinator.adapters.requests.accounts import (
    SubmissionRates,
    account_messages,
    accounted,
    check_limits,
)
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.account import Account, UsageLimits, UserLimits
from wattfold.coordinator.core.model.configuration import AccountsConfigured
from wattfold.v1 import coordinator_pb2 as pb

ACCOUNTS = (
    Account(name="lab", members=("ann", "bob"), limits=UsageLimits(cores_max=4, jobs_max=3)),
    Account(name="free", members=("*",), limits=UsageLimits(submissions_per_s=2)),
)
USERS = (UserLimits(name="*", limits=UsageLimits(submissions_per_s=0.5)),)
OPERATOR = own_account()
USER = replace(OPERATOR, uid=4711, account="ann")


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.up("n0")
    made.send(AccountsConfigured(accounts=ACCOUNTS, users=()))
    return made


def test_the_configuration_has_accounts_and_users(tmp_path: Path) -> None:
    text = """
[[account]]
name = "lab"
members = ["ann", "bob", "ann"]
jobs_max = 3
cores_max = 64
power_max_w = 800
submissions_per_s = 2.5
share = 3
[[user]]
name = "*"
jobs_max = 9
[fair_share]
half_life_h = 36
"""
    config = read(tmp_path, text)
    limits = UsageLimits(jobs_max=3, cores_max=64, power_uw_max=800 * W, submissions_per_s=2.5)
    assert config.accounts.accounts == (
        Account(name="lab", members=("ann", "bob"), limits=limits, share=3.0),
    )
    assert config.accounts.users == (UserLimits(name="*", limits=UsageLimits(jobs_max=9)),)
    assert config.accounts.half_life_ns == 36 * 3600 * 10**9


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[account]\nname = 'a'", "accounts must be [[account]] tables with a name"),
        ("[[account]]\nmembers = ['a']", "account '' needs a valid, unique name"),
        ("[[account]]\nname = 'a'", "account a: members = [] must be a list of users"),
        ("[[account]]\nname = 'a'\nmembers = [1]", "members = [1] must be a list of users"),
        ("[[account]]\nname = 'a'\nmembers = ['b']\ncores = 3", "account.cores"),
        ("[[user]]\njobs_max = 3", "user '' needs a unique name"),
        ("[[user]]\nname = 'a'\n[[user]]\nname = 'a'", "user 'a' needs a unique name"),
        ("[[user]]\nname = 'a'\nshare = 0", "user.share = 0"),
        ("[fair_share]\nhalf_life_h = -1", "fair_share.half_life_h = -1"),
        ("[fair_share]\nweight = 1", "fair_share.weight"),
    ],
)
def test_wrong_accounts_are_refused(tmp_path: Path, text: str, why: str) -> None:
    assert why in complaint(tmp_path, text)


def test_the_account_of_a_job(stage: Stage) -> None:
    state = stage.core.state
    spec = job_spec(user="ann")
    assert accounted(spec, "", USER, state).account == "lab", "the first of her accounts"
    assert accounted(spec, "free", USER, state).account == "free"
    assert accounted(replace(spec, user="eve"), "", USER, state).account == "free"
    eve = replace(spec, user="eve")
    with pytest.raises(InvalidRequestError, match=r"^eve is not a member of account lab; your acc"):
        accounted(eve, "lab", USER, state)
    assert accounted(eve, "lab", OPERATOR, state).account == "lab"
    with pytest.raises(InvalidRequestError, match=r"^no account 'x'; your accounts: lab, free$"):
        accounted(spec, "x", USER, state)
    stage.send(AccountsConfigured(accounts=(), users=()))
    assert accounted(spec, "", USER, state).account == ""
    with pytest.raises(InvalidRequestError, match=r"^no account 'lab'; you are a member of no acc"):
        accounted(spec, "lab", USER, state)


def test_a_job_that_no_limit_would_admit_is_refused(stage: Stage) -> None:
    check_limits(job_spec(1, 4, account="lab"), stage.core.state)
    with pytest.raises(InvalidRequestError, match=r"account lab may use at most 4 cores"):
        check_limits(job_spec(1, 5, account="lab"), stage.core.state)


def test_submissions_per_second_have_limits(stage: Stage) -> None:
    state, rates = stage.core.state, SubmissionRates()
    spec = job_spec(account="free", user="ann")
    assert [rates.refusal(spec, state, 0) for _ in range(2)] == ["", ""]
    assert rates.refusal(spec, state, 0) == (
        "account free may submit at most 2 jobs per second; try again in 0.5 s"
    )
    assert rates.refusal(replace(spec, account="lab"), state, 0) == ""
    assert rates.refusal(spec, state, S // 2) == ""
    assert rates.refusal(spec, state, S // 2) != ""
    stage.send(AccountsConfigured(accounts=ACCOUNTS, users=USERS))
    assert rates.refusal(replace(spec, account=""), state, 9 * S) == ""
    assert rates.refusal(spec, state, 10 * S).startswith("user ann may submit at most 0.5 jobs")
    assert rates.refusal(replace(spec, user="bob"), state, 10 * S) == ""


def test_who_sees_which_limits(stage: Stage) -> None:
    stage.send(AccountsConfigured(accounts=ACCOUNTS, users=USERS))
    for job in "abcd":
        stage.submit(job, job_spec(1, 1, account="lab", user="ann"))
    state = stage.core.state
    found = list(account_messages(state, USER, "ann", stage.now_ns))
    assert [(one.kind, one.name) for one in found] == [
        ("account", "lab"),
        ("account", "free"),
        ("user", "ann"),
    ]
    lab = found[0]
    assert (lab.jobs, lab.cores, lab.power_uw, lab.jobs_waiting) == (3, 3, 30 * W, 1)
    eve = account_messages(state, USER, "eve", stage.now_ns)
    assert [one.name for one in eve] == ["free", "eve"]
    all_names = [one.name for one in account_messages(state, OPERATOR, "root", stage.now_ns)]
    assert all_names == ["lab", "free", "*", "ann"]


def test_shares_and_recent_use_are_listed(stage: Stage) -> None:
    everybody = (UserLimits(name="*", limits=UsageLimits(), share=2.0),)
    stage.send(AccountsConfigured(accounts=(), users=everybody, half_life_ns=3600 * S))
    stage.run_job("1", "n0:0-1", user="ann")
    stage.submit("2", job_spec(1, 1, user="bob"))
    stage.now_ns += 100 * S
    stage.send(ev.TimePassed())
    listed = account_messages(stage.core.state, OPERATOR, "root", stage.now_ns)
    found = {one.name: (one.share, one.recent_use, one.priority_factor) for one in listed}
    assert found == {"*": (0, 0, 0), "ann": (0.5, 1, 0.25), "bob": (0.5, 0, 1)}
    [own] = account_messages(stage.core.state, USER, "bob", stage.now_ns)
    assert (own.name, own.priority_factor) == ("bob", 1)


def test_each_job_of_a_call_counts_for_the_rate(tmp_path: Path) -> None:
    me = own_account().account
    lab = Account(name="lab", members=(me,), limits=UsageLimits(submissions_per_s=2))

    async def submitted() -> tuple[list[str], list[pb.Account], str]:
        async with ApiSite(tmp_path) as site, asyncio.timeout(240):
            site.service.post(AccountsConfigured(accounts=(lab,), users=()))
            spec = pb.JobSpec(argv=["true"], kind=pb.JOB_KIND_RIGID, account="lab")
            many = pb.SubmitManyRequest(jobs=[pb.SubmitRequest(spec=spec)] * 4)
            answer = await site.stub.SubmitMany(many)
            listed = await site.stub.ListAccounts(pb.ListAccountsRequest())
            spec.account = "other"
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await site.stub.Submit(pb.SubmitRequest(spec=spec))
            results = [one.job_id or one.error for one in answer.results]
            return results, list(listed.accounts), refused.value.details() or ""

    results, listed, refused = asyncio.run(submitted())
    assert results[:2] == ["1", "2"]
    assert all("account lab may submit at most 2 jobs per second" in one for one in results[2:])
    assert [(one.name, one.jobs) for one in listed] == [("lab", 2)]
    assert refused == "no account 'other'; your accounts: lab"
