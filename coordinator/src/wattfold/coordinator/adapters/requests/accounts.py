"""Accounts at submission: membership, limits that a job can never meet, and rates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from wattfold.coordinator.adapters.door.peers import Peer
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.core.model.account import (
    EVERYBODY,
    Demand,
    UsageLimits,
    first_account,
    own_accounts,
)
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.rules.accounts import fair_share
from wattfold.coordinator.core.rules.accounts.demands import demand_of
from wattfold.coordinator.core.rules.accounts.limits import is_limited, limits_of, never_fits
from wattfold.coordinator.core.state.admissions import Holder, is_active
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb


def accounted(spec: JobSpec, name: str, who: Peer, state: State) -> JobSpec:
    """Return a job of a user as a job of an account. Raises InvalidRequestError.

    Without a name it is the first account of the configuration with this member, if there is one.
    Operators may name every account.
    """
    own = own_accounts(state.accounts.values(), spec.user)
    if not name:
        return replace(spec, account=first_account(state.accounts.values(), spec.user))
    if name not in state.accounts:
        known = f"your accounts: {', '.join(own)}" if own else "you are a member of no account"
        raise InvalidRequestError(f"no account {name!r}; {known}")
    if name not in own and not who.operator:
        rest = f"your accounts: {', '.join(own)}" if own else "ask an operator to add you"
        raise InvalidRequestError(f"{spec.user} is not a member of account {name}; {rest}")
    return replace(spec, account=name)


def check_limits(spec: JobSpec, state: State) -> None:
    """Raise InvalidRequestError if a job exceeds a limit of its user or account by itself."""
    refused = never_fits(state, spec)
    if refused:
        raise InvalidRequestError(refused)


class SubmissionRates:
    """Counts submissions for the limits per second.

    A user or an account may use its rate of one second, at least one submission, at once.
    Nothing is stored: after a restart, everybody may submit again.
    """

    def __init__(self) -> None:
        self._level: dict[Holder, tuple[float, int]] = {}

    def refusal(self, spec: JobSpec, state: State, now_ns: int) -> str:
        """Count a submission, or return why it is refused."""
        found = limits_of(state, spec)
        rates = {holder: one.submissions_per_s for holder, one in found.items()}
        levels: dict[Holder, tuple[float, int]] = {}
        for holder, rate in rates.items():
            if not rate:
                continue
            used, as_of_ns = self._level.get(holder, (0.0, now_ns))
            used = max(used - rate * (now_ns - as_of_ns) / 1e9, 0.0)
            if used + 1 > max(rate, 1.0):
                wait_s = math.ceil((used + 1 - max(rate, 1.0)) / rate * 10) / 10
                return (
                    f"{holder} may submit at most {rate:g} jobs per second; try again in "
                    f"{wait_s:g} s"
                )
            levels[holder] = used + 1, now_ns
        self._level |= levels
        return ""


def account_messages(state: State, who: Peer, user: str, now_ns: int) -> Iterable[pb.Account]:
    """Return accounts and limits of users, with their use.

    Operators see all. Others see their own accounts, and the limits that apply to themselves.
    """
    uses, waiting = _uses(state)
    shares = fair_share.parts(state, now_ns) if state.fair_share.half_life_ns else {}
    found: dict[Holder, tuple[UsageLimits, tuple[str, ...]]] = {}
    for account in state.accounts.values():
        if who.operator or account.admits(user):
            found[Holder("account", account.name)] = account.limits, account.members
    with_shares = (one.removeprefix("user ") for one in shares if one.startswith("user "))
    names = dict.fromkeys((*state.user_limits, *(one.name for one in uses if one.kind == "user")))
    names |= dict.fromkeys(with_shares)
    for name in names if who.operator else [user]:
        limits = state.user_limits.get(name) or state.user_limits.get(EVERYBODY)
        if limits is not None or f"user {name}" in shares:
            found[Holder("user", name)] = limits.limits if limits else UsageLimits(), ()
    for holder, (those, members) in found.items():
        message = _message(holder, those, uses, waiting, members)
        if str(holder) in shares:
            part = shares[str(holder)]
            message.share, message.recent_use, message.priority_factor = part
        yield message


def _uses(state: State) -> tuple[dict[Holder, Demand], dict[Holder, int]]:
    """Return the demand of the admitted jobs, and the number of other waiting jobs, by holder."""
    uses: dict[Holder, Demand] = {}
    waiting: dict[Holder, int] = {}
    for job in state.index.open.values():
        for holder in limits_of(state, job.spec):
            if is_active(job):
                demand = demand_of(state, job.spec)
                uses[holder] = uses.get(holder, Demand()).plus(demand)
            elif is_limited(job):
                waiting[holder] = waiting.get(holder, 0) + 1
    return uses, waiting


def _message(
    holder: Holder,
    limits: UsageLimits,
    uses: dict[Holder, Demand],
    waiting: dict[Holder, int],
    members: tuple[str, ...],
) -> pb.Account:
    use = uses.get(holder, Demand())
    return pb.Account(
        kind=holder.kind,
        name=holder.name,
        members=members,
        jobs_max=limits.jobs_max,
        cores_max=limits.cores_max,
        power_uw_max=limits.power_uw_max,
        submissions_per_s_max=limits.submissions_per_s,
        jobs=use.jobs,
        cores=use.cores,
        power_uw=use.power_uw,
        jobs_waiting=waiting.get(holder, 0),
    )
