"""Properties of every zone that accepts caps, for each implementation of the port."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from contract.agent.fake_nvml import FakeNvml, Gpu
from contract.agent.test_hsmp import Sockets

from wattfold.nodeagent.adapters.devices.hsmp import HsmpFiles, JoinedFiles
from wattfold.nodeagent.adapters.devices.nvml import NvmlFiles
from wattfold.nodeagent.adapters.devices.powercap import PowercapZone
from wattfold.nodeagent.adapters.devices.powercap_files import ZoneFiles
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.devices.zone_search import discover
from wattfold.nodeagent.emulation.fixtures import load_fixture
from wattfold.nodeagent.emulation.memory_files import MemoryFiles
from wattfold.nodeagent.emulation.tree_model import TreeModel

UUID = "GPU-5a1f2c3d-0000-1111-2222-333344445555"
RANGES = RangeSetting(package_uw_min=50_000_000)


@dataclass(frozen=True, slots=True)
class Subject:
    """A zone, a cap in its range, and a function that makes its device refuse."""

    files: ZoneFiles
    name: str
    cap_uw: int
    refuse: Callable[[], None]

    def zone(self) -> PowercapZone:
        return {zone.name: zone for zone in discover(self.files, RANGES)}[self.name]


def powercap() -> Subject:
    model = TreeModel(load_fixture("xeon-8260-4s").machine)
    locked = "constraint_0_power_limit_uw"

    def refuse() -> None:
        for limit in model.zones["intel-rapl:1"].limits:
            limit.locked = True

    assert locked in model.files("intel-rapl:1")
    return Subject(MemoryFiles(model), "package-1", 100_000_000, refuse)


def hsmp() -> Subject:
    sockets = Sockets()
    energy = MemoryFiles(TreeModel(load_fixture("epyc-19h-2s").machine))

    def refuse() -> None:
        sockets.refuses = True

    return Subject(JoinedFiles([energy, HsmpFiles(sockets)]), "package-1", 150_000_000, refuse)


def gpu() -> Subject:
    library = FakeNvml(Gpu(uuid=UUID))
    library.nvmlInit()
    name = f"gpu-{UUID.removeprefix('GPU-')}"

    def refuse() -> None:
        library.root = False

    return Subject(NvmlFiles(library, privileged=True), name, 350_000_000, refuse)


@pytest.fixture(params=[powercap, hsmp, gpu], ids=lambda make: make.__name__)
def subject(request) -> Subject:
    return request.param()


def test_it_can_be_capped_and_measured(subject):
    zone = subject.zone()
    assert (zone.cannot_cap, zone.cannot_measure) == ("", "")
    assert zone.limits is not None
    assert 0 < zone.limits.cap_uw_min <= zone.limits.floor_uw <= zone.limits.cap_uw_max
    assert zone.window_ns > 0
    assert zone.read_energy()[0] > 0


def test_what_is_set_is_read_back(subject):
    zone = subject.zone()
    assert zone.write_cap_uw(subject.cap_uw) == subject.cap_uw
    assert zone.read_cap_uw() == subject.cap_uw
    assert zone.enabled()


def test_every_cap_of_the_range_is_held(subject):
    zone = subject.zone()
    for cap_uw in (zone.limits.cap_uw_min, zone.limits.cap_uw_max, zone.limits.floor_uw):
        assert zone.write_cap_uw(cap_uw) == cap_uw


def test_what_was_there_is_restored(subject):
    zone = subject.zone()
    before = zone.snapshot()
    assert before
    zone.saved(before)
    zone.write_cap_uw(subject.cap_uw)
    assert zone.snapshot() != before
    assert zone.restore(before) == {}
    assert zone.snapshot() == before


def test_a_refusal_is_an_error_and_changes_nothing(subject):
    zone = subject.zone()
    held_uw = zone.read_cap_uw()
    subject.refuse()
    with pytest.raises(OSError, match=r".") as caught:
        zone.write_cap_uw(subject.cap_uw)
    assert caught.value.errno in (errno.ENODATA, errno.EREMOTEIO, errno.EACCES)
    assert zone.read_cap_uw() == held_uw


def test_what_could_not_be_saved_is_not_capped(subject):
    zone = subject.zone()
    zone.saved({})
    assert "could not be saved" in zone.cannot_cap
    assert zone.floor_writes() == []


def test_the_guard_is_told_the_floor(subject):
    zone = subject.zone()
    values = {path.name: value for path, value in zone.floor_writes()}
    assert values["constraint_0_power_limit_uw"] == str(zone.limits.floor_uw)
    assert values.get("enabled", "1") == "1"
