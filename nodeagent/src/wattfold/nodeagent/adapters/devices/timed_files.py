"""Zones of devices that may respond slowly, with one thread per device.

A driver can block a call for seconds when its device is defective, and the renewal of the lease
must not wait for it. So the thread takes the readings, and they are returned with their age. A
reading that is too old is an error. Settings are passed to the thread, and the caller waits up to a
deadline. A setting that has not begun by then is dropped. A setting that has begun may take effect
any time later, so until the device answers, the reported limit is the higher of both.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.devices.powercap_files import ZoneFiles

DEADLINE_S = 0.25
"""Drivers take 10 to 20 ms to set a limit."""
FIRST_S = 5.0
"""Maximum wait for the first reading of a file. All files are read at the start."""
STALE_S = 5.0
_Answer = TypeVar("_Answer")
_LIMIT = "constraint_0_power_limit_uw"
_SETTINGS = (_LIMIT, "enabled")
_MOVING = ("energy_uj", "busy_percent", "memory_used_bytes")
_EVERY_S = {
    **dict.fromkeys(_SETTINGS, 0.5),
    "energy_uj": 0.2,
    "busy_percent": 1.0,
    "memory_used_bytes": 1.0,
}
"""Files that are read repeatedly, with their intervals. All other files do not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    text: str = ""
    failure: OSError | None = None
    at_s: float


@dataclass(slots=True, kw_only=True)
class _Setting:
    file: str
    text: str
    begun: bool = False
    done: bool = False
    failure: OSError | None = None


