"""Descriptions of the settings of every policy."""

from __future__ import annotations

import pytest

from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.description import PolicySetting, SettingError

NUMBERS = [
    pytest.param(setting, id=f"{family.name}-{setting.key}")
    for family in registry.DESCRIPTIONS
    for setting in family.settings
    # Energy prices are sometimes below zero.
    if setting.kind is not str and "price" not in setting.key
]


@pytest.mark.parametrize("setting", NUMBERS)
def test_no_count_time_or_share_is_below_none(setting: PolicySetting) -> None:
    with pytest.raises(SettingError, match=r"-1.* is outside "):
        setting.parse("-1")
