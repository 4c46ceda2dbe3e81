"""Power zones through the Linux powercap interface (intel-rapl), by name and never by index.

Works on any tree of that shape, so an emulated one is no special case, nor are GPUs, which are
shown in it. Packages, their DRAM and GPUs are capped; ``psys`` contains the packages and is shown,
not used. A limit is written to the long-term constraint and to the short-term one, where there is
one, so that no burst passes it; time windows are kept as they were found. A package with a second
interface (intel-rapl-mmio) has limits in both: both are set, and the lower one is what is enforced.
``enabled`` is written only where it reads 0. A driver that refuses anything (also a BIOS lock)
answers ENODATA: that is an error of one zone.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.ids import ZoneName
from wattfold.contract.units import NS_PER_S, NS_PER_US, w_from_uw
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.msr import HardwareRange, MsrRanges
from wattfold.nodeagent.adapters.powercap_files import RealFiles, ZoneFiles
from wattfold.nodeagent.adapters.powercap_interface import (
    Interface,
    Look,
    Readings,
    identity,
    in_force_uw,
    kept_window,
)
from wattfold.nodeagent.core.caps import (
    CAP_STEP_UW,
    CapRange,
    ZoneKind,
    quantised,
    quantised_up,
)

PLAUSIBLE_UW_MAX = 2_000_000_000
"""Limits above 2 kW a package are the hardware's "unlimited", not a range."""
_REGISTER_UW_MAX = 0x7FFF * CAP_STEP_UW
"""The driver keeps 15 bits of steps: it takes 4096 W without an error, and holds 0 W."""
_WINDOW_NS_UNKNOWN = NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSetting:
    """Ranges from the configuration, for what the kernel does not tell; None = not given."""

    package_uw_min: int | None = None
    package_uw_max: int | None = None
    package_floor_uw: int | None = None
    dram_uw_min: int | None = None
    dram_uw_max: int | None = None
    dram_floor_uw: int | None = None
    gpu_uw_max: int | None = None
    gpu_floor_uw: int | None = None

    def of(self, kind: ZoneKind) -> tuple[int | None, int | None, int | None]:
        """Lowest cap, highest cap and floor of zones of a kind."""
        if kind is ZoneKind.GPU:
            return None, self.gpu_uw_max, self.gpu_floor_uw
        if kind is ZoneKind.DRAM:
            return self.dram_uw_min, self.dram_uw_max, self.dram_floor_uw
        return self.package_uw_min, self.package_uw_max, self.package_floor_uw


