"""Power states of nodes, and what a node may draw while no agent limits it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wattfold.contract.ids import NodeId


class PowerState(enum.Enum):
    """Whether a node has power. Orders wait in TIRED and CALLED until they can be carried out."""

    AWAKE = "awake"
    TIRED = "to-sleep"
    """Ordered to sleep. It takes no new jobs, and falls asleep once it has none."""
    FALLING = "falling-asleep"
    """Its suspension was started. It is charged as before until it is seen without power."""
    ASLEEP = "asleep"
    CALLED = "to-wake"
    """Ordered to wake. It is woken once its boot fits under the budget."""
    BOOTING = "booting"
    """Its start was ordered. It is charged with the most that a boot draws until it reports."""


class PowerOrder(enum.Enum):
    """The standing order of an operator about the power of a node; plans do not override it."""

    NONE = "none"
    SLEEP = "sleep"
    """The node stays asleep."""
    WAKE = "wake"
    """The node stays awake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerPlan:
    """The decision of a plan: nodes that fall asleep, wake, or have to be awake soon.

    ``needed`` are nodes of planned starts and reservations that are near. They do not fall asleep.
    """

    sleeps: tuple[NodeId, ...] = ()
    wakes: tuple[NodeId, ...] = ()
    needed: tuple[NodeId, ...] = ()


NO_CHANGE = PowerPlan()

SWITCHING = frozenset(PowerState) - {PowerState.AWAKE, PowerState.ASLEEP}
"""States with a step to come."""
SLEEPING = frozenset({PowerState.ASLEEP, PowerState.CALLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepSettings:
    """Power and times of sleeping and booting nodes, in microwatts and nanoseconds.

    ``boot_uw`` is the most that a node draws from the order to start until its agent reports, the
    time without caps included. ``boot_ns`` is the time after which a boot has failed, and
    ``suspend_ns`` the time after which a suspension is ordered again. At most ``boots_max`` nodes
    boot at once.

    With ``decides``, each plan also decides which nodes sleep. A node stays awake for
    ``awake_min_ns`` after a boot, unless its power is needed. A node with ``boots_a_day`` boots in
    24 hours does not fall asleep (0 = no limit). Boots raise the charge by at most ``ramp_uw`` per
    second (0 = no limit).
    """

    asleep_uw: int = 0
    boot_uw: int = 0
    boot_ns: int = 600_000_000_000
    suspend_ns: int = 300_000_000_000
    boots_max: int = 4
    decides: bool = False
    awake_min_ns: int = 300_000_000_000
    boots_a_day: int = 0
    ramp_uw: int = 0

    @property
    def possible(self) -> bool:
        """Whether the site has programs that switch nodes; they need a charge for boots."""
        return self.boot_uw > 0
