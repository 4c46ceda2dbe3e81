"""Settings of the table ``[power]``: programs that switch nodes, and what sleeping nodes draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wattfold.contract.units import ns_from_s, uw_from_w
from wattfold.coordinator.adapters.config.programs import program_account, program_words
from wattfold.coordinator.adapters.config.values import ConfigError, Setting, Source
from wattfold.coordinator.core.model.node_power import SleepSettings

SETTINGS = {
    "suspend": Setting(kind=str),
    "resume": Setting(kind=str),
    "status": Setting(kind=str),
    "account": Setting(kind=str),
    "asleep_w": Setting(kind=float, low=0, high=10_000, unit="W"),
    "boot_w": Setting(kind=float, low=0, high=100_000, unit="W"),
    "boot_s": Setting(kind=float, low=1, high=86_400, unit="s"),
    "suspend_s": Setting(kind=float, low=1, high=86_400, unit="s"),
    "boots_max": Setting(kind=int, low=1, high=10_000),
    "decide": Setting(kind=bool),
    "awake_min_s": Setting(kind=float, low=0, high=86_400, unit="s"),
    "boots_a_day": Setting(kind=int, low=0, high=1000),
    "boots_w_per_s": Setting(kind=float, low=0, high=1e6, unit="W"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSettings:
    """Programs as words, and the account that runs them; empty = the account of the coordinator.

    Without ``status``, a node counts as off when ``suspend`` has succeeded and its agent is silent.
    """

    suspend: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    account: str = ""
    sleep: SleepSettings = SleepSettings()  # noqa: RUF009 - immutable

    @property
    def configured(self) -> bool:
        """Whether nodes can sleep."""
        return bool(self.suspend)


def power_from(source: Source, checked: dict[str, Any]) -> PowerSettings:
    """Return the settings of the table. Raises ConfigError."""
    if bool(checked.get("suspend")) is not bool(checked.get("resume")):
        raise ConfigError(
            f"{source.at('suspend', 'power')}: power.suspend and power.resume are needed together"
        )
    if checked.get("suspend") and not {"asleep_w", "boot_w"} <= checked.keys():
        raise ConfigError(
            f"{source.at('suspend', 'power')}: power.suspend needs power.asleep_w and "
            "power.boot_w: maximum power of a node asleep, and until its agent has reported"
        )
    default = SleepSettings()
    return PowerSettings(
        suspend=program_words(source, checked, "power", "suspend"),
        resume=program_words(source, checked, "power", "resume"),
        status=program_words(source, checked, "power", "status"),
        account=program_account(source, checked, "power") if checked.get("suspend") else "",
        sleep=SleepSettings(
            asleep_uw=uw_from_w(checked.get("asleep_w", 0.0)),
            boot_uw=uw_from_w(checked.get("boot_w", 0.0)),
            boot_ns=ns_from_s(checked["boot_s"]) if "boot_s" in checked else default.boot_ns,
            suspend_ns=ns_from_s(checked["suspend_s"])
            if "suspend_s" in checked
            else default.suspend_ns,
            boots_max=checked.get("boots_max", default.boots_max),
            decides=bool(checked.get("suspend")) and checked.get("decide", False),
            awake_min_ns=ns_from_s(checked["awake_min_s"])
            if "awake_min_s" in checked
            else default.awake_min_ns,
            boots_a_day=checked.get("boots_a_day", 0),
            ramp_uw=uw_from_w(checked.get("boots_w_per_s", 0.0)),
        ),
    )
