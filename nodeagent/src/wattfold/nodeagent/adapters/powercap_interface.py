"""One folder of a powercap zone: its limits behind one interface of the hardware, by their names.

A package may have two (intel-rapl and intel-rapl-mmio); `powercap` puts them together. Nothing is
decided here but which file is which limit.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass

from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.powercap_files import ZoneFiles

_CONSTRAINTS_MAX = 8
_ATTEMPTS = 8


_WINDOW_SHARE_MIN = 0.75
"""Time windows are kept as (1 + F/4) 2^Y units: the next lower one is at least this part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A setting that is not as it was when it was set. ``key`` is its folder and file."""

    key: str
    held: int
    found: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A zone as it is now: ``changes`` by somebody else, and why something could not be read.

    ``cap_uw``: as ``PowercapZone.read_cap_uw`` has it, None if it cannot be told.
    """

    cap_uw: int | None
    changes: tuple[Change, ...]
    unreadable: str


@dataclass(slots=True, kw_only=True)
class Readings:
    """What an interface shows now: numbers by file, and why the others could not be read.

    ``on``: whether its limits are enforced; None = unknown.
    """

    values: dict[str, int]
    on: bool | None = None
    failure: OSError | ValueError | None = None


class Interface:
    """One folder of a zone: its limits behind one interface of the hardware.

    ``held`` is what each setting showed after it was set; ``owed`` are those that were refused, and
    why.
    """

    def __init__(self, files: ZoneFiles, folder: str) -> None:
        self.folder = folder
        self._files = files
        indices = _constraints(files, folder)
        self._long = indices.get("long_term")
        self._short = indices.get("short_term")
        self.held: dict[str, int] = {}
        self.owed: dict[str, str] = {}
        self.windows: dict[str, int] = {}
        """Time windows to keep, by file: those found before the first write."""

    @property
    def caps(self) -> bool:
        """Whether it has limits; energy-only zones have none."""
        return self._long is not None

    def limit_files(self) -> list[str]:
        """The limits that are set, long-term first."""
        found = [self._long, self._short]
        return [f"{constraint}_power_limit_uw" for constraint in found if constraint]

    def read(self, file: str) -> int:
        """A number. Raises OSError, ValueError."""
        return int(self._files.read(self.folder, file))

    def write(self, file: str, value: int) -> None:
        """Raises OSError."""
        self._files.write(self.folder, file, str(value))

    def limit_uw(self) -> int:
        """The long-term limit. Raises OSError, ValueError."""
        return self.read(f"{self._long}_power_limit_uw")

    def max_uw(self) -> int:
        """The highest limit by the hardware's own word. Raises OSError, ValueError."""
        return self.read(f"{self._long}_max_power_uw")

    def min_uw(self) -> int:
        """The lowest limit; GPUs tell it, powercap does not. Raises OSError, ValueError."""
        return self.read(f"{self._long}_min_power_uw")

    @property
    def window_file(self) -> str:
        """The time window of the long-term limit."""
        return f"{self._long}_time_window_us"

    def window_files(self) -> list[str]:
        """The time windows of the limits that are set; some interfaces have none."""
        return [file.replace("power_limit_uw", "time_window_us") for file in self.limit_files()]

    def window_us(self) -> int:
        """The time window of the long-term limit. Raises OSError, ValueError."""
        return self.read(self.window_file)

    def enabled(self) -> bool:
        """Whether its limits are enforced. A zone without the file always is. Raises OSError."""
        try:
            return self.read("enabled") != 0
        except FileNotFoundError:
            # Of a zone that has gone nothing is enforced: then this raises as well.
            self._files.read(self.folder, "name")
            return True

    def readings(self) -> Readings:
        """Everything that is set, or may be, as it is now."""
        found = Readings(values={})
        for file in (*self.limit_files(), *self.windows):
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
        """What is not as it was when it was set. Nothing of an interface that was never set."""
        changed = [
            Change(key=f"{self.folder}/{file}", held=held, found=found.values[file])
            for file, held in self.held.items()
            if found.values.get(file, held) != held
        ]
        if self.held and found.on is False and "enabled" not in self.owed:
            changed.append(Change(key=f"{self.folder}/enabled", held=1, found=0))
        return changed

    def set(self, cap_uw: int, unsaved: frozenset[str]) -> None:
        """Sets both limits, keeps their windows and switches them on, each on its own.

        Raises OSError, ValueError if the long-term limit is not set or not on; other settings that
        are refused are owed.
        """
        long_file, *short_files = self.limit_files()
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
        """Nothing is set any more."""
        self.held.clear()
        self.owed.clear()

    def _put(self, file: str, value: int) -> OSError | ValueError | None:
        """Writes a value and notes what the hardware made of it; the failure if it failed."""
        try:
            self.write(file, value)
            self.held[file] = self.read(file)
        except (OSError, ValueError) as error:
            self.owed[file] = str(error)
            return error
        self.owed.pop(file, None)
        return None

    def _keep_window(self, file: str, window_us: int) -> None:
        # Not written unless it has changed: a value that is read and written again may shift.
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
    """The most that a zone may draw on average through these interfaces; None if unknown.

    The lowest long-term limit that is on. Short-term ones count where they let more through than
    the cap that was set. If nothing is on, what the first would enforce; nothing that could not
    be read counts as off.
    """
    long_uws: dict[bool, list[int]] = {True: [], False: []}
    short_uws: list[int] = []
    for interface, reading in found:
        long_file, *short_files = interface.limit_files()
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
    """Whether a window is the one wanted as far as the hardware can hold it: never a longer one."""
    return wanted_us * _WINDOW_SHARE_MIN <= found_us <= wanted_us


def identity(files: ZoneFiles, folder: str, file: str) -> str:
    """What a folder or a limit is. Raises OSError.

    Tried again: whoever is not known is not looked at until the next start, and an interface that
    is overlooked may hold a zone below what is reported of it.
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
    """The start of the files of each limit, by its name: the number is not fixed."""
    found: dict[str, str] = {}
    for index in range(_CONSTRAINTS_MAX):
        try:
            name = identity(files, folder, f"constraint_{index}_name")
        except FileNotFoundError:
            continue
        except OSError as error:
            logs.warning("limit_name_unreadable", folder=folder, number=index, why=str(error))
            continue
        found.setdefault(name, f"constraint_{index}")
    return found
