"""Power zones through the Linux powercap interface (intel-rapl), by name and never by index.

It works on any tree of that shape, so emulated trees and GPUs need no special case. Packages, their
DRAM and GPUs are capped. ``psys`` contains the packages; it is shown but not used. A limit is
written to the long-term constraint and to the short-term constraint (if any), so that no burst
exceeds it. Time windows keep their original values. A package with a second interface
(intel-rapl-mmio) has limits in both. Both are set, and the lower limit is enforced. ``enabled`` is
written only if it reads 0. A driver that refuses a write (also because of a BIOS lock) answers
ENODATA, which is an error of one zone.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from wattfold.contract.ids import ZoneName
from wattfold.contract.units import NS_PER_US, w_from_uw
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.devices.msr import HardwareRange
from wattfold.nodeagent.adapters.devices.powercap_files import ZoneFiles
from wattfold.nodeagent.adapters.devices.powercap_interface import (
    Interface,
    Look,
    Readings,
    in_force_uw,
    kept_window,
)
from wattfold.nodeagent.adapters.devices.zone_ranges import (
    RangeSetting,
    hardware_max_uw,
    shortest_window_ns,
)
from wattfold.nodeagent.core.caps import (
    CAP_STEP_UW,
    CapRange,
    ZoneKind,
    quantised,
    quantised_up,
)

_REGISTER_UW_MAX = 0x7FFF * CAP_STEP_UW
"""The driver keeps 15 bits of steps: it accepts 4096 W without an error, and sets 0 W."""


class PowercapZone:
    """One zone by its role: its folders, its range and its capabilities."""

    def __init__(
        self, files: ZoneFiles, folders: list[str], name: ZoneName, kind: ZoneKind
    ) -> None:
        self.name = name
        self.kind = kind
        self.limits: CapRange | None = None
        self.draw_uw_max = 0
        """Maximum power without a cap, if it is known separately from the range."""
        self.rated_uw = 0
        """Maximum power that the hardware reports; 0 = not reported."""
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
        """The name of the first interface, as its files use it."""
        return self._all[0].folder

    @property
    def twins(self) -> list[str]:
        """The folders of the other interfaces."""
        return [interface.folder for interface in self._all[1:]]

    @property
    def limit_folder(self) -> str:
        """The folder of the first interface with limits, or else of the first interface."""
        return (self._capping or self._all)[0].folder

    def read_cap_uw(self) -> int:
        """Return the maximum average power permitted now, in microwatts.

        This is the lowest long-term limit of the enabled interfaces. It includes interfaces that
        are not written because their original limits could not be saved: their limits hold
        regardless. If a cap was set and the short-term limit is above it, the short-term limit
        counts. If no interface is enabled, it is the limit that the first interface would enforce.
        Raises OSError or ValueError.
        """
        return self._in_force(self._readings())

    def look(self) -> Look:
        """Compare all settings with their current values."""
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
        """Return the settings refused at the last write, by folder and file, with the reasons."""
        return {
            f"{interface.folder}/{file}": why
            for interface in self._capping
            for file, why in interface.owed.items()
        }

    def retry_owed(self, cap_uw: int) -> None:
        """Set interfaces with refused settings again. Settings that are refused again stay owed."""
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
        """Whether any interface enforces a limit. Raises OSError or ValueError."""
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
        """Return the raw energy counter, microjoules, and its age, nanoseconds.

        Hardware counters are as new as the reading. Emulated counters may move in steps, and their
        files carry the time. Raises OSError or ValueError.
        """
        text, age_ns = self._files.read_counter(self._meter.folder, "energy_uj")
        return int(text), age_ns

    def told(self, file: str) -> tuple[int | None, int]:
        """Return another reported value and its age, nanoseconds; None = not reported."""
        try:
            text, age_ns = self._files.read_counter(self._meter.folder, file)
            return int(text), age_ns
        except (OSError, ValueError):
            return None, 0

    def write_cap_uw(self, cap_uw: int) -> int:
        """Set the limits of all interfaces, enable them, and return the value read back.

        One interface that accepts the cap is enough, because the lower limit is enforced. Raises
        OSError or ValueError if no interface accepts it.
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
        """Whether a value of a used interface could not be saved, so that it is not set."""
        return bool(self._unsaved)

    def saved(self, values: dict[str, int]) -> None:
        """Take the values that can be restored. Other interfaces and limits are not written."""
        known = {self._key(name): value for name, value in values.items()}
        self._capping = self._restorable(known)
        self._unsaved = frozenset(
            f"{interface.folder}/{file}"
            for interface in self._capping
            for file in (*interface.limit_files, *interface.window_files)
            if self._files.may(interface.folder, file, os.R_OK)
            and f"{interface.folder}/{file}" not in known
        )
        for interface in self._capping:
            interface.windows = {
                file: known[f"{interface.folder}/{file}"]
                for file in interface.window_files
                if f"{interface.folder}/{file}" in known
            }
        if not self._capping and not self.cannot_cap:
            self.cannot_cap = (
                f"the limit of {self.folder} could not be saved, so it stays unchanged"
            )

    def can_restore(self, values: dict[str, int]) -> bool:
        """Whether these values are enough to cap the zone and to restore it later."""
        return bool(self._restorable({self._key(name): value for name, value in values.items()}))

    def _restorable(self, known: dict[str, int]) -> list[Interface]:
        return [
            interface
            for interface in self._all
            if interface.caps
            and f"{interface.folder}/{interface.limit_files[0]}" in known
            and self._switch_known(interface.folder, known)
        ]

    def _switch_known(self, folder: str, known: dict[str, int]) -> bool:
        """Whether a zone that must be enabled can be disabled again."""
        has_switch = self._files.may(folder, "enabled", os.R_OK)
        return not has_switch or f"{folder}/enabled" in known

    def floor_writes(self) -> list[tuple[Path, str]]:
        """Return the writes that bring the zone to its floor: absolute paths and values."""
        if self.cannot_cap or self.limits is None:
            return []
        found = []
        for interface in self._capping:
            limits = [
                self._files.path(interface.folder, file).absolute()
                for file in interface.limit_files
                if f"{interface.folder}/{file}" not in self._unsaved
            ]
            found += [(path, str(self.limits.floor_uw)) for path in limits]
            switch = self._files.path(interface.folder, "enabled").absolute()
            # With some drivers, the limit itself is the switch.
            if switch not in limits and self._files.may(interface.folder, "enabled", os.R_OK):
                found.append((switch, "1"))
        return found

    def snapshot(self) -> dict[str, int]:
        """Return the values to restore later, by folder and file. Unreadable files are left out."""
        values: dict[str, int] = {}
        for interface in [interface for interface in self._all if interface.caps]:
            for file in (*interface.limit_files, *interface.window_files, "enabled"):
                try:
                    values[f"{interface.folder}/{file}"] = interface.read(file)
                except (OSError, ValueError):
                    continue
        return values

    def limits_uw(self, values: dict[str, int]) -> tuple[list[int], list[int]]:
        """Return the enforced long-term and short-term limits of a snapshot."""
        known = {self._key(name): value for name, value in values.items()}
        found: tuple[list[int], list[int]] = [], []
        for interface in [interface for interface in self._all if interface.caps]:
            if not known.get(f"{interface.folder}/enabled", 1):
                continue
            for limits, file in zip(found, interface.limit_files, strict=False):
                if f"{interface.folder}/{file}" in known:
                    limits.append(known[f"{interface.folder}/{file}"])
        return found

    def restore(self, values: dict[str, int]) -> dict[str, str]:
        """Write the values of a snapshot separately. Returns the failures with their reasons.

        The zone then counts as not set, so later changes by others are not corrected.
        """
        self._set_uw = None
        for interface in self._all:
            interface.forget()
        failed: dict[str, str] = {}
        # Limits first: the zone is disabled last, so it is never without its limit.
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
        """Determine the capabilities of the zone: range, window and reasons.

        ``hardware`` is the range that the processor reports, if available.
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
        self.rated_uw = hardware_max_uw(self._capping, named.cap_uw_max or present_uw)
        uw_max = uw_max or self.rated_uw
        if not uw_max:
            self.cannot_cap = (
                f"the maximum cap of {self.name} is unknown: set"
                f" {self.kind.value}_max_w in the configuration"
            )
            return
        uw_max = min(uw_max, _REGISTER_UW_MAX)
        if uw_min is None and named.cap_uw_min < uw_max:
            uw_min = named.cap_uw_min or None
        # There is no file for the minimum. Without another source, it is a quarter of the maximum.
        uw_min = quantised_up(uw_max // 4 if uw_min is None else uw_min)
        floor_uw = uw_min if floor_uw is None else quantised(floor_uw)
        self.limits = CapRange(cap_uw_min=uw_min, cap_uw_max=quantised(uw_max), floor_uw=floor_uw)
        self.window_ns = shortest_window_ns(self._capping)

    def _describe_gpu(self, setting: RangeSetting) -> HardwareRange:
        """Return the driver's range, and store the maximum power of a GPU that cannot be capped."""
        uw_min = uw_max = 0
        if self.kind is not ZoneKind.GPU:
            return HardwareRange(cap_uw_min=0, cap_uw_max=0)
        for interface in self._capping:
            try:
                uw_min, uw_max = interface.min_uw(), interface.max_uw()
            except (OSError, ValueError) as error:
                logs.warning("gpu_range_unreadable", zone=self.name, reason=error)
        self.draw_uw_max = uw_max or setting.gpu_uw_max or 0
        return HardwareRange(cap_uw_min=uw_min, cap_uw_max=uw_max)

    def _window_ns_of(self, found: dict[str, Readings]) -> int:
        """Return the averaging window from these readings; 0 = not read."""
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
        """Return the key of a snapshot value. Older keys refer to the first folder."""
        return name if "/" in name else f"{self._all[0].folder}/{name}"
