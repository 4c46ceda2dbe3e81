"""Settings that name a program of the site, and the account that runs it."""

from __future__ import annotations

import os
import pwd
import shlex
from typing import Any

from wattfold.coordinator.adapters.config.values import ConfigError, Source

_UNPRIVILEGED = "nobody"


def program_words(source: Source, checked: dict[str, Any], table: str, key: str) -> tuple[str, ...]:
    """Return program and first arguments, empty if they are not set. Raises ConfigError."""
    where = source.at(key, table)
    try:
        words = tuple(shlex.split(checked.get(key, "")))
    except ValueError as error:
        raise ConfigError(f"{where}: {table}.{key}: {error}") from None
    if words and not words[0].startswith("/"):
        raise ConfigError(
            f"{where}: {table}.{key} = {checked[key]!r} must begin with the full path of a program"
        )
    return words


def program_account(source: Source, checked: dict[str, Any], table: str) -> str:
    """Return the account of the setting ``account``; empty = that of the coordinator.

    A coordinator of root does not run programs as root. Raises ConfigError.
    """
    account: str = checked.get("account", "")
    where = source.at("account", table)
    if os.geteuid() != 0:
        if account and account != pwd.getpwuid(os.geteuid()).pw_name:
            raise ConfigError(
                f"{where}: {table}.account = {account!r} needs a coordinator that runs as root"
            )
        return ""
    account = account or _UNPRIVILEGED
    try:
        pwd.getpwnam(account)
    except KeyError:
        raise ConfigError(
            f"{where}: {table}.account = {account!r} is not an account here"
        ) from None
    return account
