"""Descriptions of policies: names, settings with units and ranges, and constructors.

Configuration, command line, documents and tests read the same description, so none of them lists
policies of its own. The settings of a family are a dataclass with fields made by `setting`, and a
policy is constructed from an object of this class. A description is cheap to import: it imports the
implementation of the policy only when a policy is constructed.

`Pool` names the scheduler of the simulator for pools of identical whole nodes, because those
schedulers live in a layer above the policies. A policy without a `Pool` decides about named nodes,
as in the service.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from wattfold.coordinator.core.model.plan import Policy


S = TypeVar("S", bound="PolicySettings")
"""Dataclass of the settings of a family."""
T = TypeVar("T", bound="Value | enum.Enum")
Value = float | int | str
Values = Mapping[str, Value]
"""Settings of one policy by key. Each value is checked and in the unit of its setting."""


class SettingScope(enum.Enum):
    """Where a setting applies."""

    SERVICE = "service"
    SIMULATOR = "simulator"


BOTH = (SettingScope.SERVICE, SettingScope.SIMULATOR)
IN_SERVICE = (SettingScope.SERVICE,)
IN_SIMULATIONS = (SettingScope.SIMULATOR,)


class SettingError(ValueError):
    """A setting has an invalid value. The message states the valid values but not the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySetting:
    """A setting: a number with range and unit, or a text with its choices."""

    key: str
    default: Value
    help: str
    low: float = -math.inf
    high: float = math.inf
    unit: str = ""
    choices: tuple[str, ...] = ()
    places: tuple[SettingScope, ...] = BOTH

    @property
    def kind(self) -> type:
        """Type of the default: ``float``, ``int`` or ``str``."""
        return type(self.default)

    @property
    def range_text(self) -> str:
        """Range such as `0..10` or `1..64`, or the choices."""
        if self.choices:
            return ", ".join(self.choices)
        ends = (f"{end:g}" if math.isfinite(end) else "" for end in (self.low, self.high))
        return "..".join(ends)

    def parse(self, text: str) -> Value:
        """Return the value of a text. Raises SettingError."""
        if self.kind is str:
            value: Value = text
        else:
            try:
                value = self.kind(text)
            except ValueError:
                wanted = "a whole number" if self.kind is int else "a number"
                raise SettingError(f"{text!r} is not {wanted}") from None
        if self.choices and value not in self.choices:
            raise SettingError(f"{text!r}; choose one of {', '.join(self.choices)}")
        if not isinstance(value, str) and not self.low <= value <= self.high:
            unit = f" {self.unit}" if self.unit else ""
            raise SettingError(f"{value:g}{unit} is outside {self.range_text}{unit}")
        return value


@dataclass(frozen=True, kw_only=True)
class PolicySettings:
    """Base of the settings of families: a dataclass whose fields are made by `setting`."""


def setting(
    default: T,
    *,
    help: str,  # noqa: A002 - the name of `PolicySetting`
    within: tuple[float, float] = (-math.inf, math.inf),
    unit: str = "",
    choices: tuple[str, ...] = (),
    places: tuple[SettingScope, ...] = BOTH,
) -> T:
    """Return a field of `PolicySettings`. Its key is the name of the field.

    ``within`` has the ends of the range of a number. Users write `yes` or `no` for a ``bool``, and
    the value of a member for an ``Enum``.
    """
    stated: Value
    if isinstance(default, bool):
        stated, choices = "yes" if default else "no", choices or ("yes", "no")
    elif isinstance(default, enum.Enum):
        stated, choices = default.value, tuple(one.value for one in type(default))
    else:
        stated = default
    described = PolicySetting(
        key="",
        default=stated,
        help=help,
        low=within[0],
        high=within[1],
        unit=unit,
        choices=choices,
        places=places,
    )
    return field(default=default, metadata={"setting": described})


def same_setting(settings: type[PolicySettings], key: str) -> Any:
    """Return a field like the field ``key`` of other settings."""
    known = next(one for one in fields(settings) if one.name == key)
    return field(default=known.default, metadata=known.metadata)


def size_setting() -> str:
    """Return the field of policies that give each job a fixed size."""
    return setting("max", help="end of the size range that a job gets", choices=("min", "max"))


