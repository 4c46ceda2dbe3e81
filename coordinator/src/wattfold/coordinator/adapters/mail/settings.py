"""Settings of the table ``[mail]``: the program that sends mail about jobs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from wattfold.coordinator.adapters.config.programs import program_account, program_words
from wattfold.coordinator.adapters.config.values import (
    ConfigError,
    Setting,
    Source,
    checked_values,
)

_TABLE = {
    "program": Setting(kind=str),
    "account": Setting(kind=str),
    "domain": Setting(kind=str),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MailSettings:
    """The program as words, empty = no mail, and the account that runs it."""

    program: tuple[str, ...] = ()
    account: str = ""
    """Empty = the account of the coordinator."""
    domain: str = ""
    """Appended to addresses without a host; empty = they stay names of local accounts."""


def mail_from(source: Source, table: dict[str, Any]) -> MailSettings:
    """Return the checked settings. Raises ConfigError."""
    checked = checked_values(source, table, _TABLE, "mail.")
    program = program_words(source, checked, "mail", "program")
    if not program:
        if checked:
            key = next(iter(checked))
            raise ConfigError(f"{source.at(key, 'mail')}: mail.{key} needs mail.program")
        return MailSettings()
    domain = checked.get("domain", "")
    if domain and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", domain):
        where = source.at("domain", "mail")
        raise ConfigError(f"{where}: mail.domain = {domain!r} must be a name such as example.org")
    return MailSettings(
        program=program, account=program_account(source, checked, "mail"), domain=domain
    )
