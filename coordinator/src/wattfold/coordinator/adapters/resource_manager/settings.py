"""Settings of the table ``[slurm]``. The table itself selects the guest mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wattfold.contract.ids import valid_name
from wattfold.coordinator.adapters.config.values import (
    ConfigError,
    Setting,
    Source,
    checked_values,
    table_of,
)
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies import registry

KEY = "slurm"
TABLE = {
    "conf": Setting(kind=str),
    "commands": Setting(kind=str),
    "poll_s": Setting(kind=float, low=0.1, high=600, unit="s"),
    "timeout_s": Setting(kind=float, low=0.1, high=600, unit="s"),
    "comments_s": Setting(kind=float, low=0, high=86_400, unit="s"),
    "licence_total": Setting(kind=int, low=0, high=4_000_000_000),
    "reservation": Setting(kind=str),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """How to reach Slurm, and how often to ask it.

    ``conf`` is the path of slurm.conf and ``commands`` the folder of Slurm's commands; empty = as
    the environment says. ``comments_s`` is the minimum time between two rounds of comments, 0 = no
    comments. ``licence_total`` is the number of licences ``watts`` in slurm.conf, 0 = no admission
    by watts. ``reservation`` holds the licences that jobs may not use.
    """

    conf: str = ""
    commands: str = ""
    poll_s: float = 3.0
    timeout_s: float = 10.0
    comments_s: float = 30.0
    licence_total: int = 0
    reservation: str = "wattfold"


def recapping() -> list[str]:
    """Return the names of the policies that can decide for the jobs of Slurm."""
    found = {name: registry.find(name) for name in registry.service_names()}
    return [name for name, entry in found.items() if entry and entry.service({}).recaps]


def slurm_from(source: Source, raw: dict[str, Any], policy: Policy) -> SlurmSettings | None:
    """Return the checked settings; None = the coordinator has its own queue. Raises ConfigError."""
    if KEY not in raw:
        return None
    found = checked_values(source, table_of(source, raw, KEY), TABLE, f"{KEY}.")
    if not policy.recaps:
        raise ConfigError(
            f"{source.at('policy')}: policy = {policy.name!r} does not choose the caps of running "
            "jobs, but a coordinator with [slurm] decides nothing else; choose one of "
            f"{', '.join(recapping())}"
        )
    if not valid_name(found.get("reservation", "wattfold")):
        raise ConfigError(
            f"{source.at('reservation', KEY)}: slurm.reservation = {found['reservation']!r} is not "
            "a name of letters, digits and . _ -"
        )
    return SlurmSettings(**found)