class PowercapZone:
    """One zone by its role: the folders that show it, its range, and what it can do."""

    def __init__(
        self, files: ZoneFiles, folders: list[str], name: ZoneName, kind: ZoneKind
    ) -> None:
        self.name = name
        self.kind = kind
        self.limits: CapRange | None = None
        self.draw_uw_max = 0
        """The most it can draw if it is not capped, where that is known apart from the range."""
        self.range_uj = 0
        self.window_ns = 0
        self.cannot_cap = ""
        self.cannot_measure = ""
        self._files = files
        self._all = [Interface(files, folder) for folder in folders]
        self._capping = [interface for interface in self._all if interface.caps]
        self._meter = self._all[0]
        self._unsaved: frozenset[str] = frozenset()
        self._set_uw: int | None = None

    @property
    def path(self) -> Path:
        """The folder of the first interface."""
        return self._files.path(self._all[0].folder)

    @property
    def folder(self) -> str:
        """The first interface, as its files know it."""
        return self._all[0].folder

    @property
    def twins(self) -> list[str]:
        """The folders of the other interfaces."""
        return [interface.folder for interface in self._all[1:]]

    @property
    def limit_folder(self) -> str:
        """The folder of the first interface with limits, of the first one if none has."""
        return (self._capping or self._all)[0].folder

    def read_cap_uw(self) -> int:
        """The most that may be drawn on average, microwatts. Raises OSError or ValueError.

        The long-term limit, the lowest of the interfaces that are on. Also of one that is not
        touched because its original could not be saved: it holds all the same. Where a cap was set
        and the short-term limit is above it, that one. If no interface is on, what the first would
        enforce.
        """
        return self._in_force(self._readings())

    def look(self) -> Look:
        """Compares all that was set with what is there now."""
        found = self._readings()
        changes = [
            change
            for interface in self._capping
            for change in interface.changes(found[interface.folder])
        ]
        cap_uw: int | None = None
        failures = [f.failure for f in found.values() if f.failure is not None]
        try:
            cap_uw = self._in_force(found)
        except (OSError, ValueError) as error:
            failures.append(error)
        self.window_ns = self._window_ns_of(found) or self.window_ns
        unreadable = str(failures[0]) if failures else ""
        return Look(cap_uw=cap_uw, changes=tuple(changes), unreadable=unreadable)

    def owed(self) -> dict[str, str]:
        """Settings that were refused when they were set last, by folder and file, and why."""
        return {
            f"{interface.folder}/{file}": why
            for interface in self._capping
            for file, why in interface.owed.items()
        }

    def retry_owed(self, cap_uw: int) -> None:
        """Sets the interfaces again that refused something; what they refuse again stays owed."""
        self._set_uw = cap_uw
        for interface in [interface for interface in self._capping if interface.owed]:
            with contextlib.suppress(OSError, ValueError):
                interface.set(cap_uw, self._unsaved)

    def _readings(self) -> dict[str, Readings]:
        return {interface.folder: interface.readings() for interface in self._all if interface.caps}

    def _in_force(self, found: dict[str, Readings]) -> int:
        limiting = [interface for interface in self._all if interface.caps]
        uw = in_force_uw([(i, found[i.folder]) for i in limiting], self._set_uw)
        if uw is None:
            failed = next((f.failure for f in found.values() if f.failure is not None), None)
            raise failed or self._energy_only()
        return uw

    def enabled(self) -> bool:
        """Whether a limit is enforced, through any interface. Raises OSError or ValueError."""
        failed: Exception | None = None
        for interface in self._capping:
            try:
                if interface.enabled():
                    return True
            except (OSError, ValueError) as error:
                failed = failed or error
        if failed:
            raise failed
        return False

    def read_energy(self) -> tuple[int, int]:
        """The raw energy counter, microjoules, and its age, nanoseconds.

        Hardware counters are as new as the reading. Emulated ones may move in steps; then their
        file says when. Raises OSError or ValueError.
        """
        text, age_ns = self._files.read_counter(self._meter.folder, "energy_uj")
        return int(text), age_ns

    def told(self, file: str) -> tuple[int | None, int]:
        """Something else that is told of it, and its age, nanoseconds; None = it is not."""
        try:
            text, age_ns = self._files.read_counter(self._meter.folder, file)
            return int(text), age_ns
        except (OSError, ValueError):
            return None, 0

    def write_cap_uw(self, cap_uw: int) -> int:
        """Sets the limits of all interfaces and switches them on; the value read back.

        One interface that takes the cap is enough: the lower limit wins. Raises OSError, ValueError
        if none does.
        """
        if not 0 < cap_uw <= _REGISTER_UW_MAX:
            raise ValueError(f"{w_from_uw(cap_uw):g} W is outside the range of the register")
        self._set_uw = cap_uw
        failures: list[OSError | ValueError] = []
        for interface in self._capping:
            try:
                interface.set(cap_uw, self._unsaved)
            except (OSError, ValueError) as error:
                failures.append(error)
        if len(failures) == len(self._capping):
            raise failures[0] if failures else self._energy_only()
        return self.read_cap_uw()

    @property
    def incomplete(self) -> bool:
        """Whether something of an interface that is used could not be saved, so is not set."""
        return bool(self._unsaved)

    def saved(self, values: dict[str, int]) -> None:
        """Tells what can be restored: an interface or limit that is not among it is not touched."""
        known = {self._key(name): value for name, value in values.items()}
        self._capping = [
            interface
            for interface in self._all
            if interface.caps
            and f"{interface.folder}/{interface.limit_files()[0]}" in known
            and self._switch_known(interface.folder, known)
        ]
        self._unsaved = frozenset(
            f"{interface.folder}/{file}"
            for interface in self._capping
            for file in (*interface.limit_files(), *interface.window_files())
            if self._files.may(interface.folder, file, os.R_OK)
            and f"{interface.folder}/{file}" not in known
        )
        for interface in self._capping:
            interface.windows = {
                file: known[f"{interface.folder}/{file}"]
                for file in interface.window_files()
                if f"{interface.folder}/{file}" in known
            }
        if not self._capping and not self.cannot_cap:
            self.cannot_cap = (
                f"the limit of {self.folder} could not be saved, so it stays unchanged"
            )

    def _switch_known(self, folder: str, known: dict[str, int]) -> bool:
        """Whether a zone that must be switched on can be switched off again."""
        has_switch = self._files.may(folder, "enabled", os.R_OK)
        return not has_switch or f"{folder}/enabled" in known

    def floor_writes(self) -> list[tuple[Path, str]]:
        """What brings the zone to its floor: files with absolute paths, and their values."""
        if self.cannot_cap or self.limits is None:
            return []
        found = []
        for interface in self._capping:
            limits = [
                self._files.path(interface.folder, file).absolute()
                for file in interface.limit_files()
                if f"{interface.folder}/{file}" not in self._unsaved
            ]
            found += [(path, str(self.limits.floor_uw)) for path in limits]
            switch = self._files.path(interface.folder, "enabled").absolute()
            # Of some drivers the limit itself is the switch.
            if switch not in limits and self._files.may(interface.folder, "enabled", os.R_OK):
                found.append((switch, "1"))
        return found

    def snapshot(self) -> dict[str, int]:
        """Values to restore later, by folder and file. Files that cannot be read are left out."""
        values: dict[str, int] = {}
        for interface in [interface for interface in self._all if interface.caps]:
            for file in (*interface.limit_files(), *interface.window_files(), "enabled"):
                try:
                    values[f"{interface.folder}/{file}"] = interface.read(file)
                except (OSError, ValueError):
                    continue
        return values

    def long_limits_uw(self, values: dict[str, int]) -> list[int]:
        """The long-term limits of a snapshot that were enforced."""
        known = {self._key(name): value for name, value in values.items()}
        keys = [
            (f"{interface.folder}/{interface.limit_files()[0]}", f"{interface.folder}/enabled")
            for interface in self._all
            if interface.caps
        ]
        return [known[limit] for limit, on in keys if limit in known and known.get(on, 1)]

    def restore(self, values: dict[str, int]) -> dict[str, str]:
        """Writes the values of a snapshot, each on its own; what failed, and why.

        Nothing is set any more then: what somebody changes from now on is no change of ours.
        """
        self._set_uw = None
        for interface in self._all:
            interface.forget()
        failed: dict[str, str] = {}
        # Limits first: switched off last, a zone is never without a limit it had.
        for key in sorted(values, key=lambda key: (key.endswith("enabled"), key)):
            why = self._restore(key, values[key])
            if why:
                failed[key] = f"{self._files.path(*self._key(key).split('/'))}: {why}"
        return failed

    def _restore(self, key: str, value: int) -> str:
        folder, file = self._key(key).split("/")
        try:
            if int(self._files.read(folder, file)) == value:
                return ""
            self._files.write(folder, file, str(value))
            found = int(self._files.read(folder, file))
        except (OSError, ValueError) as error:
            return str(error)
        if found == value or (file.endswith("_time_window_us") and kept_window(value, found)):
            return ""
        return f"reads {found} after {value} was written"

    def describe(self, setting: RangeSetting, hardware: HardwareRange | None = None) -> None:
        """Finds out what the zone can do; fills range, window and reasons.

        ``hardware`` is what the processor says of its range, if it can be asked.
        """
        self._describe_energy()
        if self.kind is ZoneKind.PSYS:
            self.cannot_cap = "psys contains the packages, which are capped instead"
        elif not self._capping:
            self.cannot_cap = str(self._energy_only().strerror)
            self._describe_gpu(setting)
        else:
            self._describe_caps(setting, hardware)

    def _describe_energy(self) -> None:
        why: OSError | ValueError | None = None
        for interface in self._all:
            self._meter = interface
            try:
                self.range_uj = interface.read("max_energy_range_uj")
                self.read_energy()
            except (OSError, ValueError) as error:
                why = why or error
            else:
                return
        self._meter = self._all[0]
        self.cannot_measure = f"energy of {self.folder} is unreadable: {why}"

    def _describe_caps(self, setting: RangeSetting, hardware: HardwareRange | None) -> None:
        uw_min, uw_max, floor_uw = setting.of(self.kind)
        if self.kind is ZoneKind.GPU:
            hardware = self._describe_gpu(setting)
            uw_max = min(uw_max or hardware.cap_uw_max, hardware.cap_uw_max) or uw_max
        try:
            present_uw = self.read_cap_uw()
        except OSError as error:
            self.cannot_cap = f"limits of {self.folder} are unreadable: {error}"
            return
        named = hardware or HardwareRange(cap_uw_min=0, cap_uw_max=0)
        uw_max = uw_max or self._hardware_max(named.cap_uw_max or present_uw)
        if not uw_max:
            self.cannot_cap = (
                f"the maximum cap of {self.name} is unknown: set"
                f" {self.kind.value}_max_w in the configuration"
            )
            return
        uw_max = min(uw_max, _REGISTER_UW_MAX)
        if uw_min is None and named.cap_uw_min < uw_max:
            uw_min = named.cap_uw_min or None
        # There is no file for the minimum: a quarter of the maximum if nothing names it.
        uw_min = quantised_up(uw_max // 4 if uw_min is None else uw_min)
        floor_uw = uw_min if floor_uw is None else quantised(floor_uw)
        self.limits = CapRange(cap_uw_min=uw_min, cap_uw_max=quantised(uw_max), floor_uw=floor_uw)
        self.window_ns = self._window_ns()

    def _describe_gpu(self, setting: RangeSetting) -> HardwareRange:
        """The range by the driver's word; notes the most a GPU draws if it cannot be capped."""
        uw_min = uw_max = 0
        if self.kind is not ZoneKind.GPU:
            return HardwareRange(cap_uw_min=0, cap_uw_max=0)
        for interface in self._capping:
            try:
                uw_min, uw_max = interface.min_uw(), interface.max_uw()
            except (OSError, ValueError) as error:
                logs.warning("gpu_range_unreadable", zone=self.name, why=error)
        self.draw_uw_max = uw_max or setting.gpu_uw_max or 0
        return HardwareRange(cap_uw_min=uw_min, cap_uw_max=uw_max)

    def _hardware_max(self, present_uw: int) -> int:
        candidates = []
        for interface in self._capping:
            try:
                candidates.append(interface.max_uw())
            except (OSError, ValueError):
                continue
        for candidate in (*candidates, present_uw):
            if 0 < candidate <= PLAUSIBLE_UW_MAX:
                return candidate
        return 0

    def _window_ns(self) -> int:
        # All interfaces are set to the same cap: the one that averages over less time holds first.
        windows = []
        for interface in self._capping:
            try:
                windows.append(interface.window_us() * NS_PER_US)
            except (OSError, ValueError):
                continue
        return min(windows, default=_WINDOW_NS_UNKNOWN)

    def _window_ns_of(self, found: dict[str, Readings]) -> int:
        """The averaging window by what was read; 0 = it was not."""
        windows = [
            found[interface.folder].values[interface.window_file] * NS_PER_US
            for interface in self._capping
            if interface.window_file in found[interface.folder].values
        ]
        return min(windows, default=0)

    def _energy_only(self) -> OSError:
        what = f"{self.folder} has no long_term constraint (energy only)"
        return OSError(errno.ENODATA, what)

    def _key(self, name: str) -> str:
        """A key of a snapshot; those of earlier versions are of the first folder."""
        return name if "/" in name else f"{self._all[0].folder}/{name}"


def discover(
    root: Path | ZoneFiles,
    setting: RangeSetting,
    *,
    stamped: bool = False,
    ranges: MsrRanges | None = None,
) -> list[PowercapZone]:
    """Packages, DRAM and psys of a powercap tree, ordered by name. Empty without one.

    ``stamped``: the files of the tree carry the time their values are for (an emulated tree).
    ``ranges``: asked for what powercap does not tell; None where the tree is not this machine's.
    """
    files = RealFiles(root, stamped=stamped) if isinstance(root, Path) else root
    zones = []
    for zone in zones_of(files):
        try:
            zone.describe(setting, ranges.range_of(zone.name, zone.kind) if ranges else None)
        except ValueError as error:
            zone.cannot_cap = f"{zone.path.name}: {error}"
        zones.append(zone)
        logs.info(
            "zone_found",
            zone=zone.name,
            path=zone.path,
            twins=",".join(zone.twins) or "none",
            range=_range_text(zone),
        )
    return zones


def zones_of(files: ZoneFiles) -> list[PowercapZone]:
    """The zones the agent has a use for, not yet described, ordered by name."""
    folders: dict[tuple[ZoneName, ZoneKind], list[str]] = {}
    for folder in files.folders():
        role = _role(files, folder)
        if role is not None:
            folders.setdefault(role, []).append(folder)
    return [
        PowercapZone(files, found, name, kind)
        for (name, kind), found in sorted(folders.items(), key=lambda item: item[0][0])
    ]


def _role(files: ZoneFiles, folder: str) -> tuple[ZoneName, ZoneKind] | None:
    name = _zone_label(files, folder)
    if name.startswith("package-"):
        return ZoneName(name), ZoneKind.PACKAGE
    if name.startswith("gpu-"):
        return ZoneName(name), ZoneKind.GPU
    if name == "dram":
        parent = _zone_label(files, folder.rpartition(":")[0])
        suffix = parent.removeprefix("package-")
        return (ZoneName(f"dram-{suffix}"), ZoneKind.DRAM) if parent else None
    if name.startswith("psys"):
        return ZoneName(name), ZoneKind.PSYS
    return None


def _zone_label(files: ZoneFiles, folder: str) -> str:
    try:
        return identity(files, folder, "name")
    except FileNotFoundError:
        return ""
    except OSError as error:
        logs.warning("zone_name_unreadable", folder=folder, why=str(error))
        return ""


def _range_text(zone: PowercapZone) -> str:
    if zone.limits is None:
        return zone.cannot_cap
    limits = zone.limits
    return f"{w_from_uw(limits.cap_uw_min)}..{w_from_uw(limits.cap_uw_max)}W"
