"""Accounts (projects) and users with limits, by name. A site may have none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

EVERYBODY = "*"
"""As a member: every user. As the name of a user: each user without limits of their own."""


class Demand(NamedTuple):
    """Resources that count for limits: jobs, cores, and power above idle in microwatts."""

    jobs: int = 0
    cores: int = 0
    power_uw: int = 0

    def plus(self, other: Demand, sign: int = 1) -> Demand:
        """Return the sum, or the difference with ``sign`` -1."""
        return Demand(*(mine + sign * its for mine, its in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimits:
    """Limits of a user or an account; 0 = none.

    ``jobs_max``, ``cores_max`` and ``power_uw_max`` apply to the jobs that run, or that policies
    may start, at the same time. ``submissions_per_s`` applies to submissions.
    """

    jobs_max: int = 0
    cores_max: int = 0
    power_uw_max: int = 0
    submissions_per_s: float = 0.0

    def exceeded_by(self, demand: Demand) -> str:
        """Return the first limit below a demand, as a text; empty = none."""
        if 0 < self.jobs_max < demand.jobs:
            return f"{self.jobs_max} {'job' if self.jobs_max == 1 else 'jobs'}"
        if 0 < self.cores_max < demand.cores:
            return f"{self.cores_max} {'core' if self.cores_max == 1 else 'cores'}"
        if 0 < self.power_uw_max < demand.power_uw:
            return f"{self.power_uw_max / 1e6:g} W above idle"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A group of users whose jobs share limits. `EVERYBODY` as a member admits every user."""

    name: str
    members: tuple[str, ...]
    limits: UsageLimits = UsageLimits()
    share: float = 1.0
    """Its share of the site, relative to others, for fair share."""

    def admits(self, user: str) -> bool:
        """Whether a user may submit jobs for this account."""
        return user in self.members or EVERYBODY in self.members


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLimits:
    """Limits of a user, or of each other user (`EVERYBODY`)."""

    name: str
    limits: UsageLimits
    share: float = 1.0
    """Share of the site for jobs without an account, relative to others."""


def own_accounts(accounts: Iterable[Account], user: str) -> list[str]:
    """Return the accounts of a user, in the order of the configuration."""
    return [account.name for account in accounts if account.admits(user)]


def first_account(accounts: Iterable[Account], user: str) -> str:
    """Return the account of the jobs of a user that name none; empty = no account."""
    return next(iter(own_accounts(accounts, user)), "")
