"""The same cases on a plain-file tree and on the live emulated tree, and cases of real trees."""

from pathlib import Path

import pytest
from contract.agent.powercap_trees import two_sockets_reversed, zone

from wattfold.nodeagent.adapters.devices.emulated_zones import (
    AcceptedValues,
    EmulatedFirmware,
    EmulatedTree,
)
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.devices.zone_search import discover
from wattfold.nodeagent.adapters.jobs.cpu_time import CpuClock
from wattfold.nodeagent.adapters.jobs.throttle import SignalThrottle
from wattfold.nodeagent.core.caps import ZoneKind
from wattfold.nodeagent.core.emulation_model import EmulationModel

SPEC = AcceptedValues(
    package_uw_min=25_000_000,
    package_uw_max=95_000_000,
    dram_uw_min=8_000_000,
    dram_uw_max=35_000_000,
    window_us=100_000,
    energy_range_uj=3_000_000,
)
RANGES = RangeSetting(package_uw_min=25_000_000, dram_uw_min=8_000_000)
MODEL = EmulationModel(
    a=2.63,
    b=8.36,
    c=13,
    f_low_ghz=1.2,
    f_high_ghz=2,
    dram_idle_w=2,
    dram_dynamic_w=6,
    cpu_share=1,
    cores=2,
)


@pytest.fixture(params=["files", "emulated"])
def root(request, tmp_path):
    """A tree with package-0 (25..95 W) and its DRAM (8..35 W)."""
    if request.param == "files":
        package = zone(tmp_path / "intel-rapl:0", "package-0", 95, 95)
        zone(package / "intel-rapl:0:0", "dram", 35, 35)
        yield tmp_path
        return
    clock = CpuClock(tmp_path / "none", "n", use_cgroups=False)
    tree = EmulatedTree(tmp_path / "tree", SPEC)
    firmware = EmulatedFirmware(tree, MODEL, SignalThrottle(tmp_path), clock)
    firmware.start()
    yield tmp_path / "tree"
    firmware.stop()


def test_zones_are_found_once_by_name(root):
    zones = discover(root, RANGES)
    assert [z.name for z in zones] == ["dram-0", "package-0"]
    assert [z.kind for z in zones] == [ZoneKind.DRAM, ZoneKind.PACKAGE]
    assert all(not z.cannot_cap and not z.cannot_measure for z in zones)


def test_ranges_and_windows(root):
    package = discover(root, RANGES)[1]
    assert package.limits is not None
    assert (package.limits.cap_uw_min, package.limits.cap_uw_max) == (25_000_000, 95_000_000)
    assert package.limits.floor_uw == 25_000_000
    assert package.window_ns > 0


def test_what_is_written_is_read_back(root):
    package = discover(root, RANGES)[1]
    assert package.write_cap_uw(40_125_000) == 40_125_000
    assert package.read_cap_uw() == 40_125_000


def test_a_shorter_number_leaves_no_old_digits(root):
    dram = discover(root, RANGES)[0]
    dram.write_cap_uw(30_000_000)
    assert dram.write_cap_uw(9_000_000) == 9_000_000


def test_a_snapshot_can_be_restored(root):
    package = discover(root, RANGES)[1]
    before = package.snapshot()
    package.write_cap_uw(30_000_000)
    assert package.restore(before) == {}
    assert package.read_cap_uw() == 95_000_000


def test_energy_is_readable_and_below_its_range(root):
    package = discover(root, RANGES)[1]
    assert 0 <= package.read_energy()[0] < package.range_uj


def test_identity_is_the_name_not_the_index(tmp_path):
    zones = {z.name: z for z in discover(two_sockets_reversed(tmp_path), RangeSetting())}
    assert set(zones) == {"package-0", "package-1", "dram-0", "psys"}
    assert zones["package-1"].path.name == "intel-rapl:0"
    assert "psys" in zones["psys"].cannot_cap
    # The maximum is below the current limit but is still part of the range of the zone.
    limits = zones["package-0"].limits
    assert limits is not None
    assert (limits.cap_uw_min, limits.cap_uw_max) == (41_250_000, 165_000_000)


def test_both_limits_are_set_and_a_disabled_zone_enabled(tmp_path):
    zones = {z.name: z for z in discover(two_sockets_reversed(tmp_path), RangeSetting())}
    zones["package-0"].write_cap_uw(100_000_000)
    short = tmp_path / "intel-rapl:a" / "constraint_1_power_limit_uw"
    assert short.read_text() == "100000000"
    zones["dram-0"].write_cap_uw(20_000_000)
    assert (tmp_path / "intel-rapl:a/intel-rapl:a:0/enabled").read_text().strip() == "1"


def test_constraints_are_matched_by_name(tmp_path):
    zone(
        tmp_path / "intel-rapl:0",
        "package-0",
        10,
        10,
        constraint_0_name="short_term",
        constraint_1_name="long_term",
        constraint_1_power_limit_uw=80_000_000,
        constraint_1_max_power_uw=120_000_000,
        constraint_1_time_window_us=1000,
    )
    package = discover(tmp_path, RangeSetting())[0]
    assert package.read_cap_uw() == 80_000_000
    assert package.limits is not None
    assert package.limits.cap_uw_max == 120_000_000


def test_an_energy_only_zone_can_be_measured_not_capped(tmp_path):
    folder = zone(tmp_path / "intel-rapl:0", "package-0", 1, 1)
    for path in folder.glob("constraint_0_*"):
        path.unlink()
    package = discover(tmp_path, RangeSetting())[0]
    assert "energy only" in package.cannot_cap
    assert not package.cannot_measure


def test_an_unlimited_limit_is_no_range(tmp_path):
    zone(tmp_path / "intel-rapl:0", "package-0", 4090, 0)
    assert "package_max_w" in discover(tmp_path, RangeSetting())[0].cannot_cap
    configured = discover(tmp_path, RangeSetting(package_uw_max=95_000_000))[0]
    assert not configured.cannot_cap


def test_unreadable_energy_is_a_reason_not_zero_watts(tmp_path):
    folder = zone(tmp_path / "intel-rapl:0", "package-0", 90, 90)
    (folder / "energy_uj").unlink()
    package = discover(tmp_path, RangeSetting())[0]
    assert "unreadable" in package.cannot_measure
    assert not package.cannot_cap


def test_no_tree_no_zones(tmp_path: Path):
    assert discover(tmp_path / "absent", RangeSetting()) == []
