"""What a machine to emulate looks like: its zones, their limits, its load, and who disturbs it.

Only data, as a fixture gives it. How it behaves is in ``tree_model``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

LIMIT_UW_MAX = 4_095_875_000
"""The highest limit the register holds: 15 bits of eighths of a watt."""


class Origin(enum.Enum):
    """Where a value of a fixture comes from."""

    CAPTURED = "captured"
    PUBLISHED = "published"
    DERIVED = "derived"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintSpec:
    """One limit of a zone at the start. None: reading or writing the file gives ENODATA.

    The firmware holds the power within ``clip_uw_min`` and ``clip_uw_max``, whatever was written;
    with ``clip_shown`` the register shows what it holds, else what was written.
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
    """Somebody or something that acts by itself: another writer, or a zone that goes away.

    Every ``every_ns`` (once, at that time, if ``once``): ``value_uw`` is put into the constraint of
    this name; None takes the zone away for ``absent_ns``.
    """

    folder: str
    every_ns: int
    constraint: str = ""
    value_uw: int | None = None
    absent_ns: int = 0
    once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine to emulate. ``load`` is the share of the full power it asks for, 0 to 1."""

    title: str
    source: str
    zones: tuple[ZoneSpec, ...]
    vendor: str = "GenuineIntel"
    load: float = 0.5
    package_uw_min: int | None = None
    dram_uw_min: int | None = None
    disturbances: tuple[Disturbance, ...] = ()
