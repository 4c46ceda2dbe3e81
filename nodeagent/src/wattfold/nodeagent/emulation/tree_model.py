"""The powercap tree as a state machine: each read or write of an attribute gives a value or errno.

It behaves like Linux' powercap core and intel_rapl driver, with the firmware behind them:

- A limit is rounded down to 125 mW and stored in 15 bits. So 4096 W becomes 0 W without an error.
- Writes that the driver refuses, such as to a locked limit, give ENODATA. A refused ``enabled``
  gives ENOSYS.
- ``enabled`` switches all limits of a zone at once. It reads 0 if the long-term limit is locked.
- A time window is stored as (1 + F/4) 2^Y units of 976 us, so a value may shift if it is read and
  written again.
- The firmware clips limits, and the power follows over the averaging window.
- Energy counters advance with the power and wrap. Two interfaces share the hardware of a name, and
  the lower limit is enforced.

There are no files, threads or clock: :meth:`TreeModel.advance` sets the time. ``OSError`` is the
error that a system call would give.
"""

from __future__ import annotations

import errno
import math
import os
from dataclasses import dataclass, field

from wattfold.contract.units import NS_PER_S, NS_PER_US
from wattfold.nodeagent.core.caps import CAP_STEP_UW
from wattfold.nodeagent.emulation.machine import ConstraintSpec, Disturbance, Machine, ZoneSpec

REGISTER_MASK = 0x7FFF
WINDOW_UNIT_US = 976
_U64_MAX = 2**64 - 1
_SHARE_OF_WINDOW = 4
"""The time constant of the power after a change of the limit, as a part of the window."""
_TRUE = ("1", "y", "Y", "on")
_FALSE = ("0", "n", "N", "off")


def failure(number: int) -> OSError:
    """Return the error of a system call."""
    return OSError(number, os.strerror(number))


