"""The option `--limits` of simulations: accounts and limits of users, from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.workloads.workload_options import LOG_FILE

if TYPE_CHECKING:
    from wattfold.coordinator.core.model.configuration import AccountsConfigured

limits_option = click.option(
    "--limits",
    type=LOG_FILE,
    metavar="FILE",
    help="TOML file of [[account]] and [[user]] tables, such as the configuration of the "
    "coordinator: limits of users and accounts. The name of a user is the number in the log. "
    "Default: no limits.",
)


def limits_of(options: dict[str, Any]) -> AccountsConfigured | None:
    """Return the accounts and limits that the options name; None = none.

    Raises BadRequestError.
    """
    path: Path | None = options["limits"]
    return read_limits(path) if path is not None else None


def read_limits(path: Path) -> AccountsConfigured:
    """Read the [[account]] and [[user]] tables and [fair_share] of a TOML file, and nothing else.

    Raises BadRequestError.
    """
    import tomllib

    from wattfold.coordinator.adapters.config.accounts import accounts_from
    from wattfold.coordinator.adapters.config.values import ConfigError, Source

    try:
        text = path.read_bytes().decode()
        raw = tomllib.loads(text)
        source = Source(where=str(path), text=text)
        limits = accounts_from(source, raw)
    except (ConfigError, ValueError, RecursionError) as error:
        raise BadRequestError(f"--limits: {error}") from None
    if not (limits.accounts or limits.users or limits.half_life_ns):
        raise BadRequestError(
            f"--limits: {path} has no limits; add [[account]] or [[user]] tables, as in the "
            "configuration of the coordinator"
        )
    return limits