class _Device:
    """One device and its thread."""

    def __init__(self, files: ZoneFiles, folder: str, deadline_s: float, stale_s: float) -> None:
        self._files = files
        self._folder = folder
        self._deadline_s = deadline_s
        self._stale_s = stale_s
        self._change = threading.Condition()
        self._values: dict[str, _Value] = {}
        self._asked: set[str] = set(_MOVING)
        self._may: dict[tuple[str, int], bool | None] = {}
        self._setting: _Setting | None = None
        self._called_s: float | None = None
        """Start of the pending call to the device; None = no pending call."""
        self._told_slow = False
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"ask-{folder}", daemon=True)
        self._thread.start()

    def read(self, file: str) -> tuple[str, int]:
        """Return the text and its age in nanoseconds. Raises OSError."""
        with self._change:
            if file not in self._values or self._passing(file):
                self._values.pop(file, None)
                self._asked.add(file)
                self._change.notify_all()
                self._wait_first(lambda: file in self._values)
            value = self._values.get(file)
            coming = self._coming(file)
            if coming is not None:
                known = [int(value.text)] if value and value.text else []
                return str(max(coming, *known)), 0
            if value is None:
                raise self._late()
            age_s = time.monotonic() - value.at_s
            if file in _EVERY_S and age_s > self._stale_s:
                raise self._late()
            if value.failure is not None:
                raise OSError(value.failure.errno, value.failure.strerror)
            return value.text, int(age_s * NS_PER_S) if file in _EVERY_S else 0

    def _passing(self, file: str) -> bool:
        """Whether a constant file exists but could not be read, so that it is read again."""
        failure = self._values[file].failure
        there = failure is not None and not isinstance(failure, FileNotFoundError)
        return there and file not in _EVERY_S

    def write(self, file: str, text: str) -> None:
        """Set a value and read it back, within the deadline. Raises OSError."""
        with self._change:
            if self._setting is not None or self._slow():
                raise self._late()
            setting = self._setting = _Setting(file=file, text=text)
            self._asked.update(_SETTINGS)
            self._change.notify_all()
            self._change.wait_for(lambda: setting.done, self._deadline_s)
            if not setting.done:
                if not setting.begun:
                    self._setting = None
                raise self._late()
            if setting.failure is not None:
                raise setting.failure

    def may(self, file: str, mode: int) -> bool:
        """Whether the value has this access, determined once. Returns False on a timeout."""
        with self._change:
            known = self._may.setdefault((file, mode), None)
            if known is None:
                self._change.notify_all()
                self._wait_first(lambda: self._may[file, mode] is not None)
            return bool(self._may[file, mode])

    def stop(self) -> None:
        """End the thread if its device answers."""
        with self._change:
            self._stopped = True
            self._change.notify_all()
        self._thread.join(self._deadline_s)

    def _wait_first(self, there: Callable[[], bool]) -> None:
        """Wait until the value is available, but not on a device that is already late."""
        self._change.wait_for(lambda: there() or self._slow(), FIRST_S)

    def _coming(self, file: str) -> int | None:
        """Return a limit that may take effect at any moment; None = no such limit."""
        setting = self._setting
        if file != _LIMIT or setting is None or setting.file != _LIMIT or not setting.begun:
            return None
        return int(setting.text)

    def _slow(self) -> bool:
        """Whether the pending call takes longer than the deadline."""
        return self._called_s is not None and time.monotonic() - self._called_s > self._deadline_s

    def _late(self) -> TimeoutError:
        since_s = time.monotonic() - self._called_s if self._called_s is not None else 0.0
        if not self._told_slow:
            self._told_slow = True
            logs.warning("device_not_responding", device=self._folder, since_s=round(since_s, 2))
        why = f"{self._folder}: its driver has not answered for {since_s:.1f} s"
        return TimeoutError(errno.ETIMEDOUT, why)

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(self._something_to_do, self._idle_s())
                if self._stopped:
                    return
                setting = self._setting
                wanted = [name for name, known in self._may.items() if known is None]
            if setting is not None:
                self._set(setting)
            for file, mode in wanted:
                answer = self._files.may(self._folder, file, mode)
                with self._change:
                    self._may[file, mode] = answer
                    self._change.notify_all()
            for file in self._due():
                self._take(file)

    def _something_to_do(self) -> bool:
        new = self._asked - self._values.keys() or None in self._may.values()
        return bool(self._stopped or self._setting is not None or new)

    def _idle_s(self) -> float:
        """Return the time until a value has to be read again."""
        now_s = time.monotonic()
        known = [
            (file, self._values[file].at_s)
            for file in self._asked & _EVERY_S.keys()
            if file in self._values
        ]
        return max(0.0, min((at_s + _EVERY_S[f] - now_s for f, at_s in known), default=1.0))

    def _due(self) -> list[str]:
        now_s = time.monotonic()
        with self._change:
            return [
                file
                for file in self._asked
                if file not in self._values
                or (file in _EVERY_S and now_s - self._values[file].at_s >= _EVERY_S[file])
            ]

    def _set(self, setting: _Setting) -> None:
        with self._change:
            if self._setting is not setting:
                return
            setting.begun = True
        try:
            self._call(lambda: self._files.write(self._folder, setting.file, setting.text))
        except OSError as error:
            setting.failure = error
        for file in _SETTINGS:
            self._take(file)
        with self._change:
            setting.done, self._setting = True, None
            self._change.notify_all()

    def _take(self, file: str) -> None:
        try:
            text = self._call(lambda: self._files.read(self._folder, file))
            value = _Value(text=text, at_s=time.monotonic())
        except OSError as error:
            value = _Value(failure=error, at_s=time.monotonic())
        with self._change:
            self._values[file] = value
            self._change.notify_all()

    def _call(self, what: Callable[[], _Answer]) -> _Answer:
        with self._change:
            self._called_s = time.monotonic()
        try:
            return what()
        finally:
            with self._change:
                self._called_s = None
                self._told_slow = False


class TimedFiles:
    """The zones of other files. No call takes longer than a deadline."""

    def __init__(
        self, files: ZoneFiles, *, deadline_s: float = DEADLINE_S, stale_s: float = STALE_S
    ) -> None:
        self._files = files
        self._folders = files.folders()
        self._devices = {
            folder: _Device(files, folder, deadline_s, stale_s) for folder in self._folders
        }

    def folders(self) -> list[str]:
        """Return the folders found at the start."""
        return list(self._folders)

    def read(self, folder: str, file: str) -> str:
        """Return the last text read. Raises OSError."""
        return self._device(folder).read(file)[0]

    def read_counter(self, folder: str, file: str) -> tuple[str, int]:
        """Return the last text read and its age in nanoseconds. Raises OSError."""
        return self._device(folder).read(file)

    def write(self, folder: str, file: str, text: str) -> None:
        """Replace the value. Raises OSError. After a timeout, the value may still take effect."""
        self._device(folder).write(file, text)

    def may(self, folder: str, file: str, mode: int = os.R_OK) -> bool:
        """Whether this account has this access to the value, determined once."""
        return self._device(folder).may(file, mode)

    def path(self, folder: str, file: str = "") -> Path:
        """See `ZoneFiles`."""
        return self._files.path(folder, file)

    def close(self) -> None:
        """End the threads whose devices answer."""
        for device in self._devices.values():
            device.stop()

    def _device(self, folder: str) -> _Device:
        try:
            return self._devices[folder]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such device", folder) from None
