"""Devices that do not answer delay no caller, and limits are never reported too low."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wattfold.nodeagent.adapters.devices.timed_files import TimedFiles
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.devices.zone_search import discover

LIMIT = "constraint_0_power_limit_uw"
FAR_S = 30.0


class Device:
    """Two zones. Calls to the first zone block while ``answers`` is not set."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.asked = threading.Event()
        self.failure: OSError | None = None
        self.values = {
            (folder, file): text
            for folder in ("drm:a", "drm:b")
            for file, text in {
                "name": f"gpu-{folder[-1]}",
                "constraint_0_name": "long_term",
                LIMIT: "300000000",
                "constraint_0_min_power_uw": "100000000",
                "constraint_0_max_power_uw": "300000000",
                "energy_uj": "5",
                "max_energy_range_uj": "0",
            }.items()
        }
        self.written: list[tuple[str, str]] = []

    def folders(self) -> list[str]:
        return ["drm:a", "drm:b"]

    def read(self, folder: str, file: str) -> str:
        self._wait(folder)
        if self.failure is not None and folder == "drm:a":
            raise self.failure
        try:
            return self.values[folder, file]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such value", file) from None

    def read_counter(self, folder: str, file: str) -> tuple[str, int]:
        return self.read(folder, file), 0

    def write(self, folder: str, file: str, text: str) -> None:
        self._wait(folder)
        self.values[folder, file] = text
        self.written.append((folder, text))

    def may(self, folder: str, file: str, mode: int) -> bool:
        return (folder, file) in self.values

    def path(self, folder: str, file: str = "") -> Path:
        return Path("/nowhere") / folder / file

    def _wait(self, folder: str) -> None:
        if folder == "drm:a":
            self.asked.set()
            assert self.answers.wait(FAR_S)


@pytest.fixture
def device() -> Iterator[Device]:
    made = Device()
    yield made
    made.answers.set()


@pytest.fixture
def files(device: Device) -> Iterator[TimedFiles]:
    made = TimedFiles(device, deadline_s=0.1, stale_s=0.5)
    yield made
    device.answers.set()
    made.close()


def until(what: Callable[[], bool]) -> None:
    end_s = time.monotonic() + FAR_S
    while not what():
        assert time.monotonic() < end_s
        threading.Event().wait(0.01)


def hang(device: Device) -> None:
    """Block the thread of the first zone in a call that does not end."""
    device.answers.clear()
    device.asked.clear()
    assert device.asked.wait(FAR_S)


def test_zones_are_as_without_threads(device: Device, files: TimedFiles) -> None:
    first, second = discover(files, RangeSetting())
    plain = discover(device, RangeSetting())
    assert [zone.limits for zone in (first, second)] == [zone.limits for zone in plain]
    assert first.write_cap_uw(200_000_000) == 200_000_000
    assert device.written == [("drm:a", "200000000")]
    until(lambda: first.look().cap_uw == 200_000_000)


def test_a_value_gets_old_and_then_is_none(device: Device, files: TimedFiles) -> None:
    first, second = discover(files, RangeSetting())
    hang(device)
    text, age_ns = files.read_counter("drm:a", "energy_uj")
    until(lambda: files.read_counter("drm:a", "energy_uj")[1] > age_ns)
    assert (text, second.read_energy()[0]) == ("5", 5)

    def old() -> bool:
        try:
            first.read_energy()
        except TimeoutError as error:
            return "has not answered for" in str(error)
        return False

    until(old)
    device.values["drm:a", "energy_uj"] = "7"
    device.answers.set()
    until(lambda: not old() and first.read_energy()[0] == 7)


def test_a_setting_that_was_not_begun_is_never_made(device: Device, files: TimedFiles) -> None:
    first, second = discover(files, RangeSetting())
    hang(device)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            first.write_cap_uw(200_000_000)
    assert second.write_cap_uw(150_000_000) == 150_000_000
    device.answers.set()
    until(lambda: files.read_counter("drm:a", "energy_uj")[1] < 100_000_000)
    assert device.written == [("drm:b", "150000000")]


def test_a_limit_that_may_come_is_told_as_if_it_held(device: Device, files: TimedFiles) -> None:
    first, _ = discover(files, RangeSetting())
    assert first.write_cap_uw(200_000_000) == 200_000_000
    entered = threading.Event()
    release = threading.Event()
    put = device.write

    def slow(folder: str, file: str, text: str) -> None:
        entered.set()
        assert release.wait(FAR_S)
        put(folder, file, text)

    device.write = slow  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        first.write_cap_uw(250_000_000)
    assert entered.is_set()
    assert first.read_cap_uw() == 250_000_000
    with pytest.raises(TimeoutError):
        first.write_cap_uw(100_000_000)
    assert first.read_cap_uw() == 250_000_000
    release.set()
    device.write = put  # type: ignore[method-assign]
    until(lambda: len(device.written) == 2)
    until(lambda: first.look().cap_uw == 250_000_000)
    until(lambda: _sets(first.write_cap_uw, 100_000_000))
    assert first.read_cap_uw() == 100_000_000


def _sets(write: Callable[[int], int], cap_uw: int) -> bool:
    try:
        return write(cap_uw) == cap_uw
    except TimeoutError:
        return False


def test_failures_are_those_of_the_device_and_pass(device: Device, files: TimedFiles) -> None:
    device.failure = OSError(errno.EIO, "it must be reset")
    with pytest.raises(OSError, match="it must be reset"):
        files.read("drm:a", "name")
    device.failure = None
    assert files.read("drm:a", "name") == "gpu-a"
    with pytest.raises(FileNotFoundError):
        files.read("drm:a", "enabled")
    with pytest.raises(FileNotFoundError):
        files.read("drm:c", "name")
