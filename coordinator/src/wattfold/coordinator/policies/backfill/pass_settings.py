"""Settings of the backfilling passes of EASY in simulations."""

from __future__ import annotations

from wattfold.coordinator.policies.description import PolicySetting, SettingScope

PASS_SETTINGS = (
    PolicySetting(
        key="looked",
        default=0,
        low=0,
        high=1_000_000,
        help="number of jobs at the head of the queue that EASY considers in one backfilling "
        "pass; 0 = all",
        places=(SettingScope.SIMULATOR,),
    ),
    PolicySetting(
        key="every",
        default=0.0,
        low=0.0,
        high=86_400.0,
        unit="s",
        help="time between two backfilling passes of EASY, between which jobs start only in "
        "order; 0 = backfill at every event",
        places=(SettingScope.SIMULATOR,),
    ),
)
