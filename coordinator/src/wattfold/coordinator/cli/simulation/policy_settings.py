"""Policies and their settings on the command line, from the descriptions of the policies."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.parsing import Parsed

if TYPE_CHECKING:
    from wattfold.coordinator.policies.description import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSetting:
    """A `--set` option: a family or policy, its key, and its value."""

    whose: str
    key: str
    value: Value

    def meant_for(self, policy: str) -> bool:
        """Whether it applies to a policy."""
        from wattfold.coordinator.policies import registry

        entry = registry.find(policy)
        return entry is not None and self.whose in (entry.family.name, *entry.variant.names)


def parse_policy(text: str) -> str:
    """Return a policy by any of its names, as simulations name it. Raises ValueError."""
    from wattfold.coordinator.policies import registry

    entry = registry.find(text)
    if entry is None:
        names = registry.simulator_names()
        near = difflib.get_close_matches(text, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(names)}"
        raise ValueError(f"no such policy: {text!r}; {hint}")
    return entry.variant.simulator_name


def parse_policies(text: str) -> tuple[str, ...]:
    """Parse `easy,easy-uniform,parm-wse`. Raises ValueError, also for a repeated policy."""
    names = tuple(parse_policy(part.strip()) for part in text.split(","))
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is given twice; give each policy once")
    return names


def parse_setting(text: str) -> GivenSetting:
    """Parse `parm.alpha=0.5`. Raises ValueError."""
    from wattfold.coordinator.policies import registry
    from wattfold.coordinator.policies.description import SettingError, SettingScope

    path, equals, raw = text.partition("=")
    whose, dot, key = path.partition(".")
    if not (equals and dot and whose and key):
        raise ValueError(f"not a setting: {text!r}; expected for example parm.alpha=0.5")
    entry = registry.find(whose)
    family = registry.family(whose) or (entry.family if entry is not None else None)
    if family is None:
        names = ", ".join(one.name for one in registry.DESCRIPTIONS)
        raise ValueError(f"no such policy: {whose!r}; the policies with settings are {names}")
    setting = family.setting(key)
    if setting is None or SettingScope.SIMULATOR not in setting.places:
        known = [one.key for one in family.settings_in(SettingScope.SIMULATOR)]
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"its settings: {', '.join(known) or 'none'}"
        raise ValueError(f"{whose} has no setting {key!r}; {hint}")
    try:
        return GivenSetting(whose=whose, key=key, value=setting.parse(raw))
    except SettingError as error:
        raise ValueError(f"{path} = {error}") from None


def refuse_unmeant(settings: Sequence[GivenSetting], policies: Sequence[str]) -> None:
    """Refuse settings of policies that were not chosen. Raises BadRequestError."""
    for one in settings:
        if not any(map(one.meant_for, policies)):
            chosen = ", ".join(policies)
            raise BadRequestError(
                f"--set {one.whose}.{one.key} does not apply to {chosen}; omit it"
            )


def of_policy(policy: str, settings: Sequence[GivenSetting]) -> tuple[tuple[str, Value], ...]:
    """Return the settings for one policy, by key; the last of repeated settings counts."""
    return tuple(sorted({s.key: s.value for s in settings if s.meant_for(policy)}.items()))


POLICY = Parsed("policy", parse_policy)
POLICIES = Parsed("policies", parse_policies)
SETTING = Parsed("setting", parse_setting)
