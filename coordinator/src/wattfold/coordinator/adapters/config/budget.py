"""The table `[budget]`: how fast committed power may rise and fall."""

from __future__ import annotations

from typing import Any

from wattfold.contract.units import uw_from_w
from wattfold.coordinator.adapters.config.values import (
    ConfigError,
    Setting,
    Source,
    checked_values,
)
from wattfold.coordinator.core.model.ramp_limits import STEP_S, RampLimits

_TABLE = {
    "rise_w_per_s": Setting(kind=float, low=0.001, high=1e7, unit="W/s"),
    "fall_w_per_s": Setting(kind=float, low=0.001, high=1e7, unit="W/s"),
    "step_w": Setting(kind=float, low=0.001, high=1e9, unit="W"),
}


def ramp_from(source: Source, table: dict[str, Any], boot_uw: int) -> RampLimits:
    """Return the checked limits. ``boot_uw``: power that each boot adds. Raises ConfigError."""
    found = checked_values(source, table, _TABLE, "budget.")
    if "step_w" in found and len(found) == 1:
        raise ConfigError(
            f"{source.at('step_w', 'budget')}: budget.step_w needs budget.rise_w_per_s or "
            "budget.fall_w_per_s"
        )
    limits = RampLimits(
        rise_uw_per_s=_rate(found.get("rise_w_per_s", 0.0)),
        fall_uw_per_s=_rate(found.get("fall_w_per_s", 0.0)),
        step_uw=uw_from_w(found.get("step_w", 0.0)),
    )
    step_uw = limits.step_of(limits.rise_uw_per_s)
    if limits.rise_uw_per_s and boot_uw > step_uw:
        key = "step_w" if limits.step_uw else "rise_w_per_s"
        raise ConfigError(
            f"{source.at(key, 'budget')}: the boot of a node adds {boot_uw / 1e6:g} W at once "
            f"(power.boot_w less power.asleep_w), but budget.step_w permits {step_uw / 1e6:g} W"
            + ("" if limits.step_uw else f" (default: {STEP_S} s of budget.rise_w_per_s)")
        )
    return limits


def _rate(w_per_s: float) -> int:
    """Return a rate in microwatts per second."""
    return uw_from_w(w_per_s)
