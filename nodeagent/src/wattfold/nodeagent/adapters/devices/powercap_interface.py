"""One folder of a powercap zone: its limits at one hardware interface, by their names.

A package may have two folders (intel-rapl and intel-rapl-mmio), which `powercap` combines. This
module only knows which file is which limit.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass

from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.devices.powercap_files import ZoneFiles

_CONSTRAINTS_MAX = 8
_ATTEMPTS = 8


_WINDOW_SHARE_MIN = 0.75
"""Time windows are stored as (1 + F/4) 2^Y units. The next lower window is at least this share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A setting whose value has changed since it was set. ``key`` is its folder and file."""

    key: str
    held: int
    found: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Current state of a zone: ``changes`` by other programs, and why a value is unreadable.

    ``cap_uw``: see ``PowercapZone.read_cap_uw``; None = unknown.
    """

    cap_uw: int | None
    changes: tuple[Change, ...]
    unreadable: str


@dataclass(slots=True, kw_only=True)
class Readings:
    """Current values of an interface by file, and why other values could not be read.

    ``on``: whether its limits are enforced; None = unknown.
    """

    values: dict[str, int]
    on: bool | None = None
    failure: OSError | ValueError | None = None


class Interface:
    """One folder of a zone: its limits at one hardware interface.

    ``held`` are the values of the settings read back after the write. ``owed`` are the refused
    settings with the reasons.
    """

    def __init__(self, files: ZoneFiles, folder: str) -> None:
        self.folder = folder
        self._files = files
        indices = _constraints(files, folder)
        self._long = indices.get("long_term")
        constraints = [c for c in (self._long, indices.get("short_term")) if c]
        self.limit_files = tuple(f"{constraint}_power_limit_uw" for constraint in constraints)
        """The limits that are set, long-term first."""
        self.window_files = tuple(f"{constraint}_time_window_us" for constraint in constraints)
        """The time windows of the limits that are set. Some interfaces have none."""
        self.held: dict[str, int] = {}
        self.owed: dict[str, str] = {}
        self.windows: dict[str, int] = {}
        """Time windows to keep, by file: the values before the first write."""

    @property
    def caps(self) -> bool:
        """Whether it has limits; energy-only zones have none."""
        return self._long is not None

    def read(self, file: str) -> int:
        """Return a number. Raises OSError, ValueError."""
        return int(self._files.read(self.folder, file))

    def write(self, file: str, value: int) -> None:
        """Write a number. Raises OSError."""
        self._files.write(self.folder, file, str(value))

    def limit_uw(self) -> int:
        """Return the long-term limit. Raises OSError, ValueError."""
        return self.read(f"{self._long}_power_limit_uw")

    def max_uw(self) -> int:
        """Return the maximum limit that the hardware reports. Raises OSError, ValueError."""
        return self.read(f"{self._long}_max_power_uw")

    def min_uw(self) -> int:
        """Return the minimum limit. Only GPUs report it. Raises OSError, ValueError."""
        return self.read(f"{self._long}_min_power_uw")

    @property
    def window_file(self) -> str:
        """File of the time window of the long-term limit."""
        return f"{self._long}_time_window_us"

    def window_us(self) -> int:
        """Return the time window of the long-term limit. Raises OSError, ValueError."""
        return self.read(self.window_file)

    def enabled(self) -> bool:
        """Whether its limits are enforced; always, without the file. Raises OSError, ValueError."""
        try:
            return self.read("enabled") != 0
        except FileNotFoundError:
            # A missing zone enforces nothing. In that case this read raises as well.
            self._files.read(self.folder, "name")
            return True

    def readings(self) -> Readings:
        """Return the current values of all settings."""
        found = Readings(values={})
        for file in (*self.limit_files, *self.windows):
            try:
                found.values[file] = self.read(file)
            except (OSError, ValueError) as error:
                found.failure = found.failure or error
        try:
            found.on = self.enabled()
        except (OSError, ValueError) as error:
            found.failure = found.failure or error
        return found

    def changes(self, found: Readings) -> list[Change]:
        """Return the settings changed since they were set; empty before the first write."""
        changed = [
            Change(key=f"{self.folder}/{file}", held=held, found=found.values[file])
            for file, held in self.held.items()
            if found.values.get(file, held) != held
        ]
        if self.held and found.on is False and "enabled" not in self.owed:
            changed.append(Change(key=f"{self.folder}/enabled", held=1, found=0))
        return changed

    def set(self, cap_uw: int, unsaved: frozenset[str]) -> None:
        """Set both limits, keep their windows and enable them, each separately.

        Raises OSError or ValueError if the long-term limit is not set or not enabled. Other refused
        settings are owed.
        """
        long_file, *short_files = self.limit_files
        failure = self._put(long_file, cap_uw)
        for file in short_files:
            if f"{self.folder}/{file}" not in unsaved:
                self._put(file, cap_uw)
        for file, window_us in self.windows.items():
            self._keep_window(file, window_us)
        failure = failure or self._switch_on()
        if failure is not None:
            raise failure

    def forget(self) -> None:
        """Forget all settings."""
        self.held.clear()
        self.owed.clear()

    def _put(self, file: str, value: int) -> OSError | ValueError | None:
        """Write a value and store the value read back. Returns the failure, if any."""
        try:
            self.write(file, value)
            self.held[file] = self.read(file)
        except (OSError, ValueError) as error:
            self.owed[file] = str(error)
            return error
        self.owed.pop(file, None)
        return None

    def _keep_window(self, file: str, window_us: int) -> None:
        # Written only after a change: a value that is read and written again may shift.
        try:
            found_us = self.read(file)
            if found_us != self.held.get(file, window_us):
                self.write(file, window_us)
                found_us = self.read(file)
        except (OSError, ValueError) as error:
            self.owed[file] = str(error)
            return
        self.held[file] = found_us
        if kept_window(window_us, found_us):
            self.owed.pop(file, None)
        else:
            self.owed[file] = f"reads {found_us} us after {window_us} us was written"

    def _switch_on(self) -> OSError | ValueError | None:
        try:
            if not self.enabled():
                self.write("enabled", 1)
                logs.info("limits_enabled", folder=self.folder)
                if not self.enabled():
                    raise OSError(errno.EIO, f"{self.folder}: limits stay disabled")
        except (OSError, ValueError) as error:
            self.owed["enabled"] = str(error)
            return error
        self.owed.pop("enabled", None)
        return None