def patience_setting(prefix: str = "") -> float:
    """Return the field of policies under which narrow jobs may overtake a wide job forever."""
    return setting(
        10.0,
        help=f"{prefix}nodes and power are held for a job that has waited this many times its "
        f"estimated run time, at least a minute; 0 = never, so that wide jobs may starve",
        within=(0.0, 1e6),
    )


def settings_of(settings: type[PolicySettings]) -> tuple[PolicySetting, ...]:
    """Return the settings of a class: its own, then those of its base classes."""
    known = {one.name: one.metadata["setting"] for one in fields(settings)}
    own = (vars(base).get("__annotations__", ()) for base in settings.__mro__)
    return tuple(replace(known[key], key=key) for key in dict.fromkeys(chain.from_iterable(own)))


class Pool(enum.Enum):
    """A scheduler of the simulator that takes the same decisions as the policy, but faster."""

    BACKFILL = "backfill"
    """One cap for all jobs: EASY, FCFS and conservative backfilling."""
    EASY_UNIFORM = "easy-uniform"
    PARM = "parm"
    SLOWDOWN_DRIVEN = "slowdown-driven"
    EQUIPARTITION = "equipartition"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyVariant(Generic[S]):
    """A policy of a family, with the name that users select it by."""

    name: str
    title: str
    service: Callable[[S], Policy] | None = None
    """Constructor of the policy from the settings of its family. None: simulated on a pool only."""
    pool: Pool | None = None
    """Scheduler for a simulated pool. None: the policy itself plans named nodes."""
    simulated_as: str = ""
    """Name in simulations and their files, if it differs from ``name``."""
    starves_nobody: bool = False
    """Whether every feasible job starts eventually, whatever jobs of its priority arrive later."""
    trains: bool = False
    """Whether it plans training jobs by due date, and others by EASY (without starvation)."""
    by_name: str = ""
    """How decisions on named nodes differ from decisions on counted nodes. Empty: not at all."""
    looks_ahead: bool = False
    """Whether it starts no job that an announced budget could not power until its end."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the policy, ``name`` first."""
        return (self.name, self.simulated_as) if self.simulated_as else (self.name,)

    @property
    def simulator_name(self) -> str:
        """Name in simulations and their files."""
        return self.simulated_as or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Description(Generic[S]):
    """A family of policies with common settings, which are one table of the configuration."""

    name: str
    """Name of the family and of its settings table, such as [parm]."""
    title: str
    audience: str
    """Intended users, in one sentence."""
    fallback: str
    """Policies that plan a round in which a policy of the family fails or is late, in order."""
    citation: str
    variants: tuple[PolicyVariant[S], ...]
    settings_class: type[S]
    """Settings, `PolicySettings` if there are none."""
    needs_profiles: bool = False
    """Whether simulated jobs need profiles of their run times at other sizes and caps."""
    memory: str = ""
    """State between rounds that may change a decision. Empty: there is none.

    Without it, a policy that was rebuilt from a snapshot decides the same.
    """
    without_memory: Values = field(default_factory=dict)
    """Settings that disable this state."""

    @property
    def settings(self) -> tuple[PolicySetting, ...]:
        """All settings, in the order of tables."""
        return settings_of(self.settings_class)

    def chosen(self, values: Values) -> S:
        """Return the settings with these values; the others have their defaults."""
        kinds: dict[str, Any] = {one.name: type(one.default) for one in fields(self.settings_class)}
        typed = {
            key: value == "yes" if kinds[key] is bool else kinds[key](value)
            for key, value in values.items()
        }
        return self.settings_class(**typed)

    def defaults(self) -> dict[str, Value]:
        """Return the defaults of all settings."""
        return {setting.key: setting.default for setting in self.settings}

    def setting(self, key: str) -> PolicySetting | None:
        """Return the setting with this key, or None if it does not exist."""
        return next((one for one in self.settings if one.key == key), None)

    def settings_in(self, place: SettingScope) -> tuple[PolicySetting, ...]:
        """Return the settings that apply in a place."""
        return tuple(one for one in self.settings if place in one.places)
