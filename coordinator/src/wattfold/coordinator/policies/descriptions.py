"""How a policy describes itself: names, settings with units and ranges, and who makes it.

Configuration, command line, documents and tests read the same description, so that none of them
lists policies of its own. A description is light: what makes a policy imports it when it is called.

What a simulated pool of whole like nodes runs is said by `Pool`, since schedulers of pools stand
above the policies; one without decides about nodes by name, as in the service.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wattfold.coordinator.core.plan import Policy


Value = float | int | str
Values = Mapping[str, Value]
"""Settings of one policy by their keys, each checked and in its own unit."""


class Place(enum.Enum):
    """Where a setting counts."""

    SERVICE = "service"
    SIMULATOR = "simulator"


BOTH = (Place.SERVICE, Place.SIMULATOR)


class SettingError(ValueError):
    """A setting has a wrong value; the message says which would be right, and not the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySetting:
    """A setting: a number with range and unit, or the choices of a text."""

    key: str
    default: Value
    help: str
    low: float = -math.inf
    high: float = math.inf
    unit: str = ""
    choices: tuple[str, ...] = ()
    places: tuple[Place, ...] = BOTH

    @property
    def kind(self) -> type:
        """``float``, ``int`` or ``str``: that of the default."""
        return type(self.default)

    @property
    def range_text(self) -> str:
        """`0..10`, `1..64`, or the choices."""
        if self.choices:
            return ", ".join(self.choices)
        ends = (f"{end:g}" if math.isfinite(end) else "" for end in (self.low, self.high))
        return "..".join(ends)

    def parse(self, text: str) -> Value:
        """The value of a text. Raises SettingError."""
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


class Pool(enum.Enum):
    """A scheduler of the simulator that takes the decisions of a policy faster than it would."""

    EASY = "easy"
    FCFS = "fcfs"
    CONSERVATIVE = "conservative"
    EASY_UNIFORM = "easy-uniform"
    PARM = "parm"
    SLOWDOWN_DRIVEN = "slowdown-driven"
    EQUIPARTITION = "equipartition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One policy of a family, with the name people choose it by."""

    name: str
    title: str
    service: Callable[[Values], Policy] | None = None
    """Makes the policy of its family's settings; None: it is simulated on a pool only."""
    pool: Pool | None = None
    """What a simulated pool runs; None: the policy itself, on nodes by name."""
    simulated_as: str = ""
    """Its name in simulations and their files, where that is another."""
    starves_nobody: bool = False
    """Under any stream of later jobs of its priority, every job that fits starts at last."""
    looks_ahead: bool = False
    """It starts no job that would run into a time when an announced budget cannot feed it."""

    @property
    def names(self) -> tuple[str, ...]:
        """All it is known by, the first one first."""
        return (self.name, self.simulated_as) if self.simulated_as else (self.name,)

    @property
    def simulator_name(self) -> str:
        """What simulations and their files call it."""
        return self.simulated_as or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A family of policies with common settings, in one table of the configuration."""

    name: str
    """Also the table of its settings, as in [parm]."""
    title: str
    audience: str
    """For whom it is, in a sentence."""
    citation: str
    variants: tuple[Variant, ...]
    settings: tuple[PolicySetting, ...] = ()
    needs_profiles: bool = False
    """Simulated jobs must say how they run at other sizes and caps."""

    def defaults(self) -> dict[str, Value]:
        """Every setting at its default."""
        return {setting.key: setting.default for setting in self.settings}

    def setting(self, key: str) -> PolicySetting | None:
        """A setting by its key; None if it has none of that name."""
        return next((one for one in self.settings if one.key == key), None)

    def settings_in(self, place: Place) -> tuple[PolicySetting, ...]:
        """Those that count there."""
        return tuple(one for one in self.settings if place in one.places)
