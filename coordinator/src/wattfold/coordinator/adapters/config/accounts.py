"""The [[account]] and [[user]] tables of the configuration, and the section [fair_share]."""

from __future__ import annotations

from typing import Any

from wattfold.contract.ids import valid_name
from wattfold.contract.units import ns_from_s, uw_from_w
from wattfold.coordinator.adapters.config.values import (
    ConfigError,
    Setting,
    Source,
    checked_values,
    table_of,
)
from wattfold.coordinator.core.model.account import EVERYBODY, Account, UsageLimits, UserLimits
from wattfold.coordinator.core.model.configuration import AccountsConfigured

_LIMITS = {
    "name": Setting(kind=str),
    "jobs_max": Setting(kind=int, low=0, high=1_000_000),
    "cores_max": Setting(kind=int, low=0, high=100_000_000),
    "power_max_w": Setting(kind=float, low=0, high=1e9, unit="W"),
    "submissions_per_s": Setting(kind=float, low=0, high=1e6),
    "share": Setting(kind=float, low=1e-6, high=1e6),
}
_ACCOUNT = {**_LIMITS, "members": Setting(kind=list)}
_FAIR_SHARE = {"half_life_h": Setting(kind=float, low=0, high=1e5, unit="h")}


def accounts_from(source: Source, raw: dict[str, Any]) -> AccountsConfigured:
    """Return accounts, limits and the half-life of fair share. Raises ConfigError."""
    fair = checked_values(source, table_of(source, raw, "fair_share"), _FAIR_SHARE, "fair_share.")
    return AccountsConfigured(
        accounts=_accounts(source, raw.get("account", [])),
        users=_users(source, raw.get("user", [])),
        half_life_ns=ns_from_s(3600 * fair.get("half_life_h", 0.0)),
    )


def _accounts(source: Source, tables: Any) -> tuple[Account, ...]:
    out: dict[str, Account] = {}
    for index, given in enumerate(_tables(source, tables, "account", _ACCOUNT)):
        where, name = source.at("name", "account", index), given.get("name", "")
        if not valid_name(name) or name in out:
            raise ConfigError(f"{where}: account {name!r} needs a valid, unique name")
        members = given.get("members", [])
        if not members or not all(isinstance(one, str) and one for one in members):
            raise ConfigError(
                f"{source.at('members', 'account', index)}: account {name}: members = {members!r} "
                'must be a list of users, or ["*"] for all users'
            )
        out[name] = Account(
            name=name,
            members=tuple(dict.fromkeys(members)),
            limits=_limits(given),
            share=given.get("share", 1.0),
        )
    return tuple(out.values())


def _users(source: Source, tables: Any) -> tuple[UserLimits, ...]:
    out: dict[str, UserLimits] = {}
    for index, given in enumerate(_tables(source, tables, "user", _LIMITS)):
        where, name = source.at("name", "user", index), given.get("name", "")
        if not name or name in out:
            raise ConfigError(
                f'{where}: user {name!r} needs a unique name, or "{EVERYBODY}" for each other user'
            )
        out[name] = UserLimits(name=name, limits=_limits(given), share=given.get("share", 1.0))
    return tuple(out.values())


def _tables(
    source: Source, tables: Any, kind: str, known: dict[str, Setting]
) -> list[dict[str, Any]]:
    if not isinstance(tables, list):
        raise ConfigError(f"{source.at(kind)}: {kind}s must be [[{kind}]] tables with a name")
    return [
        checked_values(source, table, known, f"{kind}.", index=index)
        for index, table in enumerate(tables)
    ]


def _limits(given: dict[str, Any]) -> UsageLimits:
    return UsageLimits(
        jobs_max=given.get("jobs_max", 0),
        cores_max=given.get("cores_max", 0),
        power_uw_max=uw_from_w(given.get("power_max_w", 0.0)),
        submissions_per_s=given.get("submissions_per_s", 0.0),
    )
