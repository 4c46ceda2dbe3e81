"""One folder of a powercap zone: its limits behind one interface of the hardware, by their names.

A package may have two (intel-rapl and intel-rapl-mmio); `powercap` puts them together. Nothing is
decided here but which file is which limit.
"""

from __future__ import annotations

import errno

from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.powercap_files import ZoneFiles

_CONSTRAINTS_MAX = 8
_ATTEMPTS = 8


class Interface:
    """One folder of a zone: its limits behind one interface of the hardware."""

    def __init__(self, files: ZoneFiles, folder: str) -> None:
        self.folder = folder
        self._files = files
        indices = _constraints(files, folder)
        self._long = indices.get("long_term")
        self._short = indices.get("short_term")
        self._told = False

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

    def window_us(self) -> int:
        """The time window of the long-term limit. Raises OSError, ValueError."""
        return self.read(f"{self._long}_time_window_us")

    def enabled(self) -> bool:
        """Whether its limits are enforced. A zone without the file always is. Raises OSError."""
        try:
            return self.read("enabled") != 0
        except FileNotFoundError:
            # Of a zone that has gone nothing is enforced: then this raises as well.
            self._files.read(self.folder, "name")
            return True

    def set(self, cap_uw: int, unsaved: frozenset[str]) -> None:
        """Sets both limits and switches them on. Raises OSError, ValueError."""
        long_file, *short_files = self.limit_files()
        self.write(long_file, cap_uw)
        for file in short_files:
            if f"{self.folder}/{file}" not in unsaved:
                self._set_short(file, cap_uw)
        if self.enabled():
            return
        self.write("enabled", 1)
        logs.info("limits_switched_on", folder=self.folder)
        if not self.enabled():
            raise OSError(errno.EIO, f"{self.folder}: limits stay switched off")

    def _set_short(self, file: str, cap_uw: int) -> None:
        try:
            self.write(file, cap_uw)
            self._told = False
        except OSError as error:
            if not self._told:
                logs.warning("short_term_limit_refused", folder=self.folder, why=error)
            self._told = True


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
            logs.warning("limit_without_name", folder=folder, number=index, why=str(error))
            continue
        found.setdefault(name, f"constraint_{index}")
    return found
