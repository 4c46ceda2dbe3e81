"""Descriptions of the settings of every policy."""

from __future__ import annotations

import pytest

from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.description import PolicySetting, SettingError
from wattfold.coordinator.policies.slowdown_driven.choice import MateEnd
from wattfold.coordinator.policies.slowdown_driven.rules import PowerSharing, SharingSettings

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


SIZED = [
    pytest.param(entry, id=entry.variant.name)
    for entry in registry.entries()
    if entry.variant.service is not None and entry.family.setting("size") is not None
]


@pytest.mark.parametrize("entry", SIZED)
def test_a_policy_states_the_size_of_its_settings(entry: registry.RegisteredPolicy) -> None:
    assert [entry.service({"size": size}).size for size in ("min", "max")] == ["min", "max"]


def test_settings_have_the_types_of_their_fields() -> None:
    family = registry.family("slowdown-driven")
    assert family is not None
    chosen = family.chosen({"benefit": "no", "check": "yes", "power": "any", "mates": 3.0})
    assert chosen == SharingSettings(
        benefit=False, check=True, power=PowerSharing.ANY, mates=3, mate_end=MateEnd.BEFORE
    )
    assert type(chosen.mates) is int
