"""Power zones through the Linux powercap interface (intel-rapl), by name and never by index.

Works on any tree of that shape, so the emulated one is no special case. Only packages and their
DRAM are capped; ``psys`` contains the packages and is shown, not used. A limit is written to the
long-term constraint and to the short-term one, where there is one, so that no burst passes it.
A driver that refuses anything (also a BIOS lock) answers ENODATA: that is an error of one zone.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.ids import ZoneName
from wattfold.contract.units import NS_PER_US, w_from_uw
from wattfold.nodeagent import logs
from wattfold.nodeagent.core.caps import CapRange, ZoneKind, quantised, quantised_up

_FOLDER = re.compile(r"intel-rapl:[0-9a-f]+(:[0-9a-f]+)?\Z")
_PLAUSIBLE_UW_MAX = 2_000_000_000
"""Limits above 2 kW a package are the hardware's "unlimited", not a range."""
_CONSTRAINTS_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSetting:
    """Ranges from the configuration, for what the kernel does not tell; None = not given."""

    package_uw_min: int | None = None
    package_uw_max: int | None = None
    package_floor_uw: int | None = None
    dram_uw_min: int | None = None
    dram_uw_max: int | None = None
    dram_floor_uw: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One power limit of a zone."""

    index: int
    name: str


class PowercapZone:
    """One zone: its files, its range, and what it can do."""

    def __init__(self, path: Path, name: ZoneName, kind: ZoneKind) -> None:
        self.path = path
        self.name = name
        self.kind = kind
        self.limits: CapRange | None = None
        self.range_uj = 0
        self.window_ns = 0
        self.cannot_cap = ""
        self.cannot_measure = ""
        self.stamped = False
        self._constraints = _constraints(path)

    def read_cap_uw(self) -> int:
        """The long-term limit in force, microwatts. Raises OSError or ValueError."""
        return self._read(f"{self._long()}_power_limit_uw")

    def read_energy(self) -> tuple[int, int]:
        """The raw energy counter, microjoules, and the monotonic time it is for, nanoseconds.

        Hardware counters move all the time: theirs is the time of the reading. Emulated ones move
        in steps; their file says when it was written. Raises OSError or ValueError.
        """
        with (self.path / "energy_uj").open(encoding="ascii") as file:
            text = file.read(64)
            written_ns = os.fstat(file.fileno()).st_mtime_ns if self.stamped else 0
        now_ns = time.monotonic_ns()
        age_ns = max(time.time_ns() - written_ns, 0) if self.stamped else 0
        return int(text), now_ns - age_ns

    def enabled(self) -> bool:
        """Whether limits are enforced. A zone without the file always is."""
        try:
            return self._read("enabled") != 0
        except FileNotFoundError:
            return True

    def write_cap_uw(self, cap_uw: int) -> int:
        """Sets all limits of the zone and enables it; the value read back. Raises OSError."""
        self._write(f"{self._long()}_power_limit_uw", cap_uw)
        for constraint in self._constraints:
            if constraint.name == "short_term":
                self._write_short(constraint, cap_uw)
        if not self.enabled():
            self._write("enabled", 1)
        return self.read_cap_uw()

    def floor_writes(self) -> list[tuple[Path, str]]:
        """What brings the zone to its floor: files with absolute paths, and their values."""
        if self.cannot_cap or self.limits is None:
            return []
        folder, floor = self.path.absolute(), str(self.limits.floor_uw)
        found = [(folder / f"{self._long()}_power_limit_uw", floor)]
        found += [
            (folder / f"constraint_{c.index}_power_limit_uw", floor)
            for c in self._constraints
            if c.name == "short_term"
        ]
        if (folder / "enabled").exists():
            found.append((folder / "enabled", "1"))
        return found

    def snapshot(self) -> dict[str, int]:
        """Values to restore later, by file name. Files that cannot be read are left out."""
        values: dict[str, int] = {}
        for constraint in self._constraints:
            if constraint.name in ("long_term", "short_term"):
                self._note(values, f"constraint_{constraint.index}_power_limit_uw")
        self._note(values, "enabled")
        return values

    def restore(self, values: dict[str, int]) -> list[str]:
        """Writes the values of a snapshot, each on its own; what failed."""
        failed = []
        for file, value in sorted(values.items()):
            try:
                if self._read(file) != value:
                    self._write(file, value)
            except (OSError, ValueError) as error:
                failed.append(f"{self.path / file}: {error}")
        return failed

    def describe(self, setting: RangeSetting) -> None:
        """Finds out what the zone can do; fills range, window and reasons."""
        self._describe_energy()
        if self.kind is ZoneKind.PSYS:
            self.cannot_cap = "psys contains the packages; they are capped"
        elif not any(c.name == "long_term" for c in self._constraints):
            self.cannot_cap = f"{self.path.name} has no long_term constraint (energy only)"
        else:
            self._describe_caps(setting)

    def _describe_energy(self) -> None:
        try:
            self.range_uj = self._read("max_energy_range_uj")
            self.read_energy()
        except (OSError, ValueError) as error:
            self.cannot_measure = f"energy of {self.path.name} is unreadable: {error}"

    def _describe_caps(self, setting: RangeSetting) -> None:
        package = self.kind is ZoneKind.PACKAGE
        uw_min = setting.package_uw_min if package else setting.dram_uw_min
        uw_max = setting.package_uw_max if package else setting.dram_uw_max
        floor_uw = setting.package_floor_uw if package else setting.dram_floor_uw
        try:
            present_uw = self.read_cap_uw()
            uw_max = uw_max or self._hardware_max(present_uw)
            if not uw_max:
                self.cannot_cap = (
                    f"the highest cap of {self.name} is unknown: set"
                    f" {'package' if package else 'dram'}_max_w in the configuration"
                )
                return
            # There is no file for the minimum: a quarter of the maximum unless configured.
            uw_min = quantised_up(uw_max // 4 if uw_min is None else uw_min)
            floor_uw = uw_min if floor_uw is None else quantised(floor_uw)
            self.limits = CapRange(
                cap_uw_min=uw_min, cap_uw_max=quantised(uw_max), floor_uw=floor_uw
            )
            self.window_ns = self._read(f"{self._long()}_time_window_us") * NS_PER_US
        except OSError as error:
            self.cannot_cap = f"limits of {self.path.name} are unreadable: {error}"

    def _hardware_max(self, present_uw: int) -> int:
        try:
            uw_max = self._read(f"{self._long()}_max_power_uw")
        except (OSError, ValueError):
            uw_max = 0
        for candidate in (uw_max, present_uw):
            if 0 < candidate <= _PLAUSIBLE_UW_MAX:
                return candidate
        return 0

    def _long(self) -> str:
        for constraint in self._constraints:
            if constraint.name == "long_term":
                return f"constraint_{constraint.index}"
        raise OSError(f"{self.path} has no long_term constraint")

    def _write_short(self, constraint: Constraint, cap_uw: int) -> None:
        try:
            self._write(f"constraint_{constraint.index}_power_limit_uw", cap_uw)
        except OSError as error:
            logs.warning("short_term_limit_refused", zone=self.name, cap_uw=cap_uw, why=error)

    def _note(self, values: dict[str, int], file: str) -> None:
        try:
            values[file] = self._read(file)
        except (OSError, ValueError):
            return

    def _read(self, file: str) -> int:
        return int((self.path / file).read_text(encoding="ascii"))

    def _write(self, file: str, value: int) -> None:
        with open(self.path / file, "w", encoding="ascii") as handle:
            handle.write(str(value))


def discover(root: Path, setting: RangeSetting, *, stamped: bool = False) -> list[PowercapZone]:
    """Packages, DRAM and psys of a powercap tree, ordered by name. Empty without one.

    ``stamped``: the files of the tree carry the time their values are for (an emulated tree).
    """
    zones: dict[ZoneName, PowercapZone] = {}
    for folder in zone_folders(root):
        zone = zone_at(folder)
        if zone is None:
            continue
        if zone.name in zones:
            logs.warning("zone_twice", zone=zone.name, ignored=folder)
            continue
        zone.stamped = stamped
        try:
            zone.describe(setting)
        except ValueError as error:
            zone.cannot_cap = f"{folder.name}: {error}"
        zones[zone.name] = zone
        logs.info("zone_found", zone=zone.name, path=folder, range=_range_text(zone))
    return [zones[name] for name in sorted(zones)]


def zone_folders(root: Path) -> list[Path]:
    """The folders of the zones of the main interface, each once; none of intel-rapl-mmio."""
    # Children are links beside their parents in sysfs; a copied tree may have them inside only.
    top = sorted(p for p in root.glob("intel-rapl:*") if _FOLDER.match(p.name))
    inner = sorted(p for p in root.glob("intel-rapl:*/intel-rapl:*") if _FOLDER.match(p.name))
    return list({path.resolve(): path for path in [*top, *inner]}.values())


def zone_at(folder: Path) -> PowercapZone | None:
    """The zone of a folder, not yet described. None for one the agent has no use for."""
    name = _zone_label(folder)
    if name.startswith("package-"):
        return PowercapZone(folder, ZoneName(name), ZoneKind.PACKAGE)
    if name == "dram":
        parent = _zone_label(folder.resolve().parent)
        if not parent:
            parent = _zone_label(folder.parent / folder.name.rpartition(":")[0])
        suffix = parent.removeprefix("package-")
        return PowercapZone(folder, ZoneName(f"dram-{suffix}"), ZoneKind.DRAM) if parent else None
    if name.startswith("psys"):
        return PowercapZone(folder, ZoneName(name), ZoneKind.PSYS)
    return None


def _zone_label(folder: Path) -> str:
    try:
        return (folder / "name").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _constraints(path: Path) -> list[Constraint]:
    found = []
    for index in range(_CONSTRAINTS_MAX):
        try:
            name = (path / f"constraint_{index}_name").read_text(encoding="ascii").strip()
        except OSError:
            continue
        found.append(Constraint(index=index, name=name))
    return found


def _range_text(zone: PowercapZone) -> str:
    if zone.limits is None:
        return zone.cannot_cap
    limits = zone.limits
    return f"{w_from_uw(limits.cap_uw_min)}..{w_from_uw(limits.cap_uw_max)}W"