def held_limit_uw(written_uw: int) -> int:
    """Return the limit as the register stores it."""
    return (written_uw // CAP_STEP_UW & REGISTER_MASK) * CAP_STEP_UW


def held_window_us(written_us: int) -> int:
    """Return the time window as the register stores it."""
    units = max(written_us // WINDOW_UNIT_US, 1)
    y = min(units.bit_length() - 1, 31)
    f = 4 * (units - (1 << y)) >> y
    return (1 << y) * (4 + min(f, 3)) * WINDOW_UNIT_US // 4


@dataclass(slots=True)
class Limit:
    """Current state of one constraint."""

    spec: ConstraintSpec
    limit_uw: int | None
    window_us: int | None
    locked: bool

    def held_uw(self) -> int | None:
        """Return the limit that the firmware enforces if the zone is enabled."""
        if self.limit_uw is None:
            return None
        return min(max(self.limit_uw, self.spec.clip_uw_min), self.spec.clip_uw_max)


@dataclass(slots=True)
class Zone:
    """Current state of one zone. ``faults``: the errnos of the next accesses, by file."""

    spec: ZoneSpec
    enabled: bool
    limits: list[Limit]
    files: dict[str, int]
    present: bool = True
    faults: dict[str, list[int]] = field(default_factory=dict)


@dataclass(slots=True)
class _Supply:
    """The hardware behind all zones of one name and socket."""

    energy_uj: float
    power_uw: float


@dataclass(slots=True)
class _Timer:
    of: Disturbance
    due_ns: int


class TreeModel:
    """The tree of one machine. Not locked: one caller at a time."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.load = machine.load
        self.now_ns = 0
        self.writes = 0
        self.zones = {spec.folder: _zone(spec) for spec in machine.zones}
        self._types = list(dict.fromkeys(spec.control_type for spec in machine.zones))
        parents = {z.folder: z.name for z in machine.zones}
        self._names = {z.folder: f"{parents.get(z.parent, '')}/{z.name}" for z in machine.zones}
        self._supplies = {
            self._supply_of(spec): _Supply(energy_uj=spec.energy_uj or 0, power_uw=spec.idle_uw)
            for spec in reversed(machine.zones)
        }
        self._limits: dict[tuple[str, str], list[tuple[Zone, Limit]]] = {}
        for zone in self.zones.values():
            for limit in zone.limits:
                key = (self._supply_of(zone.spec), limit.spec.name)
                self._limits.setdefault(key, []).append((zone, limit))
        self._timers = [_Timer(d, d.every_ns) for d in machine.disturbances]
        self._returns: list[tuple[int, str]] = []

    def folders(self) -> list[str]:
        """Return the control types and the zones that are not removed."""
        return [*self._types, *(f for f, zone in self.zones.items() if zone.present)]

    def files(self, folder: str) -> dict[str, int]:
        """Return the attributes of a folder and their permission bits. Raises ENOENT."""
        known = self.zones.get(folder)
        if not known.present if known else folder not in self._types:
            raise failure(errno.ENOENT)
        return known.files if known else {"enabled": 0o644}

    def read(self, folder: str, file: str) -> str:
        """Return the text of an attribute, without a newline. Raises OSError."""
        zone = self._enter(folder, file)
        if zone is None:
            return "1"
        if file == "name":
            return zone.spec.name
        if file == "enabled":
            locked = any(m.locked for m in zone.limits if m.spec.name == "long_term")
            return "1" if zone.enabled and not locked else "0"
        if file == "max_energy_range_uj":
            return str(zone.spec.energy_range_uj)
        if file == "energy_uj":
            return str(self.energy_uj(folder))
        limit, what = _limit_file(zone, file)
        shown = {
            "name": limit.spec.name,
            "power_limit_uw": limit.limit_uw,
            "max_power_uw": limit.spec.max_uw,
            "time_window_us": limit.window_us,
        }[what]
        if shown is None:
            raise failure(errno.ENODATA)
        return str(shown)

    def write(self, folder: str, file: str, text: str) -> None:
        """Write an attribute. Raises OSError without a change."""
        # The kernel reads a C string; powercap-utils write whole buffers.
        text = text.partition("\0")[0]
        zone = self._enter(folder, file)
        if not self.files(folder)[file] & 0o200:
            raise failure(errno.EACCES)
        if file == "enabled":
            self._write_enabled(zone, text.strip())
            return
        assert zone is not None
        limit, what = _limit_file(zone, file)
        value = _unsigned(text)
        if limit.locked:
            raise failure(errno.ENODATA)
        if what == "power_limit_uw":
            if limit.limit_uw is None:
                raise failure(errno.ENODATA)
            self.set_limit(folder, limit.spec.name, value)
        else:
            if limit.window_us is None:
                raise failure(errno.ENODATA)
            limit.window_us = held_window_us(value)
        self.writes += 1

    def set_limit(self, folder: str, constraint: str, value_uw: int) -> None:
        """Write a limit into the register, like the driver, or like firmware by itself."""
        limit = next(m for m in self.zones[folder].limits if m.spec.name == constraint)
        limit.limit_uw = held_limit_uw(value_uw)
        if limit.spec.clip_shown:
            limit.limit_uw = limit.held_uw()

    def fail_next(self, folder: str, file: str, number: int, times: int = 1) -> None:
        """Let the next accesses to a file fail with this errno."""
        self.zones[folder].faults.setdefault(file, []).extend([number] * times)

    def vanish(self, folder: str) -> None:
        """Remove a zone and its children (package offline, driver unloaded) with their limits."""
        for name, zone in self.zones.items():
            if name == folder or name.startswith(folder + ":"):
                zone.present = zone.enabled = False

    def appear(self, folder: str) -> None:
        """Restore a removed zone, disabled."""
        for name, zone in self.zones.items():
            if name == folder or name.startswith(folder + ":"):
                zone.present = True

    def advance(self, elapsed_ns: int) -> None:
        """Advance the time: disturbances first, then energy by the resulting power."""
        goal_ns = self.now_ns + max(elapsed_ns, 0)
        while True:
            dues = [t.due_ns for t in self._timers] + [due for due, _ in self._returns]
            step_ns = min([goal_ns, *dues])
            self._draw(max(step_ns - self.now_ns, 0))
            self.now_ns = max(self.now_ns, step_ns)
            if not self._disturb() and self.now_ns >= goal_ns:
                return

    def energy_uj(self, folder: str) -> int:
        """Return the counter of a zone. Raises ENODATA if it is unreadable."""
        spec = self.zones[folder].spec
        if spec.energy_uj is None:
            raise failure(errno.ENODATA)
        return int(self._supplies[self._supply_of(spec)].energy_uj) % spec.energy_range_uj

    def power_uw(self, folder: str) -> int:
        """Return the current power of a zone."""
        return int(self._supplies[self._supply_of(self.zones[folder].spec)].power_uw)

    def enforced_uw(self, folder: str) -> int | None:
        """Return the limit enforced for the hardware of a zone by any interface; None = no limit.

        Long-term limits only. A lower short-term limit reduces the power further.
        """
        return self._lowest(self._supply_of(self.zones[folder].spec), "long_term")

    def burst_uw(self, folder: str) -> int | None:
        """Return the enforced limit of short bursts; None = no limit."""
        return self._lowest(self._supply_of(self.zones[folder].spec), "short_term")

    def set_window(self, folder: str, constraint: str, value_us: int) -> None:
        """Write a time window into the register, like the driver, if there is one."""
        limit = next(m for m in self.zones[folder].limits if m.spec.name == constraint)
        if limit.window_us is not None:
            limit.window_us = held_window_us(value_us)

    def _lowest(self, supply: str, constraint: str) -> int | None:
        lowest: int | None = None
        for zone, limit in self._limits.get((supply, constraint), ()):
            if zone.enabled and zone.present:
                held_uw = limit.held_uw()
                if held_uw is not None and (lowest is None or held_uw < lowest):
                    lowest = held_uw
        return lowest

    def _enter(self, folder: str, file: str) -> Zone | None:
        if file not in self.files(folder):
            raise failure(errno.ENOENT)
        zone = self.zones.get(folder)
        if zone is not None and zone.faults.get(file):
            raise failure(zone.faults[file].pop(0))
        return zone

    def _write_enabled(self, zone: Zone | None, text: str) -> None:
        if text not in _TRUE + _FALSE:
            raise failure(errno.EINVAL)
        if zone is None:
            return
        refuses = zone.spec.enable_fails or any(limit.locked for limit in zone.limits)
        if refuses or not zone.limits:
            raise failure(errno.ENOSYS)
        zone.enabled = text in _TRUE
        self.writes += 1

    def _supply_of(self, spec: ZoneSpec) -> str:
        return self._names[spec.folder]

    def _draw(self, elapsed_ns: int) -> None:
        if elapsed_ns == 0:
            return
        elapsed_s = elapsed_ns / NS_PER_S
        seen: set[str] = set()
        for zone in self.zones.values():
            name = self._supply_of(zone.spec)
            if name in seen or not zone.spec.full_uw:
                continue
            seen.add(name)
            supply, goal_uw = self._supplies[name], self._goal_uw(zone.spec, name)
            tau_s = self._window_ns(zone) / _SHARE_OF_WINDOW / NS_PER_S
            past = math.exp(-elapsed_s / tau_s) if tau_s else 0.0
            gap_uw = supply.power_uw - goal_uw
            supply.energy_uj += goal_uw * elapsed_s + gap_uw * tau_s * (1 - past)
            supply.energy_uj %= zone.spec.energy_range_uj
            supply.power_uw = goal_uw + gap_uw * past

    def _goal_uw(self, spec: ZoneSpec, supply: str) -> float:
        wanted = spec.idle_uw + min(max(self.load, 0.0), 1.0) * (spec.full_uw - spec.idle_uw)
        for constraint in ("long_term", "short_term"):
            limit_uw = self._lowest(supply, constraint)
            if limit_uw is not None:
                wanted = min(wanted, limit_uw)
        # No cap reduces the power below idle.
        return max(wanted, spec.idle_uw)

    def _window_ns(self, zone: Zone) -> int:
        windows = [m.window_us for m in zone.limits if m.spec.name == "long_term"]
        return (windows[0] or 0) * NS_PER_US if windows else 0

    def _disturb(self) -> bool:
        acted = False
        for due_ns, folder in list(self._returns):
            if due_ns <= self.now_ns:
                self._returns.remove((due_ns, folder))
                self.appear(folder)
                acted = True
        for timer in list(self._timers):
            if timer.due_ns > self.now_ns:
                continue
            acted = True
            if timer.of.once:
                self._timers.remove(timer)
            timer.due_ns += timer.of.every_ns
            self._act(timer.of)
        return acted

    def _act(self, what: Disturbance) -> None:
        if what.value_uw is not None:
            self.set_limit(what.folder, what.constraint, what.value_uw)
            return
        self.vanish(what.folder)
        if what.absent_ns:
            self._returns.append((self.now_ns + what.absent_ns, what.folder))


def _zone(spec: ZoneSpec) -> Zone:
    limits = [
        Limit(spec=c, limit_uw=c.limit_uw, window_us=c.window_us, locked=c.locked)
        for c in spec.constraints
    ]
    files = {"name": 0o444, "enabled": 0o644, "energy_uj": 0o400, "max_energy_range_uj": 0o444}
    for index in range(len(limits)):
        files |= {
            f"constraint_{index}_name": 0o444,
            f"constraint_{index}_power_limit_uw": 0o644,
            f"constraint_{index}_max_power_uw": 0o444,
            f"constraint_{index}_time_window_us": 0o644,
        }
    return Zone(spec=spec, enabled=spec.enabled, limits=limits, files=files)


def _limit_file(zone: Zone, file: str) -> tuple[Limit, str]:
    _, index, what = file.split("_", 2)
    return zone.limits[int(index)], what


def _unsigned(text: str) -> int:
    stripped = text.strip()
    if not stripped.isascii() or not stripped.isdigit():
        raise failure(errno.EINVAL)
    value = int(stripped)
    if value > _U64_MAX:
        raise failure(errno.ERANGE)
    return value
