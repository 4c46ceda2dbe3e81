"""The table `[emergency]`: which jobs an emergency protects, and what it does to the others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattfold.coordinator.adapters.config.values import (
    ConfigError,
    Setting,
    Source,
    checked_values,
)
from wattfold.coordinator.core.model.emergency import EmergencyOrder, JobStep

_TABLE = {
    "protect_queues": Setting(kind=list),
    "protect_users": Setting(kind=list),
    "protect_priority": Setting(kind=float, low=0, high=1e9),
    "jobs": Setting(kind=str, choices=tuple(step.value for step in JobStep)),
    "file": Setting(kind=str),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmergencySettings:
    """The order of the site, and the file that begins an emergency; None = no file."""

    order: EmergencyOrder = EmergencyOrder()  # noqa: RUF009 - immutable
    file: Path | None = None


def emergency_from(source: Source, table: dict[str, Any]) -> EmergencySettings:
    """Return the checked settings. Raises ConfigError."""
    found = checked_values(source, table, _TABLE, "emergency.")
    for key in ("protect_queues", "protect_users"):
        if not all(isinstance(name, str) and name for name in found.get(key, [])):
            where = source.at(key, "emergency")
            raise ConfigError(f'{where}: emergency.{key} is a list of names, such as ["urgent"]')
    file = found.get("file")
    if file is not None and not Path(file).is_absolute():
        where = source.at("file", "emergency")
        raise ConfigError(f"{where}: emergency.file = {file!r} must be an absolute path")
    order = EmergencyOrder(
        queues=tuple(found.get("protect_queues", ())),
        users=tuple(found.get("protect_users", ())),
        priority=found.get("protect_priority", 0.0),
        jobs=JobStep(found.get("jobs", JobStep.SUSPEND.value)),
    )
    return EmergencySettings(order=order, file=Path(file) if file is not None else None)
