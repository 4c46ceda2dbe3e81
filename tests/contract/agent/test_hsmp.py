"""AMD packages: energy from powercap, limits through a simulated firmware port."""

import dataclasses
import errno
import os
from pathlib import Path

import pytest

from wattfold.nodeagent import guard_writes
from wattfold.nodeagent.adapters.devices import hsmp
from wattfold.nodeagent.adapters.devices.hsmp import (
    GET_LIMIT,
    GET_LIMIT_MAX,
    SET_LIMIT,
    HsmpDevice,
    HsmpFiles,
    JoinedFiles,
    with_hsmp,
)
from wattfold.nodeagent.adapters.devices.powercap_files import RealFiles
from wattfold.nodeagent.adapters.devices.zone_facts import read_machine, read_zones
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.devices.zone_search import discover
from wattfold.nodeagent.core.findings import Status, capping
from wattfold.nodeagent.emulation.fixtures import load_fixture
from wattfold.nodeagent.emulation.memory_files import MemoryFiles
from wattfold.nodeagent.emulation.tree_model import TreeModel

RANGES = RangeSetting(package_uw_min=100_000_000)


class Sockets:
    """Two EPYC sockets (family 19h): limit 200 W, at most 240 W; higher limits are clipped
    silently.
    """

    def __init__(self) -> None:
        self.limits_mw = [200_000, 200_000]
        self.refuses = False

    def ask(self, socket: int, message: int) -> int:
        if socket >= len(self.limits_mw):
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return {GET_LIMIT: self.limits_mw[socket], GET_LIMIT_MAX: 240_000}[message]

    def tell(self, socket: int, message: int, word: int) -> None:
        if self.refuses or message != SET_LIMIT:
            raise OSError(errno.EREMOTEIO, os.strerror(errno.EREMOTEIO))
        self.limits_mw[socket] = min(word, 240_000)


@pytest.fixture
def sockets() -> Sockets:
    return Sockets()


@pytest.fixture
def files(sockets) -> JoinedFiles:
    energy = MemoryFiles(TreeModel(load_fixture("epyc-19h-2s").machine))
    return JoinedFiles([energy, HsmpFiles(sockets)])


def test_a_package_is_measured_here_and_capped_there(files, sockets):
    zones = {zone.name: zone for zone in discover(files, RANGES)}
    assert set(zones) == {"package-0", "package-1"}
    package = zones["package-1"]
    assert not package.cannot_cap
    assert not package.cannot_measure
    assert package.twins == ["hsmp:1"]
    assert package.limits is not None
    assert (package.limits.cap_uw_min, package.limits.cap_uw_max) == (100_000_000, 240_000_000)
    assert package.write_cap_uw(150_000_000) == 150_000_000
    assert sockets.limits_mw == [200_000, 150_000]
    assert package.enabled()


def test_limits_are_saved_and_restored(files, sockets):
    package = discover(files, RANGES)[0]
    before = package.snapshot()
    assert before == {"hsmp:0/constraint_0_power_limit_uw": 200_000_000}
    package.saved(before)
    package.write_cap_uw(120_000_000)
    assert package.restore(before) == {}
    assert sockets.limits_mw[0] == 200_000


def test_a_port_that_refuses_is_an_error_of_the_zone(files, sockets):
    package = discover(files, RANGES)[0]
    sockets.refuses = True
    with pytest.raises(OSError, match=os.strerror(errno.EREMOTEIO)):
        package.write_cap_uw(120_000_000)
    assert list(package.restore({"hsmp:0/constraint_0_power_limit_uw": 1})) != []
    assert package.read_cap_uw() == 200_000_000


def test_the_firmware_clips_and_what_it_holds_is_answered(files):
    assert discover(files, RANGES)[0].write_cap_uw(300_000_000) == 240_000_000


def test_only_limits_can_be_written(sockets):
    with pytest.raises(PermissionError):
        HsmpFiles(sockets).write("hsmp:0", "constraint_0_max_power_uw", "1")


def test_the_guard_is_told_a_place_that_it_knows(files):
    writes = discover(files, RANGES)[1].floor_writes()
    assert writes == [(Path("/dev/hsmp/hsmp:1/constraint_0_power_limit_uw"), "100000000")]


@pytest.mark.skipif(Path("/dev/hsmp").exists(), reason="would set a limit of this machine")
def test_the_guard_says_why_it_could_not_set_a_socket():
    path = "/dev/hsmp/hsmp:1/constraint_0_power_limit_uw"
    assert guard_writes._write(path, "100000000") == os.strerror(errno.ENOENT)


def test_agent_and_guard_agree_on_the_message():
    assert guard_writes._HSMP_MESSAGE.format == hsmp._MESSAGE.format
    assert guard_writes._HSMP_MESSAGE.size == 44
    assert guard_writes._HSMP_COMMAND == hsmp._COMMAND == 0xC02CF800


def test_what_is_no_such_device_has_no_sockets(tmp_path):
    assert isinstance(with_hsmp(RealFiles(tmp_path), tmp_path / "absent"), RealFiles)
    odd = tmp_path / "hsmp"
    odd.write_bytes(b"")
    with pytest.raises(OSError, match=os.strerror(errno.ENOTTY)):
        HsmpDevice(odd).ask(0, GET_LIMIT)
    assert with_hsmp(RealFiles(tmp_path), odd).folders() == []


def test_the_check_names_the_range(files, tmp_path):
    zone = read_zones(files, RANGES)[0]
    assert zone.long_term is not None
    assert zone.long_term.limit_uw == 200_000_000
    assert zone.twins == ()
    writable = zone.long_term.__class__(limit_uw=200_000_000, writable=True)
    found = capping(dataclasses.replace(zone, long_term=writable), read_machine(tmp_path, tmp_path))
    assert [f.status for f in found] == [Status.OK]
    assert "from 100 to 240 W" in found[0].finding