def in_force_uw(found: Sequence[tuple[Interface, Readings]], set_uw: int | None) -> int | None:
    """Return the maximum average power that these interfaces permit; None if unknown.

    It is the lowest enabled long-term limit. Short-term limits count if they exceed the cap that
    was set. If no interface is enabled, it is the limit that the first interface would enforce,
    unless a value could not be read.
    """
    long_uws: dict[bool, list[int]] = {True: [], False: []}
    short_uws: list[int] = []
    for interface, reading in found:
        long_file, *short_files = interface.limit_files
        if reading.on is not None and long_file in reading.values:
            long_uws[reading.on].append(reading.values[long_file])
        if reading.on:
            short_uws += [reading.values[f] for f in short_files if f in reading.values]
    if not long_uws[True]:
        failed = any(reading.failure is not None for _, reading in found)
        return None if failed or not long_uws[False] else long_uws[False][0]
    long_uw, short_uw = min(long_uws[True]), min(short_uws, default=0)
    passed = set_uw is not None and short_uw > set_uw
    return max(long_uw, short_uw) if passed else long_uw


def kept_window(wanted_us: int, found_us: int) -> bool:
    """Whether a window is the requested window within the hardware's steps, and not longer."""
    return wanted_us * _WINDOW_SHARE_MIN <= found_us <= wanted_us


def identity(files: ZoneFiles, folder: str, file: str) -> str:
    """Return the identity of a folder or a limit. Raises OSError.

    The read is retried: an unidentified interface would be ignored until the next start, and it may
    hold a zone below its reported cap.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return files.read(folder, file)
        except FileNotFoundError:
            raise
        except OSError:
            continue
    return files.read(folder, file)


def _constraints(files: ZoneFiles, folder: str) -> dict[str, str]:
    """Return the file prefix of each limit by its name, because the numbers are not fixed."""
    found: dict[str, str] = {}
    for index in range(_CONSTRAINTS_MAX):
        try:
            name = identity(files, folder, f"constraint_{index}_name")
        except FileNotFoundError:
            continue
        except OSError as error:
            logs.warning("limit_name_unreadable", folder=folder, number=index, reason=str(error))
            continue
        found.setdefault(name, f"constraint_{index}")
    return found
