"""Description of a machine to emulate: its zones, limits, load and disturbances.

It contains only the data of a fixture. Its behaviour is in ``tree_model``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

LIMIT_UW_MAX = 4_095_875_000
"""The highest limit that the register holds: 15 bits of eighths of a watt."""


class Origin(enum.Enum):
    """Origin of a value of a fixture."""

    CAPTURED = "captured"
    PUBLISHED = "published"
    DERIVED = "derived"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintSpec:
    """One limit of a zone at the start. None: reading or writing the file gives ENODATA.

    The firmware holds the power between ``clip_uw_min`` and ``clip_uw_max``, whatever was written.
    With ``clip_shown`` the register shows the clipped value, otherwise the written value.
    """

    name: str
    limit_uw: int | None
    max_uw: int | None = None
    window_us: int | None = None
    clip_uw_min: int = 0
    clip_uw_max: int = LIMIT_UW_MAX
    clip_shown: bool = False
    locked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSpec:
    """One zone at the start. Power without a cap is ``idle_uw`` to ``full_uw``, by the load.

    ``energy_uj`` None: the counter cannot be read. ``enable_fails``: writing ``enabled`` gives
    ENOSYS. Zones with the same name are the same hardware behind two interfaces.
    """

    folder: str
    name: str
    enabled: bool
    energy_uj: int | None
    energy_range_uj: int
    constraints: tuple[ConstraintSpec, ...] = ()
    enable_fails: bool = False
    idle_uw: int = 0
    full_uw: int = 0

    @property
    def control_type(self) -> str:
        """The interface: intel-rapl or intel-rapl-mmio."""
        return self.folder.partition(":")[0]

    @property
    def parent(self) -> str:
        """The folder above: a zone or the control type."""
        return self.folder.rpartition(":")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """An event from outside: a write by another program, or a zone that disappears.

    Every ``every_ns`` (once, at that time, if ``once``), ``value_uw`` is written to the constraint
    of this name. With None, the zone disappears for ``absent_ns``.
    """

    folder: str
    every_ns: int
    constraint: str = ""
    value_uw: int | None = None
    absent_ns: int = 0
    once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine to emulate. ``load`` is its requested share of the full power, 0 to 1."""

    title: str
    source: str
    zones: tuple[ZoneSpec, ...]
    vendor: str = "GenuineIntel"
    load: float = 0.5
    package_uw_min: int | None = None
    dram_uw_min: int | None = None
    disturbances: tuple[Disturbance, ...] = ()
